"""`gristmill connector …` and `gristmill sync`: tools that are followed, and their runs."""

import getpass
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gristmill import clock
from gristmill.cli.add import POLL, base_named
from gristmill.cli.session import Refused, Session

# Settings that take many values.
_LISTS = frozenset({"repositories", "organizations", "projects", "groups", "files", "spaces"})


async def add(
    session: Session,
    out: Console,
    kind: str,
    name: str,
    *,
    bases: Sequence[str],
    config: Sequence[str],
    secrets: Sequence[str],
    schedule: str | None,
    acl: Sequence[str],
) -> dict[str, Any]:
    """Follow a tool; its bases are made when there are none of these names."""
    body: dict[str, Any] = {
        "name": name,
        "type": kind,
        "config": settings(config),
        "credentials": credentials(secrets),
        "knowledgeBaseIds": [await base_named(session, base, create=True) for base in bases],
        **({"schedule": schedule} if schedule else {}),
        **({"acl": list(acl)} if acl else {}),
    }
    made = await session.call("POST", "/connectors", json=body)
    checked = await session.call("POST", f"/connectors/{made['id']}/check")
    if checked["ok"]:
        out.print(f"Following {kind} as [bold]{name}[/bold]: {checked['account']}.")
    else:
        error = checked["error"]
        out.print(f"Added [bold]{name}[/bold], but: {error['message']} ({error['code']})")
    return {**made, "check": checked}


def settings(given: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` as JSON where it is; a key that takes many collects them."""
    found: dict[str, Any] = {}
    for entry in given:
        key, text = _pair(entry, "--set")
        try:
            value: Any = json.loads(text)
        except ValueError:
            value = text
        if key in _LISTS and not isinstance(value, list):
            found.setdefault(key, []).append(str(value))
        else:
            found[key] = value
    return found


def credentials(given: Sequence[str]) -> dict[str, Any]:
    """`KEY=@FILE` is read from a file, `KEY=-` is asked for; `KEY=VALUE` stands in the shell's history."""
    found: dict[str, Any] = {}
    for entry in given:
        key, value = _pair(entry, "--secret")
        if value == "-":
            value = getpass.getpass(f"{key}: ")
        elif value.startswith("@"):
            try:
                value = Path(value[1:]).expanduser().read_text(encoding="utf-8").strip()
            except OSError as error:
                raise Refused(
                    f"{value[1:]} can't be read: {error.strerror}", code="no_secret_file"
                ) from error
        found[key] = int(value) if key == "installationId" and value.isdecimal() else value
    return found


def _pair(entry: str, option: str) -> tuple[str, str]:
    key, sign, value = entry.partition("=")
    if not sign or not key:
        raise Refused(f"{option} takes KEY=VALUE.", code="bad_option")
    return key, value


async def find_all(session: Session) -> list[dict[str, Any]]:
    """All connectors."""
    return [one async for one in session.client.pages("/connectors")]


def listed(found: Sequence[Mapping[str, Any]]) -> Table:
    """Connectors, and how their last runs went."""
    table = Table(box=None, header_style="bold")
    for title in ("connector", "type", "bases", "schedule", "last sync", "status"):
        table.add_column(title)
    for one in found:
        status = one["lastSyncStatus"] or "never run"
        table.add_row(
            one["name"],
            one["type"],
            str(len(one["knowledgeBaseIds"])),
            one["schedule"] if one["enabled"] else "paused",
            one["lastSyncAt"] or "",
            f"{status} until {one['rateLimitedUntil']}" if one["rateLimitedUntil"] else status,
        )
    return table


async def show(session: Session, out: Console, name: str) -> None:
    """One connector and its last runs, as the API tells them."""
    found = await named(session, name)
    runs = await session.call("GET", f"/connectors/{found['id']}/runs", params={"limit": 5})
    out.print_json(json.dumps({**found, "runs": runs["items"]}, ensure_ascii=False))


async def named(session: Session, name: str) -> dict[str, Any]:
    """The connector of this name."""
    page = await session.call("GET", "/connectors", params={"name": name})
    if not page["items"]:
        raise Refused(
            f"There is no connector named {name!r}. `gristmill connector list` lists them.",
            code="connector_not_found",
        )
    return page["items"][0]


async def turn(session: Session, out: Console, name: str, word: str) -> dict[str, Any]:
    """Pause or resume."""
    found = await named(session, name)
    turned = await session.call("POST", f"/connectors/{found['id']}/{word}")
    out.print(f"[bold]{name}[/bold] is {'paused' if word == 'pause' else 'resumed'}.")
    return turned


async def delete(session: Session, out: Console, name: str, on_delete: str) -> dict[str, Any]:
    """Forget a connector."""
    found = await named(session, name)
    await session.call("DELETE", f"/connectors/{found['id']}", params={"onDelete": on_delete})
    kept = "its documents stay" if on_delete == "detach" else "its documents are being removed"
    out.print(f"[bold]{name}[/bold] is forgotten; {kept}.")
    return {"id": found["id"], "name": name, "onDelete": on_delete}


async def sync(
    session: Session, out: Console, name: str, *, wait: bool, how: dict[str, bool]
) -> dict[str, Any]:
    """Run a connector: what was accepted, or with `wait` the run as it ended."""
    found = await named(session, name)
    queued = await session.call("POST", f"/connectors/{found['id']}/sync", json=how)
    if not wait:
        out.print(f"Sync of [bold]{name}[/bold] accepted.")
        if not session.remote:
            out.print("No server runs here: it is done by the next `gristmill serve`, or now with --wait.")
        return queued
    run = await _see_through(session, out, name, queued["runId"])
    if run["plan"] is not None:
        plan = run["plan"]
        out.print(f"Would add {plan['add']}, change {plan['change']}, prune {plan['prune']}.")
    else:
        out.print(
            f"{run['status']}: {run['documentsProcessed']} read, {run['documentsIngested']} new or changed, "
            f"{run['documentsPruned']} pruned, {run['itemErrors']} failed."
        )
    if run["error"] is not None:
        out.print(f"[red]{run['error']['message']}[/red] ({run['error']['code']})")
    return run


async def _see_through(session: Session, out: Console, name: str, run_id: str) -> dict[str, Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% {task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, transient=True) as progress:
        bar = progress.add_task(name[:40], total=100, note="")
        while True:
            run = await session.call("GET", f"/connector-runs/{run_id}")
            until = run["rateLimitedUntil"]
            note = f"waits until {until}" if until else f"{run['documentsProcessed']} {run['stage']}"
            progress.update(bar, completed=run["progress"], note=note)
            if run["completedAt"] is not None:
                return run
            await clock.pause(POLL)
