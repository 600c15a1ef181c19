"""HTML and XML files. HTML becomes markdown as a whole, XML the texts of its elements; DocBook, JATS and OPML keep their structure
(`structured_xml.py`).

expat stops entity expansion attacks; references to outside are refused, never fetched. A file that breaks off in the
middle gives what came before.
"""

import html
import re
import xml.parsers.expat
from typing import Any
from xml.etree import ElementTree

from gristmill.readers import plain_text, text_encoding
from gristmill.readers.formats import office, structured_xml
from gristmill.readers.html_metadata import HTML_HEAD_BYTES, html_metadata
from gristmill.readers.sink import DocumentRefused, Sink, refuse_bomb
from gristmill.readers.text_format import FileFormat

_DROPPED_TAGS = ("head", "script", "style", "svg")
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w.:-]{2,40})""", re.I)
_XML_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}encoding\s*=\s*["']([\w.:-]{2,40})""")
_EXTERNAL_REFERENCE = re.compile(r"^\s*(file|https?|ftp|jar|php|data|expect|gopher|netdoc):|^\s*[/\\]", re.I)
_TAG = re.compile(r"<[^<>]*>")
_SKIPPED_ATTRIBUTES = frozenset(
    [
        "id",
        "num",
        "ref",
        "class",
        "style",
        "lang",
        "space",
        "idref",
        "width",
        "height",
        "type",
        "schemalocation",
    ]
)
_EXPAT_AMPLIFICATION_LIMIT = 43
_MAX_DEPTH = 2_000
_BLOCK_BYTES = 64 * 1024


def read_html(sink: Sink) -> None:
    """Read an HTML file."""
    data = sink.task.path.read_bytes()
    text = _decode(data, _META_CHARSET, sink)
    sink.describe(html_metadata(text[:HTML_HEAD_BYTES]))
    sink.add_text(to_markdown(sink, text))


def to_markdown(sink: Sink, text: str) -> str:
    """The whole body of a page as markdown."""
    body = text
    for tag in _DROPPED_TAGS:
        body = _remove_elements(body, tag)
    if not body.strip():
        return ""
    result: Any = office.extract(sink, "html", f"<html><body>{body}</body></html>".encode("utf-8", "replace"))
    # The library returns nothing for a page that is nested too deeply; its words are still there.
    markdown = str(result.content).strip() or _strip_tags(body)
    return markdown + "\n" if markdown else ""


def _remove_elements(text: str, tag: str) -> str:
    """`text` without the elements `tag`, in linear time, also if they are never closed."""
    lowered = text.lower() if len(text.lower()) == len(text) else text
    pieces: list[str] = []
    position = 0
    while (start := lowered.find(f"<{tag}", position)) >= 0:
        if lowered[start + len(tag) + 1 : start + len(tag) + 2].isalnum():  # another tag, such as <header>
            pieces.append(text[position : start + 1])
            position = start + 1
            continue
        opening_end = lowered.find(">", start)
        if tag == "svg" and lowered[start : opening_end + 1].endswith(
            "/>"
        ):  # no element of HTML can close itself
            pieces.append(text[position:start])
            position = opening_end + 1
            continue
        end = lowered.find(f"</{tag}", start)
        if end < 0:
            break
        pieces.append(text[position:start])
        close = lowered.find(">", end)
        position = close + 1 if close >= 0 else len(text)
    return "".join(pieces) + text[position:]


def _strip_tags(body: str) -> str:
    lines = (" ".join(line.split()) for line in html.unescape(_TAG.sub("\n", body)).split("\n"))
    return "\n".join(line for line in lines if line)


def read_xml(sink: Sink) -> None:
    """Read an XML file."""
    data = sink.task.path.read_bytes()
    text = _decode(data, _XML_ENCODING, sink)
    text = re.sub(r"^\ufeff?\s*<\?xml[^>]*\?>", "", text, count=1)
    if re.match(r"\s*(<!DOCTYPE\s+html|<html)\b", text[:2000], re.I):
        read_html(sink)
        return
    extractor = _XmlTreeBuilder(sink) if structured_xml.is_known_root(text) else _XmlTextExtractor(sink)
    try:
        encoded = text.encode("utf-8", "replace")
        for start in range(0, len(encoded), _BLOCK_BYTES):
            extractor.parser.Parse(encoded[start : start + _BLOCK_BYTES], False)
        extractor.parser.Parse(b"", True)
    except xml.parsers.expat.ExpatError as error:
        if error.code == _EXPAT_AMPLIFICATION_LIMIT:
            refuse_bomb("its entities expand without end")
        sink.warn("damaged")
    extractor.flush()
    if not sink.text_length and "damaged" in sink.report.warnings:
        for piece in plain_text.to_markdown([text], FileFormat("code", "xml")):
            sink.add_text(piece)


