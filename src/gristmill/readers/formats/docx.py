"""Word documents (docx): headings, lists, tables, notes, comments, headers and footers, text boxes, charts, SmartArt and equations.

Pages are those that the program last laid out, if it recorded them, else those that begin with manual page breaks. Headers come
first and footers last, each once. A document whose text is very large is read by kreuzberg, which needs less memory but knows no
headers, comments and charts (warning `partial_text`).
"""

import re
import zipfile
from typing import Any

from gristmill.readers.formats import office, ooxml, package
from gristmill.readers.formats.docx_styles import WordLists, WordStyles
from gristmill.readers.formats.docx_text import PAGE_BREAK, W, WordContext, WordText
from gristmill.readers.sink import DocumentRefused, Sink

_MAX_DOCUMENT_BYTES = 48 * 1024 * 1024  # of XML
_OFFICE_DOCUMENT = re.compile(r"word/document\d*\.xml", re.I)
_NOTES = {"footnotes": "footnote", "endnotes": "endnote", "comments": "comment"}
_SEPARATORS = ("separator", "continuationSeparator", "continuationNotice")
_ONLY_NUMBERS = re.compile(r"[\W\d_]*(?:page|seite|of|von|\W|\d)*", re.I)


def read(sink: Sink) -> None:
    """Read a Word document."""
    package.check(sink)
    with zipfile.ZipFile(sink.task.path) as archive:
        name = _main_part(sink, archive)
        if archive.NameToInfo[name].file_size > _MAX_DOCUMENT_BYTES:
            sink.warn("partial_text")
            office.read(sink)
            return
        start, content = sink.characters, _add_text(sink, archive, name)
    office.warn_if_protected(sink, "docx")
    package.add_contents(sink, content, start)
    office.check_content(sink)


def _main_part(sink: Sink, archive: zipfile.ZipFile) -> str:
    names = ooxml.relationships(sink, archive, "").values()
    for name in (*names, *archive.namelist()):
        if name in archive.NameToInfo and _OFFICE_DOCUMENT.fullmatch(name):
            return name
    for name in names:
        if name in archive.NameToInfo and name.lower().endswith(".xml") and "docprops" not in name.lower():
            return name
    raise DocumentRefused("It has no text part.", code="corrupt")


def _add_text(sink: Sink, archive: zipfile.ZipFile, name: str) -> str:
    """Add the text, page by page; returns it as it was added."""
    tree = ooxml.parse_part(sink, archive, name)
    bodies: list[Any] = tree.findall(f"{W}body") if tree is not None else []
    if tree is None or not bodies:
        raise DocumentRefused("Its text part is broken.", code="corrupt")
    context = _context(sink, archive, name)
    context.has_rendered_breaks = next(tree.iter(f"{W}lastRenderedPageBreak"), None) is not None
    writer = WordText(context)
    headers, footers = (_edge_texts(sink, archive, context, tree, kind) for kind in ("header", "footer"))
    blocks = [*headers, *(block for body in bodies for block in writer.blocks(body))]
    blocks += [
        text for (kind, _), note in list(context.notes.items()) if (text := _note_text(writer, kind, note))
    ]
    text = "\n\n".join([*blocks, *footers])
    text = re.sub(r"\n{3,}", "\n\n", text)
    pages = text.split(PAGE_BREAK)
    added: list[str] = []
    for number, page in enumerate(pages, 1):
        piece = page if number < len(pages) else page.rstrip() + "\n\n"
        if piece.strip():
            added.append(piece)
            sink.add_text(piece, number if len(pages) > 1 else None)
    if len(pages) > 1:
        sink.report.pages_total = sink.report.pages_read = len(pages)
    return "".join(added)


def _context(sink: Sink, archive: zipfile.ZipFile, name: str) -> WordContext:
    targets = ooxml.relationships(sink, archive, name)

    def part(ending: str) -> Any:
        target = next(
            (target for target in targets.values() if target.lower().endswith(f"/{ending}.xml")), None
        )
        return ooxml.parse_part(sink, archive, target) if target else None

    notes: dict[tuple[str, str], Any] = {}
    for ending, kind in _NOTES.items():
        tree = part(ending)
        for note in tree.iter(f"{W}{kind}") if tree is not None else ():
            if note.get(f"{W}type") not in _SEPARATORS:
                notes[kind, note.get(f"{W}id") or ""] = note
    return WordContext(
        WordStyles(part("styles")),
        WordLists.parse(part("numbering")),
        notes,
        lambda target: ooxml.parse_part(sink, archive, target),
        targets,
        ooxml.relationships(sink, archive, name, external=True),
    )


def _edge_texts(
    sink: Sink, archive: zipfile.ZipFile, context: WordContext, tree: Any, kind: str
) -> list[str]:
    """The texts of headers or footers of all sections, each once, without those that are only page numbers."""
    texts: dict[str, None] = {}
    for reference in tree.iter(f"{W}{kind}Reference"):
        name = context.targets.get(reference.get(f"{ooxml.R}id") or "")
        part = ooxml.parse_part(sink, archive, name) if name else None
        if part is None or name is None:
            continue
        own = WordContext(
            context.styles, context.lists, {}, context.parse, ooxml.relationships(sink, archive, name)
        )
        for block in WordText(own).blocks(part):
            text = re.sub(r"^#+ ", "", block.replace(PAGE_BREAK, "")).strip()
            if not _ONLY_NUMBERS.fullmatch(text):
                texts[text] = None
    return list(texts)


def _note_text(writer: WordText, kind: str, note: Any) -> str:
    """A note or comment that no paragraph refers to."""
    if kind == "comment":
        return writer.comment_text(note)
    return " ".join(writer.blocks(note)).replace(PAGE_BREAK, "").strip()
