"""iWork documents (pages, numbers, key): their text, as far as it can be read without Apple's programs.

    since 2013      the texts of their archives (`iwa.py`), without layout; those of templates are left out
    iWork '09       the paragraphs and cells of their XML
    neither         the preview, a PDF, if the document has one

Only text is read, in the order of the file: the report says `partial_text`. A document of which nothing can be read is refused, with
the advice to export it.
"""

import dataclasses
import gzip
import io
import re
import xml.parsers.expat
import zipfile
import zlib
from collections.abc import Iterator

from gristmill.readers import iwa
from gristmill.readers.formats import package, pdf
from gristmill.readers.sink import DocumentRefused, Sink

_OLD_INDEX = ("index.xml", "index.apxl", "index.xml.gz", "index.apxl.gz")
_PREVIEWS = ("QuickLook/Preview.pdf", "preview.pdf", "Preview.pdf")
_TEMPLATES = re.compile(
    r"(?:^|/)(?:MasterSlide|TemplateSlide|Stylesheet|ThemeStylesheet|DocumentStylesheet|ViewState|Metadata)"
)
_ORDER = re.compile(r"\d+")
_BREAKS = re.compile("[\u2028\u2029\x04\x05\x0b\x0c\r]")
_MAX_DEPTH = 500


def read(sink: Sink) -> None:
    """Read a document."""
    package.check(sink)
    with zipfile.ZipFile(sink.task.path) as archive:
        texts = list(dict.fromkeys(_new_texts(sink, archive) or _old_texts(sink, archive)))
        for text in texts:
            sink.add_text(text + "\n\n")
        if not sink.text_length:
            _read_preview(sink, archive)
    if not sink.text_length:
        raise DocumentRefused(
            "It is an iWork document without readable text. Export it as PDF, docx, xlsx or pptx, and add that.",
            code="unsupported_type",
        )
    sink.warn("partial_text")


def _new_texts(sink: Sink, archive: zipfile.ZipFile) -> list[str]:
    """The texts of the archives of a document since 2013; the first of them kept their archives in a zip of their own."""
    if "Index.zip" in archive.namelist():
        data = package.read_member(sink, archive, "Index.zip")
        with zipfile.ZipFile(io.BytesIO(data)) as inner:
            return [*_archive_texts(sink, inner)]
    return [*_archive_texts(sink, archive)]


def _archive_texts(sink: Sink, archive: zipfile.ZipFile) -> Iterator[str]:
    names = [name for name in archive.namelist() if name.endswith(".iwa") and not _TEMPLATES.search(name)]
    for name in sorted(
        names, key=lambda name: ("Document" not in name, [int(part) for part in _ORDER.findall(name)], name)
    ):
        try:
            for text in iwa.archive_texts(package.read_member(sink, archive, name), sink.task.max_characters):
                lines = (
                    " ".join(line.split())
                    for line in _BREAKS.sub("\n", text.replace("\ufffc", " ")).split("\n")
                )
                if paragraph := "\n\n".join(filter(None, lines)):
                    yield paragraph
        except ValueError:
            sink.warn("damaged")
        sink.report_progress()


def _old_texts(sink: Sink, archive: zipfile.ZipFile) -> list[str]:
    """The paragraphs and cells in the XML of iWork '09."""
    name = next((name for name in _OLD_INDEX if name in archive.namelist()), "")
    data = package.read_member(sink, archive, name) if name else b""
    if name.endswith(".gz"):
        try:
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(sink.task.max_characters)
        except (OSError, EOFError, zlib.error):
            sink.warn("damaged")
            return []
    return xml_paragraphs(data)


def xml_paragraphs(data: bytes) -> list[str]:
    """The texts of paragraphs (`sf:p`), and of cells (an attribute of `sf:ct`)."""
    paragraphs: list[str] = []
    pieces: list[str] = []
    depth = paragraph_depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, paragraph_depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise ValueError("nested without end")
        if tag == "sf:p" and not paragraph_depth:
            paragraph_depth = depth
        elif tag in ("sf:br", "sf:tab", "sf:lnbr"):
            pieces.append(" ")
        elif tag == "sf:ct" and (text := attributes.get("sfa:s", "").strip()):
            paragraphs.append(" ".join(text.split()))

    def end(_tag: str) -> None:
        nonlocal depth, paragraph_depth
        if depth == paragraph_depth:
            if text := " ".join("".join(pieces).split()):
                paragraphs.append(text)
            pieces.clear()
            paragraph_depth = 0
        depth -= 1

    def add(text: str) -> None:
        if paragraph_depth:
            pieces.append(text)

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, add
    try:
        parser.Parse(data, True)
    except (xml.parsers.expat.ExpatError, ValueError):
        return paragraphs  # what came before it counts
    return paragraphs


def _read_preview(sink: Sink, archive: zipfile.ZipFile) -> None:
    name = next((name for name in _PREVIEWS if name in archive.namelist()), None)
    data = package.read_member(sink, archive, name) if name else b""
    if data.startswith(b"%PDF-"):
        path = sink.task.scratch / "preview.pdf"
        path.write_bytes(data)
        original, sink.task = sink.task, dataclasses.replace(sink.task, path=path)
        try:
            pdf.read(sink)
        finally:
            sink.task = original
            path.unlink()
