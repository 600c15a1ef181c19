"""`gristmill reindex`: reindex items, and with `--wait` wait until they are done."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from gristmill import clock
from gristmill.cli.add import (
    POLL_INTERVAL,
    CommandResult,
    base_id_by_name,
    print_estimate,
    print_results,
    wait_for_items,
)
from gristmill.cli.client_session import ClientSession

_LIVE_STATES = ("queued", "delayed", "running")


async def reindex(
    session: ClientSession,
    out: Console,
    base: str,
    item_ids: Sequence[str],
    *,
    on_active: str,
    wait: bool,
    dry_run: bool = False,
) -> CommandResult:
    """Reindex these items of a base, or all of them; with `dry_run`, only show what that would embed."""
    base_id = await base_id_by_name(session, base, create=False)
    ids = list(item_ids) or [str(item["id"]) for item in await session.client.items(base_id)]
    if dry_run:
        estimate = await session.client.reindex(base_id, ids, dryRun=True)
        print_estimate(out, estimate)
        return CommandResult(estimate, True)
    response = await session.client.reindex(base_id, ids, onActive=on_active)
    failed: list[dict[str, Any]] = response["failed"]
    for entry in failed:
        error = entry["error"]
        out.print(f"[red]not reindexed[/red] {entry['itemId']}: {escape(error['message'])} ({error['code']})")
    items: list[dict[str, Any]] = []
    if not wait:
        out.print(f"{len(response['rootIds'])} queued for reindexing in [bold]{escape(base)}[/bold].")
    elif response["jobId"] is not None:
        # This job requests the new versions of the items: until it has ended, they keep their old status.
        while (await session.call("GET", f"/jobs/{response['jobId']}"))["state"] in _LIVE_STATES:
            await clock.pause(POLL_INTERVAL)
        roots = [dict(await session.client.item(root)) for root in response["rootIds"]]
        items = await wait_for_items(session, out, base_id, roots)
        print_results(out, base, items)
    succeeded = not failed and not any(item["status"] == "failed" for item in items)
    return CommandResult({**response, **({"ended": items} if wait else {})}, succeeded)
