"""XML of documents with a known structure: DocBook, JATS and OPML. Tags are left out, structure stays.

    sections        headings by their depth
    lists, code     as in markdown; outlines of OPML as nested lists with their addresses
    tables          as tables, figures as their captions
    references      one entry of a list each

The elements of DocBook and JATS that have the same name have the same meaning, so one reader serves both. What an article says
of itself before its text is metadata: of that, only the title and the abstract are text too.
"""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gristmill.readers.document_metadata import DocumentMetadata
from gristmill.readers.markdown_tables import markdown_table
from gristmill.readers.sink import Sink

MAX_DEPTH = 200
_ROOTS = frozenset(("opml", "article", "book", "chapter", "section", "set", "part", "refentry"))
_ROOT = re.compile(
    r"(?:\s|<\?[^>]{0,2000}\?>|<!--.{0,5000}?-->|<!DOCTYPE[^>\[]{0,2000}(?:\[[^\]]{0,20000}\])?[^>]{0,200}>)*+<(?:\w+:)?(\w+)",
    re.S,
)
_SECTIONS = frozenset(
    (
        *(
            "set",
            "book",
            "part",
            "article",
            "chapter",
            "preface",
            "appendix",
            "section",
            "sect1",
            "sect2",
            "sect3",
        ),
        *(
            "sect4",
            "sect5",
            "simplesect",
            "sec",
            "abstract",
            "ack",
            "app",
            "glossary",
            "bibliography",
            "ref-list",
        ),
        *(
            "refentry",
            "refsection",
            "refsect1",
            "refsect2",
            "boxed-text",
            "sidebar",
            "dedication",
            "fn-group",
        ),
    )
)
_WRAPPERS = frozenset(
    (
        "front",
        "article-meta",
        "title-group",
        "body",
        "back",
        "info",
        "app-group",
        "figure",
        "fig",
        "table-wrap",
        "mediaobject",
        "textobject",
        "blockquote",
        "disp-quote",
        "note",
        "tip",
        "warning",
        "caution",
        "important",
        "formalpara",
        "example",
        "informalexample",
        "caption",
        "glossentry",
        "procedure",
        "step",
        "bookinfo",
        "articleinfo",
        "variablelist",
        "varlistentry",
        "def-list",
        "def-item",
        "qandaset",
        "qandaentry",
        "question",
        "answer",
        "table-wrap-foot",
    )
)
_PARAGRAPHS = frozenset(
    (
        "p",
        "para",
        "simpara",
        "title",
        "subtitle",
        "article-title",
        "term",
        "def",
        "phrase",
        "disp-formula",
        "equation",
        "attrib",
        "label",
        "glossterm",
        "refname",
        "refpurpose",
        "bridgehead",
        "epigraph",
        "verse-group",
        "fn",
        "footnote",
    )
)
_LISTS = frozenset(("itemizedlist", "orderedlist", "list", "simplelist", "calloutlist"))
_ITEMS = frozenset(("listitem", "list-item", "member", "callout"))
_CODE = frozenset(("programlisting", "screen", "literallayout", "preformat", "synopsis", "code-block"))
_TABLES = frozenset(("table", "informaltable"))
_REFERENCES = frozenset(("ref", "biblioentry", "bibliomixed"))
_BLOCKS = _SECTIONS | _WRAPPERS | _PARAGRAPHS | _LISTS | _ITEMS | _CODE | _TABLES | _REFERENCES
_SKIPPED = frozenset(
    (
        "journal-meta",
        "article-id",
        "article-categories",
        "contrib-group",
        "aff",
        "author-notes",
        "pub-date",
        "volume",
        "issue",
        "fpage",
        "lpage",
        "elocation-id",
        "history",
        "permissions",
        "self-uri",
        "kwd-group",
        "funding-group",
        "counts",
        "custom-meta-group",
        "processing-meta",
        "tex-math",
        "indexterm",
        "authorgroup",
        "author",
        "editor",
        "pubdate",
        "date",
        "keywordset",
        "copyright",
        "legalnotice",
        "revhistory",
        "releaseinfo",
        "publisher",
        "edition",
        "biblioid",
        "imageobject",
        "article-version",
        "article-version-alternatives",
        "object-id",
        "subjectset",
        "productname",
        "issuenum",
    )
)
_HEADINGS = ("title", "article-title")
_INFO = (
    "info",
    "bookinfo",
    "articleinfo",
    "chapterinfo",
    "sectioninfo",
    "title-group",
    "front",
    "article-meta",
)


def is_known_root(text: str) -> bool:
    """Whether the XML is of one of these vocabularies, by its outermost element."""
    root = _ROOT.match(text[:50_000])
    return root is not None and root[1] in _ROOTS


def read(sink: Sink, root: Element) -> None:
    """Read a tree whose names have no prefixes."""
    if root.tag == "opml":
        sink.describe(_opml_metadata(root))
        for line in _outlines(root, 0):
            sink.add_text(line)
        return
    sink.describe(_article_metadata(root))
    for block in _section(root, 1):
        sink.add_text(block + "\n\n")


def _section(element: Element, level: int) -> Iterator[str]:
    title = _title_of(element)
    if title is not None and (text := _inline(title)):
        yield f"{'#' * min(level, 6)} {text}"
        level += 1
    yield from _contents(element, level, title)


