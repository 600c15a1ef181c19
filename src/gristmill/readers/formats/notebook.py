"""Notebooks (ipynb): markdown cells as they are, code cells in fences, and their output."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from gristmill.readers.sink import DocumentRefused, Sink

_MAX_OUTPUT_LENGTH = 20_000  # characters of one cell: more is a log
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def read(sink: Sink) -> None:
    """Read a notebook."""
    try:
        document: Any = json.loads(sink.task.path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DocumentRefused(f"It is not a notebook: {error}"[:300], code="corrupt") from None
    notebook: dict[str, Any] = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    cells: list[Any] = notebook.get("cells") or [
        cell for sheet in notebook.get("worksheets") or () for cell in sheet.get("cells") or ()
    ]
    metadata: Any = notebook.get("metadata") or {}
    info: Any = metadata.get("language_info") or {}
    language = str(info.get("name") or "python")
    for cell in cells:
        for block in _blocks(cast("dict[str, Any]", cell) if isinstance(cell, dict) else {}, language):
            sink.add_text(block.rstrip() + "\n\n")
    if not sink.text_length:
        sink.warn("empty")


def _blocks(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _text(cell.get("source", cell.get("input")))
    if not source.strip():
        return
    if cell.get("cell_type") != "code":
        yield source
        return
    yield _fence(source, language)
    for output in cell.get("outputs") or ():
        data: dict[str, Any] = output.get("data") or {}
        printed = _text(output.get("text") or data.get("text/markdown") or data.get("text/plain"))
        if printed.strip():
            yield _fence(_ANSI.sub("", printed)[:_MAX_OUTPUT_LENGTH], "")


def _fence(text: str, language: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`{3,}", text) or [""]))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(part) for part in cast("list[Any]", value))
    return value if isinstance(value, str) else ""