class _XmlReader:
    """A parser that refuses references to other files, and whose handlers are the methods of a subclass."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._size = 0
        self.parser = parser = xml.parsers.expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        parser.StartDoctypeDeclHandler = _refuse_local_doctype
        parser.EntityDeclHandler = _refuse_outside_entity

    def flush(self) -> None:
        """Send the text collected so far."""
        raise NotImplementedError

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        raise NotImplementedError

    def _end(self, name: str) -> None:
        raise NotImplementedError

    def _data(self, text: str) -> None:
        raise NotImplementedError

    def _count(self, characters: int) -> None:
        self._size += characters
        if self._size > self._sink.task.max_characters:
            refuse_bomb("its text has no end")


class _XmlTreeBuilder(_XmlReader):
    """Builds the tree of a document whose structure is known; names lose their prefixes."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._builder = ElementTree.TreeBuilder()
        self._open: list[str] = []

    def flush(self) -> None:
        """Read the tree; elements that the file leaves open end here."""
        while self._open:
            self._builder.end(self._open.pop())
        structured_xml.read(self._sink, self._builder.close())

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > structured_xml.MAX_DEPTH:
            refuse_bomb("its elements are nested without end")
        local = name.rpartition(":")[2]
        self._open.append(local)
        self._count(sum(map(len, attributes.values())))
        self._builder.start(local, {key.rpartition(":")[2]: value for key, value in attributes.items()})

    def _end(self, name: str) -> None:
        self._builder.end(self._open.pop())

    def _data(self, text: str) -> None:
        self._count(len(text))
        self._builder.data(text)


class _XmlTextExtractor(_XmlReader):
    """Collects the text of the elements in order; an element between words stays on its line, any other begins one."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._texts: list[str] = []
        self._has_own_text = [False]  # for each open element, whether it has text of its own

    def flush(self) -> None:
        """Send the text collected so far."""
        text = "".join(self._texts)
        lines = (" ".join(line.split()) for line in text.split("\n"))
        self._sink.add_text("".join(line + "\n\n" for line in lines if line))
        self._texts, self._size = [], 0

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._has_own_text) > _MAX_DEPTH:
            refuse_bomb("its elements are nested without end")
        if not self._has_own_text[-1]:
            self._append("\n")
            for key, value in attributes.items():
                short = key.rpartition(":")[2].lower()
                if (
                    short not in _SKIPPED_ATTRIBUTES
                    and not key.startswith("xmlns")
                    and any(character.isalpha() for character in value)
                ):
                    self._append(f"{short}: {value}\n")
        self._has_own_text.append(self._has_own_text[-1])

    def _end(self, name: str) -> None:
        self._has_own_text.pop()
        if not self._has_own_text[-1]:
            self._append("\n")
            if self._size > _BLOCK_BYTES:
                self.flush()

    def _data(self, text: str) -> None:
        if text.strip():
            self._has_own_text[-1] = True
        self._append(text.replace("\n", " "))

    def _append(self, text: str) -> None:
        self._texts.append(text)
        self._count(len(text))


def _refuse_local_doctype(_name: str, system: str | None, _public: str | None, _internal: int) -> None:
    if system and re.match(r"\s*(file:|[/\\])", system, re.I):
        raise DocumentRefused(f"It refers to a file on this machine: {system[:100]}", code="unsafe_xml")


def _refuse_outside_entity(
    name: str,
    _parameter: int,
    _value: str | None,
    _base: str | None,
    system: str | None,
    _public: str | None,
    notation: str | None,
) -> None:
    if system and not notation and _EXTERNAL_REFERENCE.match(system):
        raise DocumentRefused(
            f"Its entity {name[:50]} refers to another file or host: {system[:100]}", code="unsafe_xml"
        )


def _decode(data: bytes, declaration: re.Pattern[bytes], sink: Sink) -> str:
    """The text, in the encoding of its byte order mark, its declaration or its letters."""
    encoding, is_guess = text_encoding.detect_encoding(data[: 256 * 1024])
    match = declaration.search(data[:4096])
    if is_guess and match is not None and encoding[:6] not in ("utf-16", "utf-32"):
        try:
            return data.decode(match.group(1).decode("ascii"))
        except (UnicodeDecodeError, LookupError):
            pass
    if is_guess:
        sink.warn("encoding_guessed")
    return data.decode(encoding, "replace")
