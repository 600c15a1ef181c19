"""ignore: which entries of a folder are left out, in the syntax of .gitignore.

Of all patterns that match an entry the strongest decides, as in git; `!pattern` includes it again.

    strongest   the caller's, relative to the root
                `.gristmillignore` of the folder itself, then of each folder above it, up to the root
    weakest     the built-in ones: version control, caches, installed packages, locks, half-written files

Names with a leading dot are left out before any pattern is checked, unless `hidden` is set. The rules never fail open:
a `.gristmillignore` that can't be read, or has an invalid pattern, fails its folder, because what a user tried to
exclude must not become searchable.
"""

import errno
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from gristmill.errors import Invalid, Unreadable

IGNORE_FILE = ".gristmillignore"

# Two lists, matched against the bare name: a pattern can match folders only, but not files only, and a folder named
# `second.part` is no half-written file.
BUILT_IN_FOLDERS = (
    # version control, caches and installed packages
    *(".git", ".hg", ".svn", ".bzr", "node_modules", "bower_components", "__pycache__", ".venv", "venv"),
    *(".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".cache", ".idea", ".vscode"),
    # of operating systems and file servers
    *("$RECYCLE.BIN", "System Volume Information", "lost+found", "@eaDir"),
)
BUILT_IN_FILES = (
    *("*.pyc", "*.pyo", "[Tt]humbs.db", "ehthumbs.db", "[Dd]esktop.ini", ".DS_Store", "._*"),
    # locks of Office programs, copies of editors, files that are still being written
    *(
        "~$*",
        ".~lock.*#",
        "*~",
        "*.swp",
        "*.tmp",
        "*.temp",
        "*.part",
        "*.partial",
        "*.crdownload",
        "*.download",
    ),
)

_MAX_FILE_BYTES = 1024 * 1024
_MAX_PATTERN_LENGTH = 1000
# Matching backtracks, and blocks everything else: for the worst name, three stars take 3 ms, four 0.3 s, ten never end.
_MAX_STARS = 3
_MAX_DOUBLE_STARS = 2


@dataclass(frozen=True)
class IgnoreRules:
    """The caller's rules, in addition to the built-in patterns and those of the folders. Raises Invalid."""

    patterns: tuple[str, ...] = ()
    hidden: bool = False

    def __post_init__(self) -> None:
        try:
            _compile(self.patterns)
        except ValueError as error:
            raise Invalid(str(error), code="invalid_pattern") from error


class IgnoreMatcher:
    """All rules that apply in one folder."""

    def __init__(self, layers: list[tuple[GitIgnoreSpec, str]], hidden: bool) -> None:
        self._layers = layers
        self._hidden = hidden

    @classmethod
    def for_folder(cls, rules: IgnoreRules, root: Path, folder: Path) -> "IgnoreMatcher":
        """Read the rules for `folder`, which is `root` or below it. Blocking; raises Unreadable."""
        steps = folder.relative_to(root).parts
        layers = [(_compile(rules.patterns), _prefix(steps))] if rules.patterns else []
        for depth in range(len(steps), -1, -1):
            spec = _folder_patterns(root.joinpath(*steps[:depth]))
            if spec is not None:
                layers.append((spec, _prefix(steps[depth:])))
        return cls(layers, rules.hidden)

    def is_ignored(self, name: str, *, is_folder: bool) -> bool:
        """Whether the entry `name` is left out; patterns that end in a slash match folders only."""
        if name == IGNORE_FILE or (name.startswith(".") and not self._hidden):
            return True
        for spec, prefix in self._layers:
            is_excluded = spec.check_file(f"{prefix}{name}{'/' if is_folder else ''}").include
            if is_excluded is not None:
                return is_excluded
        return (_BUILT_IN_FOLDER_PATTERNS if is_folder else _BUILT_IN_FILE_PATTERNS).match_file(name)


def is_left_out(rules: IgnoreRules, root: Path, folder: Path) -> bool:
    """Whether `folder`, or a folder above it, is left out of `root`, whose contents are listed. So is one whose rules can't be
    read. Blocking."""
    above = root
    for name in folder.relative_to(root).parts:
        try:
            if IgnoreMatcher.for_folder(rules, root, above).is_ignored(name, is_folder=True):
                return True
        except Unreadable:
            return True
        above /= name
    return False


def _prefix(steps: tuple[str, ...]) -> str:
    return "".join(f"{step}/" for step in steps)


def _folder_patterns(folder: Path) -> GitIgnoreSpec | None:
    path = folder / IGNORE_FILE
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise ValueError(f"it is longer than {_MAX_FILE_BYTES:,} bytes")
        return _compile(data.decode("utf-8-sig").splitlines())
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENOTDIR:  # the folder itself is gone, which its listing reports
            return None
        raise Unreadable(f"{path}: {error.strerror}", code="bad_ignore_file") from error
    except ValueError as error:
        raise Unreadable(f"{path} can't be used: {error}.", code="bad_ignore_file") from error


def _compile(lines: Iterable[str]) -> GitIgnoreSpec:
    """Compile the patterns; ValueError names the first invalid one."""
    patterns: list[str] = []
    for line in lines:
        if line.startswith("#"):
            continue
        double = line.count("**")
        if line.count("*") - 2 * double > _MAX_STARS or double > _MAX_DOUBLE_STARS:
            reason = f"has more than {_MAX_STARS} single or {_MAX_DOUBLE_STARS} double stars"
            raise ValueError(f"{line[:60]!r} {reason}")
        if len(line) > _MAX_PATTERN_LENGTH:
            raise ValueError(f"{line[:60]!r} is longer than {_MAX_PATTERN_LENGTH:,} characters")
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error) as error:
            raise ValueError(f"{line[:60]!r} is not a pattern") from error
        patterns.append(line)
    return GitIgnoreSpec.from_lines(patterns)


_BUILT_IN_FOLDER_PATTERNS = _compile(BUILT_IN_FOLDERS)
_BUILT_IN_FILE_PATTERNS = _compile(BUILT_IN_FILES)
