"""The documentation as tests read it: pages, fenced blocks, tables, headings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gristmill"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) ([^\n]+)$", re.MULTILINE)
_FENCE_OR_HEADING = re.compile(f"{_FENCE.pattern}|{_HEADING.pattern}", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its text."""

    language: str
    text: str


def read(name: str) -> str:
    """The page at `name`, from the root of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def pages() -> list[Path]:
    """Every markdown file of the repository, whatever else lies in the folder."""
    folders = ("docs", "src", "tests", "bench")
    return sorted(
        [*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))]
    )


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(language, body) for language, body in _FENCE.findall(text)]


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", text)


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every table row, heads and rulers included."""
    for line in prose(text).splitlines():
        if line.startswith("| "):
            yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def headings(text: str) -> list[str]:
    """The text of every heading."""
    return [title for _, title in _HEADING.findall(prose(text))]


def sections(text: str) -> dict[str, str]:
    """What stands under each heading, up to the next one of any level, fenced blocks included."""
    matches = [match for match in _FENCE_OR_HEADING.finditer(text) if match[4] is not None]
    ends = [*(match.start() for match in matches[1:]), len(text)]
    return {match[4]: text[match.end() : end] for match, end in zip(matches, ends, strict=True)}


def anchor(heading: str) -> str:
    """What a heading is called in a link."""
    text = re.sub(r"[^\w\- ]", "", heading.lower())
    return text.replace(" ", "-")