def _contents(element: Element, level: int, title: Element | None = None) -> Iterator[str]:
    """The blocks in an element; texts between them are paragraphs."""
    loose = [element.text or ""]
    for child in element:
        if child.tag in _SKIPPED or child is title:
            loose.append(child.tail or "")
        elif child.tag in _BLOCKS:
            if text := _normalise("".join(loose)):
                yield text
            yield from _block(child, level, title)
            loose = [child.tail or ""]
        else:
            loose += [*_texts(child), child.tail or " "]
    if text := _normalise("".join(loose)):
        yield text


def _block(element: Element, level: int, title: Element | None) -> Iterator[str]:
    name = element.tag
    if name in _SECTIONS:
        yield from _section(element, level)
    elif name in _LISTS:
        yield "\n".join(_list_lines(element, 0, is_ordered=name == "orderedlist"))
    elif name in _CODE:
        code = "".join(element.itertext()).strip("\n")
        fence = "```" if "```" not in code else "```````"
        yield f"{fence}\n{code}\n{fence}"
    elif name in _TABLES:
        yield from _table(element)
    elif name in _REFERENCES:
        yield "- " + re.sub(r" ([.,;:)])", r"\1", _normalise(" ".join(element.itertext())))
    elif any(child.tag in _BLOCKS for child in element):
        yield from _contents(element, level, title)
    elif text := _inline(element):
        yield f"**{text}**" if name in _HEADINGS else text


def _list_lines(element: Element, depth: int, *, is_ordered: bool) -> Iterator[str]:
    """The entries of a list, the lists in them below them."""
    number = 0
    for item in element:
        if item.tag not in _ITEMS:
            if text := _inline(item):
                yield text
            continue
        number += 1
        text = _normalise(" ".join(_texts(item, without=_LISTS)))
        if text:
            yield "  " * depth + (f"{number}. " if is_ordered else "- ") + text
        for nested in item:
            if nested.tag in _LISTS:
                yield from _list_lines(nested, depth + 1, is_ordered=nested.tag == "orderedlist")


def _table(element: Element) -> Iterator[str]:
    for child in element:
        if child.tag in ("title", "caption") and (text := _inline(child)):
            yield f"**{text}**"
    rows = [
        [_inline(cell) for cell in row if cell.tag in ("td", "th", "entry")]
        for row in element.iter()
        if row.tag in ("tr", "row")
    ]
    width = max(map(len, rows), default=0)
    if width:
        yield markdown_table([[*row, *[""] * (width - len(row))] for row in rows if row]).rstrip("\n")


def _outlines(element: Element, depth: int) -> Iterator[str]:
    for child in element:
        if child.tag == "outline":
            text = _normalise(child.get("text") or child.get("title") or "")
            address = child.get("htmlUrl") or child.get("xmlUrl") or child.get("url") or ""
            note = _normalise(child.get("_note") or child.get("description") or "")
            shown = f"[{text}]({address})" if text and address else text or address
            if shown:
                yield "  " * depth + f"- {shown}" + (f": {note}" if note else "") + "\n"
            yield from _outlines(child, depth + 1)
        elif child.tag == "body":
            yield from _outlines(child, depth)


def _title_of(element: Element) -> Element | None:
    """The title of a section: a child, or inside of what describes the section."""
    for child in element:
        if child.tag in _HEADINGS:
            return child
        if child.tag in _INFO and (title := _title_of(child)) is not None:
            return title
    return None


def _texts(element: Element, without: frozenset[str] = frozenset()) -> Iterator[str]:
    if element.tag in _SKIPPED or element.tag in without:
        return
    if element.tag in _BLOCKS:
        yield " "
    yield element.text or ""
    for child in element:
        yield from _texts(child, without)
        yield child.tail or ""


def _inline(element: Element) -> str:
    return _normalise("".join(_texts(element)))


def _normalise(text: str) -> str:
    return " ".join(text.split())


# ── metadata ─────────────────────────────────────────────────────────────────────────────────────────────


def _article_metadata(root: Element) -> DocumentMetadata:
    title = _title_of(root)
    info = next((child for child in root if child.tag in _INFO), root)
    people = [*info.iter("contrib"), *info.iter("author")]
    published = next(iter(info.iter("pub-date")), None)
    dates = [_normalise("".join(date.itertext())) for date in (*info.iter("pubdate"), *info.iter("date"))]
    if published is not None:
        parts = [published.findtext(part, "").strip() for part in ("year", "month", "day")]
        dates = ["-".join(part for part in parts if part)]
    return DocumentMetadata(
        title=None if title is None else _inline(title),
        authors=[name for person in people if (name := _person_name(person))],
        created=next(iter(dates), None),
        language=root.get("lang"),
        keywords=[
            _normalise("".join(word.itertext())) for word in (*info.iter("kwd"), *info.iter("keyword"))
        ],
    )


def _person_name(person: Element) -> str:
    if person.tag == "contrib" and person.get("contrib-type", "author") != "author":
        return ""
    parts = [
        _normalise("".join(part.itertext()))
        for tags in (("given-names", "firstname"), ("surname",))
        for part in person.iter()
        if part.tag in tags
    ]
    full_names = (
        part for part in person.iter() if part.tag in ("collab", "string-name", "personname", "orgname")
    )
    return " ".join(parts) or next((_normalise("".join(part.itertext())) for part in full_names), "")


def _opml_metadata(root: Element) -> DocumentMetadata:
    def text(name: str) -> str | None:
        return root.findtext(f"head/{name}")

    owner = text("ownerName")
    return DocumentMetadata(
        title=text("title"),
        authors=[owner] if owner else (),
        created=text("dateCreated"),
        modified=text("dateModified"),
    )
