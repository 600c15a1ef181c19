"""Atlassian's document format (ADF) as markdown: descriptions and comments of Jira Cloud.

a document                     by its nodes
the same as a JSON string      parsed first; if that fails, the texts that can be found in it
an unknown node                its children, or a text among its attributes
deeper than MAX_DEPTH          only the words
anything else                  nothing
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from gristmill.connectors.markup.tree import MAX_DEPTH, Child, Node, quote_with_label, wrap_inline
from gristmill.connectors.markup.writer import write_markdown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT_FIELDS = re.compile(r'"text"\s*:\s*("(?:[^"\\]|\\.)*")')
_MONO = "code"  # the only mark with another name here
_MARK_ORDER = ("code", "strike", "em", "strong", "link")  # from the innermost
_INLINE_PARENTS = frozenset(("paragraph", "heading", "codeBlock", "taskItem", "decisionItem", "caption"))
_TRANSPARENT = frozenset(
    ("doc", "layoutSection", "layoutColumn", "mediaSingle", "mediaGroup", "bodiedSyncBlock", "extensionFrame")
)
_PLAIN = {
    "paragraph": "paragraph",
    "caption": "paragraph",
    "listItem": "item",
    "blockquote": "quote",
    "tableRow": "row",
    "table": "table",
}
_TEXT_ATTRIBUTES = ("text", "title", "alt", "shortName", "url")  # attributes with text for readers


def to_markdown(document: object) -> str:
    """The document's text; never raises."""
    if isinstance(document, str):
        try:
            document = cast(object, json.loads(document))
        except (ValueError, RecursionError):
            return write_markdown(_salvage_texts(document))
    return write_markdown(_convert(document, 0, inline=False))


def _salvage_texts(text: str) -> Iterator[Child]:
    """The texts in JSON that can't be parsed, one paragraph each."""
    for match in _TEXT_FIELDS.finditer(text):
        try:
            yield Node("paragraph", [str(json.loads(match.group(1)))])
        except ValueError:
            yield Node("paragraph", [match.group(1)[1:-1]])


def _convert(node: object, level: int, *, inline: bool) -> list[Child]:
    if isinstance(node, list):
        return [
            child for part in cast(list[object], node) for child in _convert(part, level + 1, inline=inline)
        ]
    if not isinstance(node, dict):
        return []
    fields = cast(dict[str, Any], node)
    if level > MAX_DEPTH:
        return [" ".join(_words(fields))]
    kind = _string(fields.get("type"))
    attributes = cast(dict[str, Any], fields["attrs"]) if isinstance(fields.get("attrs"), dict) else {}
    if kind == "text":
        return _text(fields)
    if (leaf := _leaf(kind, attributes)) is not None:
        return leaf
    children = _convert_children(fields.get("content"), level, inline=inline or kind in _INLINE_PARENTS)
    return _parent(kind, attributes, children, fields, inline=inline)


def _convert_children(content: object, level: int, *, inline: bool) -> list[Child]:
    if not isinstance(content, list):
        return []
    return [
        child for part in cast(list[object], content) for child in _convert(part, level + 1, inline=inline)
    ]


def _text(node: dict[str, Any]) -> list[Child]:
    children: list[Child] = [_string(node.get("text"))]
    marks: dict[str, dict[str, Any]] = {}
    if isinstance(node.get("marks"), list):
        for mark in cast(list[object], node["marks"]):
            if isinstance(mark, dict):
                mark_fields = cast(dict[str, Any], mark)
                attributes: object = mark_fields.get("attrs")
                marks[_string(mark_fields.get("type"))] = (
                    cast(dict[str, Any], attributes) if isinstance(attributes, dict) else {}
                )
    for name in _MARK_ORDER:
        if name in marks:
            href = {"href": _string(marks[name].get("href"))} if name == "link" else {}
            children = [Node("mono" if name == _MONO else name, children, href)]
    return children


