"""`gristmill search` and `gristmill status`: what there is, for people and for programs."""

import json
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gristmill.cli.add import base_named
from gristmill.cli.session import Session

_SNIPPET = 400
_ACTIVE = ("idle", "preparing", "processing", "reading", "embedding")


async def search(session: Session, out: Console, base: str, query: str, *, limit: int, as_json: bool) -> int:
    """Print the hits; how many there were."""
    base_id = await base_named(session, base, create=False)
    answer = await session.call(
        "POST", f"/knowledge-bases/{base_id}/search", json={"query": query, "limit": limit}
    )
    if as_json:
        out.print_json(json.dumps(answer, ensure_ascii=False))
        return len(answer["hits"])
    for place, hit in enumerate(answer["hits"], 1):
        out.print(_headline(place, hit))
        out.print(_snippet(hit))
        out.print()
    if not answer["hits"]:
        out.print(f"Nothing in [bold]{base}[/bold] answers that.")
    return len(answer["hits"])


def _headline(place: int, hit: dict[str, Any]) -> Text:
    where = hit["source"]["path"] or hit["source"]["url"] or ""
    trail = " › ".join(hit["headings"])
    return Text.assemble(
        (f"{place}. ", "dim"),
        (hit["title"], "bold"),
        (f"  {trail}" if trail else "", "cyan"),
        (f"  {hit['score']:.3f}", "dim"),
        (f"  {where}" if where else "", "dim"),
    )


def _snippet(hit: dict[str, Any]) -> Padding:
    """The text around the first highlight, highlights shown."""
    marks: list[list[int]] = hit["highlights"]
    first = max(0, marks[0][0] - _SNIPPET // 4) if marks else 0
    text = Text(hit["text"])
    for start, end in marks:
        text.stylize("bold yellow", start, end)
    shown = text[first : first + _SNIPPET]
    ellipses = ("… " if first else "", " …" if first + _SNIPPET < len(hit["text"]) else "")
    return Padding(Text.assemble(ellipses[0], shown, ellipses[1]), (0, 0, 0, 3))


async def look(session: Session, base: str | None) -> list[dict[str, Any]]:
    """The bases, each with its queue."""
    return [
        {**entry, "queue": await session.call("GET", f"/knowledge-bases/{entry['id']}/queue")}
        for entry in await _bases(session, base)
    ]


def status(session: Session, bases: list[dict[str, Any]]) -> Group | Table | Text:
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
    if session.remote:
        return table
    return Group(table, Text("No server runs on this data dir: nothing is being indexed.", style="dim"))


async def _bases(session: Session, base: str | None) -> list[dict[str, Any]]:
    if base is not None:
        base_id = await base_named(session, base, create=False)
        return [await session.call("GET", f"/knowledge-bases/{base_id}")]
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await session.call(
            "GET", "/knowledge-bases", params={"limit": 500, **({"cursor": cursor} if cursor else {})}
        )
        found += page["items"]
        cursor = page["nextCursor"]
        if cursor is None:
            return found


def _duration(seconds: int | None) -> str:
    if seconds is None:
        return "?"
    if seconds == 0:
        return "–"
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
