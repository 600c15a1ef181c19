"""The work of `gristmill connector change` and `gristmill connector check`, through the API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape

from gristmill.cli.add import base_id_by_name
from gristmill.cli.client_session import ClientSession, Refused
from gristmill.cli.connector_admin import (
    config_schema,
    connector_by_name,
    list_kinds,
    parse_settings,
    report_check,
)
from gristmill.cli.principals import resolve_entries


@dataclass(frozen=True)
class ConnectorOptions:
    """What the command line asks for; None, or nothing, stays as it is."""

    name: str | None
    settings: Sequence[str]
    credentials: Mapping[str, Any]
    schedule: str | None
    acl_schedule: str | None
    acl: Sequence[str] | None  # principals, instead of the tool's permissions
    tool_permissions: bool
    bases: Sequence[str] | None  # names of all bases that it syncs into from now on
    on_detach: Literal["purge", "detach"] | None  # what happens to its documents in the others


async def change(
    session: ClientSession, out: Console, name: str, options: ConnectorOptions
) -> dict[str, Any]:
    """Change a connector; it is checked with the tool if its settings or credentials change."""
    if options.acl and options.tool_permissions:
        raise Refused("Pass either --acl or --tool-permissions.", code="bad_option")
    connector = await connector_by_name(session, name)
    body: dict[str, Any] = {
        "name": options.name,
        "schedule": options.schedule,
        "aclSchedule": options.acl_schedule,
        "credentials": options.credentials or None,
        "config": await _merge_config(session, connector, options.settings) if options.settings else None,
        "acl": await resolve_entries(session, options.acl) if options.acl else None,
    }
    body = {field: value for field, value in body.items() if value is not None}
    if options.tool_permissions:
        body["acl"] = None
    if options.bases is not None:
        body |= await _choose_bases(session, connector, options)
    if not body:
        raise Refused(
            "Nothing to change. `gristmill connector change --help` lists what can be.",
            code="nothing_to_change",
        )
    changed = await session.call("PATCH", f"/connectors/{connector['id']}", json=body)
    check = None
    if "config" in body or "credentials" in body:
        check = await report_check(session, out, changed, "Changed")
    else:
        out.print(f"Changed [bold]{escape(changed['name'])}[/bold].")
    if "acl" in body:
        out.print(f"Its documents are for {escape(await _readers(session, changed))}.", soft_wrap=True)
    if set(connector["knowledgeBaseIds"]) - set(changed["knowledgeBaseIds"]):
        fate = "stay" if body["onDetach"] == "detach" else "are being deleted"
        out.print(f"Its documents in the bases that were left out {fate}.")
    return {**changed, "check": check}


async def check(session: ClientSession, out: Console, name: str) -> dict[str, Any]:
    """Ask the tool whether it accepts the stored credentials, and whether all that is configured is there."""
    connector = await connector_by_name(session, name)
    result = await session.call("POST", f"/connectors/{connector['id']}/check")
    if result["ok"]:
        out.print(f"[bold]{escape(name)}[/bold] is signed in as {escape(result['account'])}.")
    else:
        error = result["error"]
        out.print(
            f"[bold]{escape(name)}[/bold] can't connect: {escape(error['message'])} ({error['code']})",
            soft_wrap=True,
        )
    return result


async def _readers(session: ClientSession, connector: Mapping[str, Any]) -> str:
    """Who can see the documents of a connector."""
    if connector["acl"] is not None:
        return ", ".join(connector["acl"])
    (kind,) = await list_kinds(session, connector["type"])
    if kind.get("hasPermissions", True):
        return "those whom the tool lets see them"
    return "everyone: the tool has no permissions that could be followed"


async def _merge_config(
    session: ClientSession, connector: Mapping[str, Any], settings: Sequence[str]
) -> dict[str, Any]:
    changed = parse_settings(settings, await config_schema(session, connector["type"]))
    return {key: value for key, value in {**connector["config"], **changed}.items() if value is not None}


async def _choose_bases(
    session: ClientSession, connector: Mapping[str, Any], options: ConnectorOptions
) -> dict[str, Any]:
    """The bases to sync into. What happens to the documents in a base that is left out must be said: it can't be undone."""
    wanted = [
        await base_id_by_name(session, base, create=False) for base in dict.fromkeys(options.bases or ())
    ]
    left_out = [base for base in connector["knowledgeBaseIds"] if base not in wanted]
    if left_out and options.on_detach is None:
        names = [(await session.call("GET", f"/knowledge-bases/{base}"))["name"] for base in left_out]
        raise Refused(
            f"{connector['name']} would no longer sync into {', '.join(names)}. Pass --purge to delete its documents there, or "
            "--detach to keep them.",
            code="bad_option",
        )
    # A base that someone else adds at this moment keeps its documents, unless the caller said otherwise.
    return {"knowledgeBaseIds": wanted, "onDetach": options.on_detach or "detach"}
