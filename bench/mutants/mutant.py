"""A mutant: one small change of the source that breaks a requirement, so that a test which names it must fail."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = Path("src/gristmill")


@dataclass(frozen=True)
class Mutant:
    """Replace `old`, which occurs exactly once in `file`, by `new`; that breaks `requirements`."""

    id: str
    file: str  # below src/gristmill
    old: str
    new: str
    requirements: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file, from the root of the repository."""
        return SOURCE / self.file

    def apply(self, text: str) -> str:
        """The file's text with the change; `ValueError` unless the old text occurs exactly once."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.id}: its old text occurs {count} times in {self.path}")
        return text.replace(self.old, self.new)
