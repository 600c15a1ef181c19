"""The work of `gristmill connector …` and `gristmill sync`, through the API."""

import getpass
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from gristmill import clock
from gristmill.cli.add import POLL_INTERVAL, base_id_by_name
from gristmill.cli.client_session import ClientSession, Refused
from gristmill.cli.output import new_table
from gristmill.cli.principals import resolve_entries

_MAX_WARNINGS = 10  # of a run, that are printed


async def add(
    session: ClientSession,
    out: Console,
    kind: str,
    name: str,
    *,
    bases: Sequence[str],
    settings: Sequence[str],
    credentials: Mapping[str, Any],
    schedule: str | None,
    acl_schedule: str | None,
    acl: Sequence[str],
) -> dict[str, Any]:
    """Add a connector; bases that do not exist are created, unless the connector is refused."""
    body: dict[str, Any] = {
        "name": name,
        "type": kind,
        "config": parse_settings(settings, await config_schema(session, kind)),
        "credentials": credentials,
        **({"schedule": schedule} if schedule else {}),
        **({"aclSchedule": acl_schedule} if acl_schedule else {}),
        **({"acl": await resolve_entries(session, acl)} if acl else {}),
    }
    base_ids: list[str] = []
    new_ids: list[str] = []
    for base in dict.fromkeys(bases):
        page = await session.call("GET", "/knowledge-bases", params={"name": base})
        if not page["items"]:
            new_ids.append(await base_id_by_name(session, base, create=True))
        base_ids.append(page["items"][0]["id"] if page["items"] else new_ids[-1])
    try:
        created = await session.call("POST", "/connectors", json={**body, "knowledgeBaseIds": base_ids})
    except Refused:
        for base_id in new_ids:
            await session.client.delete_base(base_id)
        raise
    return {**created, "check": await report_check(session, out, created, "Added")}


async def config_schema(session: ClientSession, kind: str) -> dict[str, Any]:
    """The schema of the settings of a type; empty if there is no such type."""
    kinds = (await session.call("GET", "/connector-kinds"))["items"]
    schemas: dict[str, dict[str, Any]] = {entry["type"]: entry["config"] for entry in kinds}
    return schemas.get(kind, {})


async def report_check(
    session: ClientSession, out: Console, connector: Mapping[str, Any], action: str
) -> dict[str, Any]:
    """Ask the tool for a connector's account, and print the answer."""
    name = str(connector["name"])
    check = await session.call("POST", f"/connectors/{connector['id']}/check")
    if check["ok"]:
        out.print(
            f"{action} the {connector['type']} connector [bold]{escape(name)}[/bold], "
            f"signed in as {escape(check['account'])}."
        )
    else:
        error = check["error"]
        out.print(
            f"{action} [bold]{escape(name)}[/bold], but it can't connect: {escape(error['message'])} ({error['code']})"
        )
        out.print(
            f"To correct it: gristmill connector change {escape(name)} --set KEY=VALUE --secret KEY=@FILE",
            soft_wrap=True,
        )
    return check


