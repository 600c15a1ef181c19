"""`gristmill status`: the bases, their queues, and why items wait."""

from datetime import datetime
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gristmill.cli.add import base_id_by_name
from gristmill.cli.client_session import ClientSession
from gristmill.cli.output import new_table

_ACTIVE = ("idle", "preparing", "processing", "reading", "embedding")
_MAX_WAITING = 5  # items of a base whose reason to wait is shown
_NO_BASES = Text('No knowledge bases yet. Try: gristmill add notes --note "…" --wait')


async def bases_with_queues(session: ClientSession, base: str | None) -> list[dict[str, Any]]:
    """The bases, each with the state of its queue and the first items that wait for something."""
    return [
        {
            **entry,
            "queue": await session.call("GET", f"/knowledge-bases/{entry['id']}/queue"),
            "waiting": await _waiting_items(session, entry),
        }
        for entry in await find_bases(session, base)
    ]


async def _waiting_items(session: ClientSession, base: dict[str, Any]) -> list[dict[str, Any]]:
    waiting: list[dict[str, Any]] = []
    for status in (name for name in _ACTIVE if base["itemCounts"].get(name)):
        page = await session.call(
            "GET", f"/knowledge-bases/{base['id']}/items", params={"parentId": "*", "status": status}
        )
        waiting += [item for item in page["items"] if item["waitingFor"]]
    return waiting[:_MAX_WAITING]


def status_view(session: ClientSession, bases: list[dict[str, Any]]) -> Group | Text:
    """A table of the bases and their queues, and why items wait."""
    if not bases:
        return _NO_BASES
    numbers = ("searchable", "in progress", "failed", "queued", "running", "per minute", "done in")
    table = new_table("base", *numbers, right=numbers)
    for entry in bases:
        queue, counts = entry["queue"], entry["itemCounts"]
        failed = counts.get("failed", 0)
        table.add_row(
            Text(entry["name"]),
            str(counts.get("completed", 0)),
            str(sum(counts.get(status, 0) for status in _ACTIVE)),
            Text(str(failed), style="red" if failed else ""),
            str(queue["queueSize"]),
            str(queue["processingCount"]),
            str(queue["ratePerMinute"]),
            duration(queue["etaSeconds"]),
        )
    reasons = [
        Text(f"{entry['name']}: {item['title']} waits: {_reason(item['waitingFor'])}")
        for entry in bases
        for item in entry["waiting"]
    ]
    if session.is_remote:
        return Group(table, *reasons)
    no_server = Text("No server runs on this data dir: nothing is being indexed.", style="dim")
    return Group(table, *reasons, no_server)


def _reason(waiting_for: dict[str, Any]) -> str:
    """Why an item waits, with the attempt and the time of the next one."""
    parts = [waiting_for["message"]]
    if waiting_for["attempt"]:
        parts.append(f"Attempt {waiting_for['attempt']} of {waiting_for['maxAttempts']}.")
    if waiting_for["nextAttemptAt"]:
        next_attempt = datetime.fromisoformat(waiting_for["nextAttemptAt"]).astimezone()
        parts.append(f"Next at {next_attempt:%H:%M:%S}.")
    return " ".join(parts)


def base_table(bases: list[dict[str, Any]]) -> Table | Text:
    """A table of the bases without their queues."""
    if not bases:
        return _NO_BASES
    table = new_table("base", "status", "items", "embedder", "created", right=("items",))
    for entry in bases:
        count = sum(entry["itemCounts"].values())
        table.add_row(
            Text(entry["name"]), entry["status"], str(count), Text(entry["embedder"]), entry["createdAt"][:10]
        )
    return table


async def find_bases(session: ClientSession, base: str | None) -> list[dict[str, Any]]:
    """All bases, or the one of this name."""
    if base is not None:
        base_id = await base_id_by_name(session, base, create=False)
        return [await session.call("GET", f"/knowledge-bases/{base_id}")]
    return [entry async for entry in session.client.pages("/knowledge-bases")]


def duration(seconds: int | None) -> str:
    """A time in words, `2 min 5 s`; a question mark if it is unknown."""
    if seconds is None:
        return "?"
    if seconds == 0:
        return "–"
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
