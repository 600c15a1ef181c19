"""The metadata of documents that keep it as Dublin Core in a small XML file of their own. Pure.

    Office          docProps/core.xml
    OpenDocument    meta.xml
    EPUB            the package document (.opf)

Elements count by their names without prefix. What is not XML has no metadata; expat refuses to expand entities without end.
"""

import contextlib
import xml.parsers.expat
from collections.abc import Sequence

from gristmill.readers.document_metadata import DocumentMetadata, split_keywords, split_names

_MAX_BYTES = 1024 * 1024
_MAX_VALUES = 1_000
# The names of each field's elements, the best first.
_TITLE = ("title",)
_AUTHORS = ("initial-creator", "creator", "author")
_CREATED = ("created", "creation-date", "date", "issued")
_MODIFIED = ("modified", "date")
_LANGUAGE = ("language",)
_KEYWORDS = ("keywords", "keyword", "category")
_SUBJECT = ("description", "abstract")


def xml_metadata(data: bytes, *, keywords: Sequence[str] = _KEYWORDS) -> DocumentMetadata:
    """What the XML says. `keywords` names the elements with keywords: of a book these are its subjects."""
    values = _values(data[:_MAX_BYTES])

    def all_of(names: Sequence[str]) -> list[str]:
        return next((values[name] for name in names if name in values), list[str]())

    def first(names: Sequence[str]) -> str | None:
        return next(iter(all_of(names)), None)

    # In OpenDocument `date` is the last change, and the creation has an element of its own.
    has_creation = "creation-date" in values
    return DocumentMetadata(
        title=first(_TITLE),
        authors=[name for entry in all_of(_AUTHORS) for name in split_names(entry)],
        created=first(_CREATED),
        modified=first(_MODIFIED if has_creation else _MODIFIED[:1]),
        language=first(_LANGUAGE),
        keywords=[
            word for name in keywords for entry in values.get(name, ()) for word in split_keywords(entry)
        ],
        subject=first(_SUBJECT) or (None if "subject" in keywords else first(("subject",))),
    )


def _values(data: bytes) -> dict[str, list[str]]:
    """The texts of elements by their names, in order; a `meta` of EPUB 3 by its property."""
    values: dict[str, list[str]] = {}
    texts: list[str] = []
    names: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2].lower()
        if local == "meta" and "property" in attributes:
            local = attributes["property"].rpartition(":")[2].lower()
        names.append(local)
        texts.clear()

    def end(_name: str) -> None:
        text = " ".join("".join(texts).split())
        if (
            text
            and len(values) < _MAX_VALUES
            and len(of_name := values.setdefault(names[-1], [])) < _MAX_VALUES
        ):
            of_name.append(text)
        texts.clear()
        names.pop()

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = texts.append
    with contextlib.suppress(
        xml.parsers.expat.ExpatError, ValueError, LookupError
    ):  # what came before counts
        parser.Parse(data, True)
    return values