def parse_settings(entries: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parse `KEY=VALUE` entries. A value can be JSON; the values of a list setting are collected, also from `KEY=A,B`."""
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    values: dict[str, Any] = {}
    for entry in entries:
        key, text = _split_pair(entry, "--set")
        field = properties.get(key, {})
        kind = field.get("type")
        try:
            value: Any = text if kind == "string" else json.loads(text)
        except ValueError:
            value = text
        is_optional_text = any(option.get("type") == "string" for option in field.get("anyOf", ()))
        if is_optional_text and not isinstance(value, str | None):
            value = text  # a branch can be named 2024
        if kind == "array" and not isinstance(value, list):
            # A comma separates values: no name of a repository, project, group or space has one. "2024.10" is a name, no number.
            joined = value if isinstance(value, str) else text
            values.setdefault(key, []).extend(part.strip() for part in joined.split(",") if part.strip())
        else:
            values[key] = value
    return values


def parse_credentials(entries: Sequence[str]) -> dict[str, Any]:
    """Parse credentials: `KEY=@FILE` reads a file, `KEY=-` prompts; `KEY=VALUE` stays in the shell's history."""
    values: dict[str, Any] = {}
    for entry in entries:
        key, value = _split_pair(entry, "--secret")
        if value == "-":
            value = getpass.getpass(f"{key}: ")
        elif value.startswith("@"):
            try:
                value = Path(value[1:]).expanduser().read_text(encoding="utf-8-sig").strip()
            except OSError as error:
                raise Refused(
                    f"{value[1:]} can't be read: {error.strerror}", code="no_secret_file"
                ) from error
            except UnicodeDecodeError as error:
                raise Refused(
                    f"{value[1:]} is not a text in UTF-8. Pass the file that contains only the secret.",
                    code="no_secret_file",
                ) from error
        values[key] = int(value) if key == "installationId" and value.isdecimal() else value
    return values


def _split_pair(entry: str, option: str) -> tuple[str, str]:
    key, separator, value = entry.partition("=")
    if not separator or not key:
        raise Refused(f"{option} must have the form KEY=VALUE.", code="bad_option")
    return key, value


async def list_kinds(session: ClientSession, kind: str | None) -> list[dict[str, Any]]:
    """The types of connectors, or the one of this name."""
    kinds = (await session.call("GET", "/connector-kinds"))["items"]
    matching = [entry for entry in kinds if kind in (None, entry["type"])]
    if not matching:
        names = ", ".join(entry["type"] for entry in kinds)
        raise Refused(f"There is no type {kind!r}. Choose one of {names}.", code="unknown_connector_type")
    return matching


def kind_table(kinds: Sequence[Mapping[str, Any]], *, with_settings: bool) -> Table:
    """A table of types, or of the settings and secrets of one."""
    if not with_settings:
        table = new_table("type", "tool")
        for kind in kinds:
            table.add_row(kind["type"], Text(kind["title"]))
        return table
    table = new_table("option", "means")
    for option, schema in (("--set", kinds[0]["config"]), ("--secret", kinds[0]["credentials"])):
        for key, field in schema.get("properties", {}).items():
            required = " (required)" if key in schema.get("required", []) else ""
            table.add_row(f"{option} {key}{required}", Text(field.get("description", "")))
    return table


async def list_connectors(session: ClientSession) -> list[dict[str, Any]]:
    """All connectors."""
    return [connector async for connector in session.client.pages("/connectors")]


def connector_table(connectors: Sequence[Mapping[str, Any]]) -> Table | Text:
    """A table of connectors and their last runs."""
    if not connectors:
        return Text("No connectors yet. Try: gristmill connector add --help")
    table = new_table("connector", "type", "bases", "schedule", "last sync", "status", right=("bases",))
    for connector in connectors:
        status = connector["lastSyncStatus"] or "never run"
        table.add_row(
            Text(connector["name"]),
            connector["type"],
            str(len(connector["knowledgeBaseIds"])),
            connector["schedule"] if connector["enabled"] else "paused",
            connector["lastSyncAt"] or "",
            f"{status} until {connector['rateLimitedUntil']}" if connector["rateLimitedUntil"] else status,
        )
    return table


async def show(session: ClientSession, out: Console, name: str) -> None:
    """Print a connector and its last runs, as the API returns them."""
    connector = await connector_by_name(session, name)
    runs = await session.call("GET", f"/connectors/{connector['id']}/runs", params={"limit": 5})
    out.print_json(json.dumps({**connector, "runs": runs["items"]}, ensure_ascii=False))


async def connector_by_name(session: ClientSession, name: str) -> dict[str, Any]:
    """The connector of this name."""
    page = await session.call("GET", "/connectors", params={"name": name})
    if not page["items"]:
        raise Refused(
            f"There is no connector named {name!r}. `gristmill connector list` lists them.",
            code="connector_not_found",
        )
    return page["items"][0]


async def begin_sign_in(session: ClientSession, out: Console, name: str) -> dict[str, Any]:
    """Print the address at which a person signs in at the tool."""
    connector = await connector_by_name(session, name)
    sign_in = await session.call("POST", f"/connectors/{connector['id']}/sign-in")
    out.print(f"The tool has to know this redirect address: {escape(sign_in['redirectUri'])}", soft_wrap=True)
    out.print(f"Open within ten minutes: {escape(sign_in['url'])}", soft_wrap=True)
    return sign_in


async def pause_or_resume(session: ClientSession, out: Console, name: str, action: str) -> dict[str, Any]:
    """Pause or resume."""
    connector = await connector_by_name(session, name)
    updated = await session.call("POST", f"/connectors/{connector['id']}/{action}")
    out.print(f"[bold]{escape(name)}[/bold] is {'paused' if action == 'pause' else 'resumed'}.")
    return updated


async def set_up_push(session: ClientSession, out: Console, name: str, action: str) -> dict[str, Any]:
    """Show where a connector's tool reports changes; create its secret (`new`), or accept no reports (`off`)."""
    connector = await connector_by_name(session, name)
    path = f"/connectors/{connector['id']}/push"
    if action == "off":
        await session.call("DELETE", f"{path}/secret")
        out.print(f"[bold]{escape(name)}[/bold] accepts no pushes.")
        return await session.call("GET", path)
    push = (
        await session.call("POST", f"{path}/secret") if action == "new" else await session.call("GET", path)
    )
    out.print(f"Address: {escape(push['url'])}", soft_wrap=True)
    if action == "new":
        out.print(f"Secret:  {escape(push['secret'])}", soft_wrap=True)
        out.print(f"Both:    {escape(push['urlWithSecret'])}", soft_wrap=True)
        out.print(
            "Enter them in the tool: the secret is shown only once. Tools that don't sign get the last address."
        )
    elif push["enabled"]:
        out.print(f"Last push: {push['lastPushAt'] or 'none yet'}")
    else:
        out.print("No secret yet. Create one with --new-secret.")
    return push


async def delete(session: ClientSession, out: Console, name: str, on_delete: str) -> dict[str, Any]:
    """Delete a connector."""
    connector = await connector_by_name(session, name)
    await session.call("DELETE", f"/connectors/{connector['id']}", params={"onDelete": on_delete})
    consequence = "its documents were kept" if on_delete == "detach" else "its documents are being removed"
    out.print(f"Deleted [bold]{escape(name)}[/bold]; {consequence}.")
    return {"id": connector["id"], "name": name, "onDelete": on_delete}


async def sync(
    session: ClientSession, out: Console, name: str, *, wait: bool, options: dict[str, bool]
) -> dict[str, Any]:
    """Run a connector; returns the queued run, or with `wait` the finished one."""
    connector = await connector_by_name(session, name)
    queued = await session.call("POST", f"/connectors/{connector['id']}/sync", json=options)
    if not wait:
        out.print(f"Queued a sync of [bold]{escape(name)}[/bold].")
        if not session.is_remote:
            out.print("No server is running. Start `gristmill serve` to run it, or sync with --wait.")
        return queued
    run = await _wait_for_run(session, out, name, queued["runId"])
    if run["plan"] is not None:
        plan = run["plan"]
        failed = f" {plan['errors']} failed." if plan["errors"] else ""
        out.print(f"Would add {plan['add']}, change {plan['change']}, prune {plan['prune']}.{failed}")
    else:
        out.print(
            f"{run['status']}: {run['documentsProcessed']} read, {run['documentsIngested']} new or changed, "
            f"{run['documentsPruned']} pruned, {run['itemErrors']} failed."
        )
    if run["error"] is not None:
        out.print(f"[red]{escape(run['error']['message'])}[/red] ({run['error']['code']})")
    await _print_warnings(session, out, run["id"])
    return run


async def _print_warnings(session: ClientSession, out: Console, run_id: str) -> None:
    """Print what a run could not see or store, and why: the first lines of its log that say so."""
    lines = await session.call("GET", f"/connector-runs/{run_id}/logs", params={"limit": 500})
    warnings = [line["message"] for line in lines["items"] if line["level"] == "warning"]
    for message in warnings[:_MAX_WARNINGS]:
        out.print(f"[yellow]{escape(message)}[/yellow]", soft_wrap=True)
    if len(warnings) > _MAX_WARNINGS:
        out.print(f"… and {len(warnings) - _MAX_WARNINGS} more in its log, in the web UI under Connectors.")


async def _wait_for_run(session: ClientSession, out: Console, name: str, run_id: str) -> dict[str, Any]:
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
            await clock.pause(POLL_INTERVAL)
