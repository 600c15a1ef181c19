"""XPS documents (xps, oxps): the text of each page, in lines as it is laid out."""

import re
import xml.parsers.expat
import zipfile
from dataclasses import dataclass

from gristmill.readers.formats import package
from gristmill.readers.sink import Sink

_PAGE = re.compile(r"(?:.*/)?Documents/(\d+)/Pages/(\d+)\.fpage", re.I)
_SAME_LINE = 0.4  # of the size of the letters
_PARAGRAPH_GAP = 1.8
_WORD_GAP = 0.15
_LETTER_WIDTH = 0.5  # of their size, where it is not known


@dataclass(frozen=True)
class _Run:
    """A run of letters, where it begins, and how large they are."""

    x: float
    y: float
    size: float
    text: str


def read(sink: Sink) -> None:
    """Read a document."""
    package.check(sink)
    with zipfile.ZipFile(sink.task.path) as archive:
        pages = sorted(
            (int(match[1]), int(match[2]), match[0])
            for match in map(_PAGE.fullmatch, archive.namelist())
            if match
        )
        sink.report.pages_total = sink.report.pages_read = len(pages)
        for number, (_, _, member) in enumerate(pages, 1):
            sink.begin_page(number, len(pages))
            if text := page_text(package.read_member(sink, archive, member)):
                sink.add_text(text + "\n\n", number)
    if not sink.text_length:
        package.add_contents(sink, "", 0)  # its pages may be images


def page_text(data: bytes) -> str:
    """The text of a page: its runs in the order of the file, joined to lines and paragraphs by where they are."""
    output: list[str] = []
    last: _Run | None = None
    for run in _runs(data):
        if last is not None:
            size = max(run.size, last.size)
            if abs(run.y - last.y) <= _SAME_LINE * size:
                end = last.x + len(last.text) * _LETTER_WIDTH * last.size
                has_space = last.text.endswith(" ") or run.text.startswith(" ")
                output.append(" " if not has_space and run.x - end > _WORD_GAP * size else "")
            else:
                output.append("\n\n" if not 0 < run.y - last.y <= _PARAGRAPH_GAP * size else "\n")
        output.append(run.text)
        last = run
    lines = (" ".join(line.split()) for line in "".join(output).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _runs(data: bytes) -> list[_Run]:
    runs: list[_Run] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        text = attributes.get("UnicodeString", "")
        if tag.rpartition(":")[2] != "Glyphs" or not text:
            return
        text = text.removeprefix("{}")  # it says that the text may begin with a brace
        numbers = [_number(attributes.get(name)) for name in ("OriginX", "OriginY", "FontRenderingEmSize")]
        runs.append(_Run(numbers[0], numbers[1], numbers[2] or 10.0, text))

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = start
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError:
        return runs  # what came before it counts
    return runs


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
