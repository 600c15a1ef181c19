"""`gristmill search` and `gristmill status`: what there is, for people and for programs."""

import json
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gristmill.cli.add import base_id_by_name
from gristmill.cli.client_session import ClientSession

_SNIPPET_LENGTH = 400
_ACTIVE = ("idle", "preparing", "processing", "reading", "embedding")


async def search(
    session: ClientSession, out: Console, base: str, query: str, *, limit: int, as_json: bool
) -> int:
    """Print the hits; how many there were."""
    base_id = await base_id_by_name(session, base, create=False)
    response = await session.call(
        "POST", f"/knowledge-bases/{base_id}/search", json={"query": query, "limit": limit}
    )
    if as_json:
        out.print_json(json.dumps(response, ensure_ascii=False))
        return len(response["hits"])
    for place, hit in enumerate(response["hits"], 1):
        out.print(_headline(place, hit))
        out.print(_snippet(hit))
        out.print()
    if not response["hits"]:
        out.print(f"Nothing in [bold]{base}[/bold] answers that.")
    return len(response["hits"])


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


def _snippet(hit: dict[str, Any]) -> Padding:
    """The text around the first highlight, highlights shown."""
    highlights: list[list[int]] = hit["highlights"]
    start_at = max(0, highlights[0][0] - _SNIPPET_LENGTH // 4) if highlights else 0
    text = Text(hit["text"])
    for start, end in highlights:
        text.stylize("bold yellow", start, end)
    excerpt = text[start_at : start_at + _SNIPPET_LENGTH]
    ellipses = ("… " if start_at else "", " …" if start_at + _SNIPPET_LENGTH < len(hit["text"]) else "")
    return Padding(Text.assemble(ellipses[0], excerpt, ellipses[1]), (0, 0, 0, 3))


async def bases_with_queues(session: ClientSession, base: str | None) -> list[dict[str, Any]]:
    """The bases, each with its queue."""
    return [
        {**entry, "queue": await session.call("GET", f"/knowledge-bases/{entry['id']}/queue")}
        for entry in await _find_bases(session, base)
    ]


def status_view(session: ClientSession, bases: list[dict[str, Any]]) -> Group | Table | Text:
    """A picture of the bases and what they still have to do."""
    if not bases:
        return Text('No knowledge bases yet. Try: gristmill add notes --note "…" --wait')
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("base", "searchable", "in work", "failed", "queued", "running", "per minute", "done in"):
        table.add_column(column, justify="left" if column == "base" else "right")
    for entry in bases:
        queue, counts = entry["queue"], entry["itemCounts"]
        failed = counts.get("failed", 0)
        table.add_row(
            entry["name"],
            str(counts.get("completed", 0)),
            str(sum(counts.get(status, 0) for status in _ACTIVE)),
            Text(str(failed), style="red" if failed else ""),
            str(queue["queueSize"]),
            str(queue["processingCount"]),
            str(queue["ratePerMinute"]),
            _duration(queue["etaSeconds"]),
        )
    if session.is_remote:
        return table
    return Group(table, Text("No server runs on this data dir: nothing is being indexed.", style="dim"))


async def _find_bases(session: ClientSession, base: str | None) -> list[dict[str, Any]]:
    if base is not None:
        base_id = await base_id_by_name(session, base, create=False)
        return [await session.call("GET", f"/knowledge-bases/{base_id}")]
    bases: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await session.call(
            "GET", "/knowledge-bases", params={"limit": 500, **({"cursor": cursor} if cursor else {})}
        )
        bases += page["items"]
        cursor = page["nextCursor"]
        if cursor is None:
            return bases


def _duration(seconds: int | None) -> str:
    if seconds is None:
        return "?"
    if seconds == 0:
        return "–"
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
