"""What a web page says of itself in its head: title, `meta`, OpenGraph and JSON-LD. Pure, and linear in the size of the head.

Only tags are looked for, no tree is built. OpenGraph and JSON-LD come before `meta`: pages are generated with them, while the
title is often followed by the name of the site.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from gristmill.readers.document_metadata import DocumentMetadata, split_keywords

HTML_HEAD_BYTES = 512 * 1024
_TAG = re.compile(r"<(meta|html|title|script|body)\b([^<>]{0,8000})>", re.I)
_ATTRIBUTE = re.compile(r"""([\w:.-]{1,40})\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_CONTENT_TYPES = re.compile(r"article|webpage|posting|report|blog|book|creativework|document|dataset", re.I)
_MAX_JSON = 200_000
_MAX_NODES = 1_000

# The names of `meta` for each field, the best first.
_NAMES = {
    "title": ("og:title", "citation_title", "dc.title", "dcterms.title", "twitter:title"),
    "authors": (
        "citation_author",
        "author",
        "article:author",
        "dc.creator",
        "dcterms.creator",
        "parsely-author",
    ),
    "created": (
        "article:published_time",
        "citation_publication_date",
        "datepublished",
        "dc.date",
        "dcterms.created",
        "dcterms.date",
        "date",
        "pubdate",
    ),
    "modified": (
        "article:modified_time",
        "og:updated_time",
        "datemodified",
        "dcterms.modified",
        "last-modified",
    ),
    "language": ("og:locale", "content-language", "dc.language", "dcterms.language", "language"),
    "keywords": ("keywords", "article:tag", "news_keywords", "citation_keywords", "dc.subject"),
    "subject": ("og:description", "description", "dc.description", "dcterms.abstract", "twitter:description"),
}


def html_metadata(text: str) -> DocumentMetadata:
    """What the page that begins with `text` says of itself."""
    values: dict[str, list[str]] = {}
    title, language = "", ""
    linked: DocumentMetadata | None = None
    position = 0
    while (match := _TAG.search(text, position)) is not None:
        position = match.end()
        name, attributes = match[1].lower(), _attributes(match[2])
        if name == "meta":
            key = (
                attributes.get("property")
                or attributes.get("name")
                or attributes.get("http-equiv")
                or attributes.get("itemprop")
            )
            if key and (content := attributes.get("content", "").strip()):
                values.setdefault(key.lower(), []).append(content)
        elif name == "html":
            language = language or attributes.get("lang") or attributes.get("xml:lang", "")
        elif name in ("title", "script"):
            end = text.find(f"</{match[1]}", position)
            if end < 0:  # everything after it is its text
                break
            inner, position = text[position:end], end
            if name == "title":
                title = title or html.unescape(inner)
            elif "ld+json" in attributes.get("type", "").lower():
                linked = linked or _json_ld(inner)
    return _merge(values, title, language, linked or DocumentMetadata())


def _merge(
    values: Mapping[str, list[str]], title: str, language: str, linked: DocumentMetadata
) -> DocumentMetadata:
    def all_of(field: str) -> list[str]:
        return next((values[name] for name in _NAMES[field] if name in values), list[str]())

    def first(field: str) -> str:
        return next(iter(all_of(field)), "")

    return DocumentMetadata(
        title=first("title") or linked.title or title,
        authors=linked.authors
        or [author for author in all_of("authors") if not author.startswith(("http://", "https://"))],
        created=first("created") or linked.created,
        modified=first("modified") or linked.modified,
        language=language or first("language") or linked.language,
        keywords=[word for entry in all_of("keywords") for word in split_keywords(entry)] or linked.keywords,
        subject=first("subject") or linked.subject,
    )


def _attributes(text: str) -> dict[str, str]:
    return {
        match[1].lower(): html.unescape(match[2] or match[3] or match[4] or "")
        for match in _ATTRIBUTE.finditer(text)
    }


def _json_ld(text: str) -> DocumentMetadata | None:
    """The first thing of JSON-LD that is a document."""
    try:
        data = json.loads(text) if len(text) <= _MAX_JSON else None
    except (ValueError, RecursionError):
        return None
    for node in _nodes(data):
        if not _CONTENT_TYPES.search(str(node.get("@type", ""))):
            continue
        keywords = node.get("keywords")
        return DocumentMetadata(
            title=_string(node.get("headline")) or _string(node.get("name")),
            authors=[*_names(node.get("author"))],
            created=_string(node.get("datePublished")) or _string(node.get("dateCreated")),
            modified=_string(node.get("dateModified")),
            language=_string(node.get("inLanguage")),
            keywords=split_keywords(keywords) if isinstance(keywords, str) else [*_names(keywords)],
            subject=_string(node.get("description")),
        )
    return None


def _nodes(data: Any) -> Iterator[Mapping[str, Any]]:
    """The objects at the top and in the graph."""
    waiting: list[Any] = [data]
    for _ in range(_MAX_NODES):
        if not waiting:
            return
        node = waiting.pop(0)
        if isinstance(node, list):
            waiting += cast("list[Any]", node)
        elif isinstance(node, dict):
            entry = cast("dict[str, Any]", node)
            yield entry
            waiting.append(entry.get("@graph"))


def _names(value: Any) -> Iterator[str]:
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    for entry in values[:100]:
        name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else entry
        if isinstance(name, str) and not name.startswith(("http://", "https://")):
            yield name


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None