def _leaf(kind: str, attributes: dict[str, Any]) -> list[Child] | None:
    """A node without children; None for any other."""

    def attribute(*names: str) -> str:
        return next((text for name in names if (text := _string(attributes.get(name)))), "")

    match kind:
        case "hardBreak":
            return [Node("break")]
        case "rule":
            return [Node("rule")]
        case "mention":
            name = attribute("text", "id")
            return [name if name.startswith("@") else f"@{name}"] if name else []
        case "emoji":
            return [attribute("text", "shortName")]
        case "date":
            return [_date(attributes.get("timestamp"))]
        case "status" | "placeholder":
            return [attribute("text")]
        case "inlineCard" | "blockCard" | "embedCard":
            return _card(kind, attributes)
        case "media" | "mediaInline":
            name = attribute("alt", "__fileName", "url", "id")
            return [Node("image", [], {"alt": name, "href": attribute("url", "__fileName", "alt", "id")})]
        case _:
            return None


def _card(kind: str, attributes: dict[str, Any]) -> list[Child]:
    data = attributes.get("data")
    card = cast(dict[str, Any], data) if isinstance(data, dict) else {}
    href = _string(attributes.get("url")) or _string(card.get("url")) or _string(card.get("@id"))
    name = _string(card.get("name")) or href
    link = Node("link", [name], {"href": href})
    return [link if kind == "inlineCard" else Node("paragraph", [link])]


def _parent(
    kind: str, attributes: dict[str, Any], children: list[Child], node: dict[str, Any], *, inline: bool
) -> list[Child]:
    if kind in _TRANSPARENT:
        return children
    if kind in _PLAIN:
        return [Node(_PLAIN[kind], children)]
    match kind:
        case "heading":
            return [Node("heading", children, {"level": _string(attributes.get("level")) or "1"})]
        case "bulletList" | "taskList" | "decisionList":
            return [Node("list", children)]
        case "orderedList":
            return [
                Node("list", children, {"ordered": "yes", "start": _string(attributes.get("order")) or "1"})
            ]
        case "taskItem" | "blockTaskItem":
            return [
                Node(
                    "item", children, {"done": "yes" if _string(attributes.get("state")) == "DONE" else "no"}
                )
            ]
        case "decisionItem":
            return [Node("item", ["Decision: ", *children])]
        case "codeBlock":
            return [Node("code", children, {"language": _string(attributes.get("language"))})]
        case "panel":
            return [quote_with_label(_string(attributes.get("panelType")).capitalize(), children)]
        case "expand" | "nestedExpand":
            return [quote_with_label(_string(attributes.get("title")), children)]
        case "tableCell" | "tableHeader":
            spans = {
                "columns": _string(attributes.get("colspan")) or "1",
                "rows": _string(attributes.get("rowspan")) or "1",
            }
            return [Node("cell", children, spans | ({"head": "yes"} if kind == "tableHeader" else {}))]
        case _:
            return _unknown(attributes, children, node, inline=inline)


def _unknown(
    attributes: dict[str, Any], children: list[Child], node: dict[str, Any], *, inline: bool
) -> list[Child]:
    if not children:
        texts = (_string(place.get(name)) for place in (node, attributes) for name in _TEXT_ATTRIBUTES)
        children = list[Child]([text for text in texts if text][:1])
    # As a paragraph between blocks, so that words of two unknown nodes do not run together.
    return children if inline or not children else wrap_inline("paragraph", children)


def _words(node: object) -> Iterator[str]:
    """The texts below a node, to any depth."""
    stack: list[object] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(reversed(cast(list[object], part)))
        elif isinstance(part, dict):
            fields = cast(dict[str, Any], part)
            if text := _string(fields.get("text")):
                yield text
            elif isinstance(fields.get("attrs"), dict):
                for name in _TEXT_ATTRIBUTES:
                    if text := _string(cast(dict[str, Any], fields["attrs"]).get(name)):
                        yield text
                        break
            stack.append(fields.get("content"))


def _date(timestamp: object) -> str:
    """The day of a date node, whose time is a string of milliseconds."""
    try:
        return (_EPOCH + timedelta(milliseconds=float(_string(timestamp)))).date().isoformat()
    except (ValueError, OverflowError):
        return _string(timestamp)


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
