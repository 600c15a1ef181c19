"""What `gristmill events` and `gristmill queue` do."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gristmill import clock
from gristmill.cli.add import base_id_by_name
from gristmill.cli.client_session import ClientSession
from gristmill.cli.output import details, new_table, plain_value, print_json
from gristmill.cli.status import duration

_POLL_INTERVAL = timedelta(seconds=1)
_NEWEST = str(2**63 - 1)
_PAGE = 500

EventPage = dict[str, Any]


async def event_filters(session: ClientSession, base: str | None, types: Sequence[str]) -> dict[str, str]:
    """The query parameters for the events of a base and of these types."""
    filters = {"types": ",".join(types)} if types else {}
    if base is not None:
        filters["baseId"] = await base_id_by_name(session, base, create=False)
    return filters


async def event_pages(
    session: ClientSession, filters: Mapping[str, str], *, after: str | None, limit: int, follow: bool
) -> AsyncGenerator[EventPage]:
    """Pages of events, oldest first: the latest ones, or all after an event; with `follow`, also what happens from then on.

    It asks again and again instead of keeping a stream open: that also works without a server, and after one was started again.
    """
    if after is None:
        newest = await session.call("GET", "/events", params={**filters, "before": _NEWEST, "limit": limit})
        newest["items"].reverse()
        yield newest
        # Without any event of this kind, those from the beginning on are new.
        after = newest["items"][-1]["id"] if newest["items"] else "0"
        if not follow:
            return
    while True:
        page = await session.call("GET", "/events", params={**filters, "after": after, "limit": _PAGE})
        yield page
        after = page["nextCursor"]
        if len(page["items"]) == _PAGE:
            continue
        if not follow:
            return
        await clock.pause(_POLL_INTERVAL)


async def print_events(pages: AsyncIterator[EventPage], out: Console, *, as_json: bool, follow: bool) -> None:
    """Print events, a line each; as JSON one document, or with `follow` one per line."""
    listed: list[dict[str, Any]] = []
    count = 0
    async for page in pages:
        count += len(page["items"])
        for event in page["items"]:
            if as_json and follow:
                print(json.dumps(event, ensure_ascii=False), flush=True)
            elif as_json:
                listed.append(event)
            else:
                out.print(_event_line(event, page["titles"]), soft_wrap=True)
    if not follow:
        print_json(listed, as_json)
        if not count:
            out.print("No events.")


def _event_line(event: Mapping[str, Any], titles: Mapping[str, str]) -> Text:
    subject = event["subject"]
    name = titles.get(subject, subject) if subject else ""
    data = plain_value(event["data"])
    at = datetime.fromisoformat(event["at"]).astimezone()
    return Text.assemble(
        (f"{event['id']:>5}  {at:%Y-%m-%d %H:%M:%S}  ", "dim"),
        (event["type"], "red" if "Failed" in event["type"] else "bold"),
        f"  {name}" if name else "",
        (f"  {data}" if data else "", "dim"),
    )


async def find_queue(session: ClientSession, base: str | None) -> dict[str, Any]:
    """The queue of all, or of one base."""
    if base is None:
        return await session.call("GET", "/queue")
    base_id = await base_id_by_name(session, base, create=False)
    return await session.call("GET", f"/knowledge-bases/{base_id}/queue")


def queue_view(queue: Mapping[str, Any], base: str | None) -> Table | Text:
    """A table of lanes, or of the queue of one base."""
    if base is not None:
        return details(queue)
    busy = [
        lane
        for lane in queue["lanes"]
        if lane["running"] or lane["waiting"] or lane["dead"] or lane["paused"]
    ]
    if not busy:
        return Text("Nothing waits, and nothing is being worked on.")
    numbers = ("running", "waiting", "dead", "per minute", "done in")
    table = new_table("lane", "kind", *numbers, "working on", right=numbers)
    for lane in busy:
        table.add_row(
            Text(lane["name"] or lane["lane"]),
            f"{lane['kind']}{', paused' if lane['paused'] else ''}",
            str(lane["running"]),
            str(lane["waiting"]),
            Text(str(lane["dead"]), style="red" if lane["dead"] else ""),
            f"{lane['ratePerMinute']:g}",
            duration(lane["etaSeconds"]),
            Text(lane["working"] or ""),
        )
    return table
