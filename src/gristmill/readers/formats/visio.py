"""Visio drawings (vsdx): the text of the shapes, page by page."""

import re
import xml.parsers.expat
import zipfile

from gristmill.readers.formats import package
from gristmill.readers.sink import Sink, refuse_bomb

_PAGE = re.compile(r"visio/pages/page(\d+)\.xml", re.I)
_MAX_DEPTH = 500


def read(sink: Sink) -> None:
    """Read a drawing."""
    package.check(sink)
    with zipfile.ZipFile(sink.task.path) as archive:
        names = page_names(package.read_member(sink, archive, "visio/pages/pages.xml"))
        pages = sorted(
            (int(match[1]), match[0]) for match in map(_PAGE.fullmatch, archive.namelist()) if match
        )
        sink.report.pages_total = sink.report.pages_read = len(pages)
        for number, (file_number, member) in enumerate(pages, 1):
            sink.begin_page(number, len(pages))
            texts = shape_texts(package.read_member(sink, archive, member))
            name = names[file_number - 1] if file_number <= len(names) else f"Page {number}"
            if texts:
                sink.add_text(f"## {name}\n\n" + "".join(f"{text}\n\n" for text in texts), number)
    package.add_contents(sink, "", 0)
    if not sink.text_length and not sink.image_count and not sink.attachment_count:
        sink.warn("empty")


def page_names(data: bytes) -> list[str]:
    """The names of the pages, in order."""
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(":")[2] == "Page":
            names.append(attributes.get("NameU") or attributes.get("Name") or f"Page {len(names) + 1}")

    _parse(data, start=start)
    return names


def shape_texts(data: bytes) -> list[str]:
    """The texts of the shapes of a page, in order."""
    texts: list[str] = []
    pieces: list[str] = []
    is_open, depth = False, 0

    def start(tag: str, _attributes: dict[str, str]) -> None:
        nonlocal is_open, depth
        depth += 1
        if depth > _MAX_DEPTH:
            refuse_bomb("its shapes are nested without end")
        is_open = is_open or tag.rpartition(":")[2] == "Text"

    def end(tag: str) -> None:
        nonlocal is_open, depth
        depth -= 1
        if tag.rpartition(":")[2] == "Text":
            lines = (" ".join(line.split()) for line in "".join(pieces).replace("\u2028", "\n").split("\n"))
            if text := "\n".join(filter(None, lines)):
                texts.append(text)
            pieces.clear()
            is_open = False

    def data_handler(text: str) -> None:
        if is_open:
            pieces.append(text)

    _parse(data, start=start, end=end, text=data_handler)
    return texts


def _parse(data: bytes, **handlers: object) -> None:
    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = handlers["start"]  # pyright: ignore[reportAttributeAccessIssue]
    if "end" in handlers:
        parser.EndElementHandler = handlers["end"]  # pyright: ignore[reportAttributeAccessIssue]
        parser.CharacterDataHandler = handlers["text"]  # pyright: ignore[reportAttributeAccessIssue]
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError:
        return  # what came before it counts
