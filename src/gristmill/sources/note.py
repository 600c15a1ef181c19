"""A note: the text is the source."""

from dataclasses import dataclass

from gristmill.sources.source import Original


@dataclass(frozen=True)
class NoteSource:
    """A text that somebody typed."""

    text: str
    title: str

    async def probe(self) -> int:
        """The length of the text in bytes."""
        return len(self.text.encode())

    async def read(self) -> Original:
        """The text."""
        return Original(self.text.encode(), self.title, charset="utf-8")
