"""Notion's blocks, rich text and properties as markdown. Unknown blocks keep their text; links that expire are left out."""

from collections.abc import Sequence
from typing import Any

from gristmill.connectors.json_values import as_dict, as_list

_HEADINGS = {"heading_1": "## ", "heading_2": "### ", "heading_3": "#### ", "heading_4": "##### "}
_LIST_ITEMS = ("bulleted_list_item", "numbered_list_item", "to_do")
_FILES = ("file", "pdf", "image", "video", "audio")
_MAX_DEPTH = 30


def plain_text(rich_text: object) -> str:
    """The text of a list of rich texts, without markup."""
    return "".join(str(as_dict(part).get("plain_text") or "") for part in as_list(rich_text))


def rich_markdown(rich_text: object) -> str:
    """A list of rich texts as markdown: bold, italic, struck out, code, links, equations."""
    parts: list[str] = []
    for part in map(as_dict, as_list(rich_text)):
        text = str(part.get("plain_text") or "")
        core = text.strip()
        if not core:
            parts.append(text)
            continue
        style = as_dict(part.get("annotations"))
        marked = f"${core}$" if part.get("type") == "equation" else core
        for name, sign in (("code", "`"), ("bold", "**"), ("italic", "*"), ("strikethrough", "~~")):
            if style.get(name):
                marked = f"{sign}{marked}{sign}"
        if part.get("href"):
            marked = f"[{marked}]({part['href']})"
        parts.append(text.replace(core, marked, 1))
    return "".join(parts)


def to_markdown(blocks: Sequence[dict[str, Any]], depth: int = 0) -> str:
    """Blocks, each with its `children`, as markdown."""
    lines: list[str] = []
    previous, number = "", 0
    for block in blocks:
        kind = str(block.get("type") or "")
        number = number + 1 if kind == previous == "numbered_list_item" else 1
        text = _block_markdown(kind, as_dict(block.get(kind)), number)
        children = [as_dict(child) for child in as_list(block.get("children"))]
        if kind == "table":
            text = _table(children)
        elif children and depth < _MAX_DEPTH:
            inner = to_markdown(children, depth + 1)
            is_nested = kind in _LIST_ITEMS
            text = f"{text}\n{_indent(inner)}" if is_nested else "\n\n".join(filter(None, (text, inner)))
        if text:
            is_tight = kind in _LIST_ITEMS and previous == kind
            lines.append(("\n" if is_tight else "\n\n") + text)
        previous = kind
    return "".join(lines).strip("\n")


def _block_markdown(kind: str, data: dict[str, Any], number: int) -> str:
    text = rich_markdown(data.get("rich_text"))
    match kind:
        case _ if kind in _HEADINGS:
            return f"{_HEADINGS[kind]}{text}" if text else ""
        case "bulleted_list_item":
            return f"- {text}"
        case "numbered_list_item":
            return f"{number}. {text}"
        case "to_do":
            return f"- [{'x' if data.get('checked') else ' '}] {text}"
        case "quote" | "callout":
            return "\n".join(f"> {line}" for line in text.splitlines())
        case "code":
            return f"```{data.get('language') or ''}\n{plain_text(data.get('rich_text'))}\n```"
        case "equation":
            return f"$${data.get('expression') or ''}$$"
        case "divider":
            return "---"
        case "child_page" | "child_database":
            return str(data.get("title") or "")
        case "bookmark" | "embed" | "link_preview":
            caption = rich_markdown(data.get("caption"))
            return f"[{caption or data.get('url')}]({data.get('url')})" if data.get("url") else caption
        case _ if kind in _FILES:
            return _file_markdown(data)
        case _:
            return text


def _file_markdown(data: dict[str, Any]) -> str:
    """A file by its name and caption. The address of a file that Notion holds expires, so it is left out."""
    name, caption = str(data.get("name") or ""), rich_markdown(data.get("caption"))
    label = " ".join(filter(None, (name, caption)))
    address = as_dict(data.get("external")).get("url")
    return f"[{label or address}]({address})" if address else label


def _table(rows: Sequence[dict[str, Any]]) -> str:
    cells = [
        [
            rich_markdown(cell).replace("|", "\\|").replace("\n", " ")
            for cell in as_list(as_dict(row.get("table_row")).get("cells"))
        ]
        for row in rows
    ]
    lines = [f"| {' | '.join(row)} |" for row in cells if row]
    if lines:
        lines.insert(1, f"|{' --- |' * len(cells[0])}")
    return "\n".join(lines)


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────


def page_title(page: dict[str, Any]) -> str:
    """The title of a page: the property of that type."""
    for value in map(as_dict, as_dict(page.get("properties")).values()):
        if value.get("type") == "title":
            return plain_text(value.get("title")).strip()
    return ""


def property_lines(page: dict[str, Any]) -> list[str]:
    """What the fields of a page of a database say, one line each."""
    lines: list[str] = []
    for name, value in as_dict(page.get("properties")).items():
        property_value = as_dict(value)
        kind = str(property_value.get("type") or "")
        text = "" if kind == "title" else _property_text(kind, property_value.get(kind))
        if text:
            lines.append(f"- {name}: {text}")
    return lines


def _property_text(kind: str, value: object) -> str:
    match kind:
        case "rich_text":
            return rich_markdown(value)
        case "number" | "url" | "email" | "phone_number":
            return "" if value is None else str(value)
        case "select" | "status":
            return str(as_dict(value).get("name") or "")
        case "multi_select" | "people" | "files":
            return ", ".join(str(as_dict(entry).get("name") or "") for entry in as_list(value))
        case "date":
            dates = as_dict(value)
            return " – ".join(str(dates[name]) for name in ("start", "end") if dates.get(name))
        case "checkbox":
            return "yes" if value else "no"
        case "formula":
            formula = as_dict(value)
            kind, result = str(formula.get("type")), formula.get(str(formula.get("type")))
            return _property_text({"boolean": "checkbox", "string": "number"}.get(kind, kind), result)
        case "unique_id":
            unique = as_dict(value)
            return "-".join(
                str(unique[name]) for name in ("prefix", "number") if unique.get(name) is not None
            )
        case _:
            return ""
