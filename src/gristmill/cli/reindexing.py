"""`gristmill reindex`: rebuild items, and with `--wait` see them through."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from gristmill import clock
from gristmill.cli.add import POLL, Outcome, base_named, see_through, tell_ends
from gristmill.cli.session import Session

_LIVING = ("queued", "delayed", "running")


async def reindex(
    session: Session, out: Console, base: str, item_ids: Sequence[str], *, on_active: str, wait: bool
) -> Outcome:
    """Rebuild these items of the base of this name, or all of its roots."""
    base_id = await base_named(session, base, create=False)
    ids = list(item_ids) or [str(item["id"]) for item in await session.client.items(base_id)]
    answer = await session.client.reindex(base_id, ids, onActive=on_active)
    refused: list[dict[str, Any]] = answer["failed"]
    for entry in refused:
        error = entry["error"]
        out.print(f"[red]not rebuilt[/red] {entry['itemId']}: {error['message']} ({error['code']})")
    ended: list[dict[str, Any]] = []
    if not wait:
        out.print(f"{len(answer['rootIds'])} to be rebuilt in [bold]{base}[/bold].")
    elif answer["jobId"] is not None:
        # Items are wanted anew by this job: until it has ended, they are as they were.
        while (await session.call("GET", f"/jobs/{answer['jobId']}"))["state"] in _LIVING:
            await clock.pause(POLL)
        roots = [dict(await session.client.item(root)) for root in answer["rootIds"]]
        ended = await see_through(session, out, base_id, roots)
        tell_ends(out, base, ended)
    well = not refused and not any(item["status"] == "failed" for item in ended)
    return Outcome({**answer, **({"ended": ended} if wait else {})}, well)
