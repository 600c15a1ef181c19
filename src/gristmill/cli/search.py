"""`gristmill search` and `gristmill why-not`: print the hits, or why there is none, for people or as JSON."""

from collections.abc import Mapping
from textwrap import indent
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from gristmill.cli.add import base_id_by_name
from gristmill.cli.client_session import ClientSession
from gristmill.cli.items import parse_id
from gristmill.cli.output import plural, print_json, print_text

_EXCERPT_LENGTH = 400
_INDENT = "   "


async def search(
    session: ClientSession, out: Console, base: str, body: Mapping[str, Any], *, as_json: bool
) -> None:
    """Print the hits: an excerpt of each in a terminal, the whole text into a file or a pipe."""
    base_id = await base_id_by_name(session, base, create=False)
    response = await session.call("POST", f"/knowledge-bases/{base_id}/search", json=dict(body))
    if as_json:
        print_json(response, as_json)
        return
    for line in _changes(response):
        out.print(Text(line, "dim"), soft_wrap=not out.is_terminal)
    for place, hit in enumerate(response["hits"], 1):
        out.print(_headline(place, hit), soft_wrap=not out.is_terminal)
        if hit["explain"]:
            out.print(
                Padding(Text(_explanation(hit), "dim"), (0, 0, 0, len(_INDENT)), expand=False),
                soft_wrap=not out.is_terminal,
            )
        if out.is_terminal:
            out.print(_excerpt(hit), soft_wrap=False)  # wraps at the width of the terminal
        else:
            print_text(indent(hit["text"], _INDENT))
        out.print()
    if not response["hits"]:
        out.print(f"No hits in [bold]{escape(base)}[/bold].")


async def why_not(
    session: ClientSession, out: Console, item_id: str, body: Mapping[str, Any], *, as_json: bool
) -> None:
    """Print the reasons why an item is not among the hits, or its rank."""
    checked_id = parse_id(item_id)
    response = await session.client.why_not(checked_id, **body)
    if as_json:
        print_json(response, as_json)
        return
    item = await session.client.item(checked_id)
    if response["rank"] is not None:
        out.print(Text(f"“{item['title']}” is number {response['rank']} among the hits."))
    else:
        out.print(Text(f"“{item['title']}” is not among the first 100 hits."))
    for reason in response["reasons"]:
        out.print(Text(f"{_INDENT}{reason['message']} ({reason['code']})"), soft_wrap=not out.is_terminal)
    for term in response["terms"]:
        counts = f"{plural(term['count'], 'time')} in its best chunk, in {plural(term['chunks'], 'chunk')} of the base"
        out.print(Text(f"{_INDENT}“{term['term']}”: {counts}", "dim"))


def _explanation(hit: Mapping[str, Any]) -> str:
    """Why a hit is at its place: its rank in both searches, and the words that counted."""
    explain, ranks = hit["explain"], hit["ranks"]
    parts = [
        f"by {way}: "
        + (f"rank {ranks[name]}, {measure} {explain[field]:.3f}" if ranks[name] else "not found")
        for way, name, measure, field in (
            ("meaning", "vector", "similarity", "similarity"),
            ("keyword", "text", "score", "textScore"),
        )
    ]
    if words := [f"{term['term']} ×{term['count']}" for term in explain["terms"] if term["count"]]:
        parts.append(f"words: {', '.join(words)}")
    if explain["rerankScore"] is not None:
        parts.append(f"reranker: score {explain['rerankScore']:.3f}")
    return "; ".join(parts)


def _changes(response: dict[str, Any]) -> list[str]:
    """What was skipped, and what was changed about the query, for people."""
    best = response["bestScore"]
    unfit = best is not None and not response["fits"]
    lines = [skipped["message"] for skipped in response["skipped"]]
    lines += [f"Nothing fits this query well: the best score is {best:.2f}."] if unfit else []
    lines += [f"Nothing contains “{phrase}”. Searched for its words." for phrase in response["relaxed"]]
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
    return Padding(Text.assemble(ellipses[0], excerpt, ellipses[1]), (0, 0, 0, len(_INDENT)), expand=False)
