"""`gristmill search`: print the hits, for people or as JSON."""

import json
from textwrap import indent
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from gristmill.cli.add import base_id_by_name
from gristmill.cli.client_session import ClientSession

_EXCERPT_LENGTH = 400
_INDENT = "   "


async def search(
    session: ClientSession, out: Console, base: str, query: str, *, limit: int, as_json: bool
) -> int:
    """Print the hits: an excerpt of each in a terminal, the whole text into a file or a pipe. Returns their number."""
    base_id = await base_id_by_name(session, base, create=False)
    response = await session.call(
        "POST", f"/knowledge-bases/{base_id}/search", json={"query": query, "limit": limit}
    )
    if as_json:
        out.print_json(json.dumps(response, ensure_ascii=False))
        return len(response["hits"])
    for line in _changes(response):
        out.print(Text(line, "dim"), soft_wrap=not out.is_terminal)
    for place, hit in enumerate(response["hits"], 1):
        out.print(_headline(place, hit), soft_wrap=not out.is_terminal)
        if out.is_terminal:
            out.print(_excerpt(hit), soft_wrap=False)  # wraps at the width of the terminal
        else:
            out.print(indent(hit["text"], _INDENT), markup=False, highlight=False)
        out.print()
    if not response["hits"]:
        out.print(f"No hits in [bold]{escape(base)}[/bold].")
    return len(response["hits"])


def _changes(response: dict[str, Any]) -> list[str]:
    """What was changed about the query, for people."""
    lines = [f"Nothing contains “{phrase}”. Searched for its words." for phrase in response["relaxed"]]
    return lines + [
        f"Nothing contains “{correction['word']}”. Searched for “{correction['replacement']}”."
        for correction in response["corrected"]
    ]


def _headline(place: int, hit: dict[str, Any]) -> Text:
    location = hit["source"]["path"] or hit["source"]["url"] or ""
    heading_path = " › ".join(hit["headings"])
    return Text.assemble(
        (f"{place}. ", "dim"),
        (hit["title"], "bold"),
        (f"  {heading_path}" if heading_path else "", "cyan"),
        (f"  {hit['score']:.3f}", "dim"),
        (f"  {location}" if location else "", "dim"),
    )


def _excerpt(hit: dict[str, Any]) -> Padding:
    """An excerpt around the first highlight, with highlights."""
    highlights: list[list[int]] = hit["highlights"]
    start_at = max(0, highlights[0][0] - _EXCERPT_LENGTH // 4) if highlights else 0
    text = Text(hit["text"])
    for start, end in highlights:
        text.stylize("bold yellow", start, end)
    excerpt = text[start_at : start_at + _EXCERPT_LENGTH]
    ellipses = ("… " if start_at else "", " …" if start_at + _EXCERPT_LENGTH < len(hit["text"]) else "")
    return Padding(Text.assemble(ellipses[0], excerpt, ellipses[1]), (0, 0, 0, len(_INDENT)))
