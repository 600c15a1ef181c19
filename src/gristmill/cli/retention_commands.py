"""`gristmill base retention`, `base hold`, `base lift` and `gristmill deletions`: what is kept, what must not be deleted, what was."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill.cli.common import AsJson, BaseName, DataDir, run_with_client
from gristmill.cli.output import console, new_table, print_json
from gristmill.cli.question_commands import base_cli
from gristmill.errors import Invalid

_FIELDS = {
    "documents": "documentDays",
    "versions": "versionDays",
    "events": "eventDays",
    "audit": "auditDays",
}
_DEFAULTS = {
    "documents": "without limit",
    "versions": "none",
    "events": "as event_retention says",
    "audit": "as audit_retention says",
}


def _days_option(what: str) -> Any:
    return typer.Option(metavar="DAYS", help=f"Keep {what} this many days; 0 for no rule.", min=0, max=36_500)


@base_cli.command(
    "retention",
    examples=[
        "gristmill base retention handbook",
        "gristmill base retention handbook --documents 3650 --versions 90",
        "gristmill base retention handbook --documents 0",
    ],
)
def set_retention(
    name: BaseName,
    documents: Annotated[int | None, _days_option("documents, from their last change on,")] = None,
    versions: Annotated[int | None, _days_option("versions that newer ones replaced")] = None,
    events: Annotated[int | None, _days_option("events")] = None,
    audit: Annotated[int | None, _days_option("the audit log of the base")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show how long a base keeps documents, earlier versions, events and its audit log; or change it."""
    from gristmill.cli.add import base_id_by_name

    options = {"documents": documents, "versions": versions, "events": events, "audit": audit}
    changes = {_FIELDS[what]: days or None for what, days in options.items() if days is not None}

    async def run(session: Any) -> dict[str, Any]:
        path = f"/knowledge-bases/{await base_id_by_name(session, name, create=False)}/retention"
        rule = await session.call("GET", path)
        if not changes:
            return rule
        rule.pop("hasLegalHold")
        return await session.call("PUT", path, json={**rule, **changes})

    rule = run_with_client(run, data_dir)
    print_json(rule, as_json)
    table = new_table("what", "kept")
    for what, field in _FIELDS.items():
        days = rule[field]
        table.add_row(what, _DEFAULTS[what] if days is None else f"{days:,} days")
    messages = console(as_json)
    messages.print(table)
    if rule["hasLegalHold"]:
        messages.print("A legal hold covers something in this base: that is not deleted.")


@base_cli.command(
    "hold",
    examples=[
        "gristmill base hold handbook --reason 'Case 2026-114'",
        "gristmill base hold handbook --item 01a1de95-5507-701c-8741-d8b6405b3611 --reason 'Case 2026-114'",
        "gristmill base hold handbook",
    ],
)
def place_hold(
    name: BaseName,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Place a hold, for this reason.")] = None,
    item: Annotated[
        str | None, typer.Option(metavar="ID", help="On this item, with everything below it.")
    ] = None,
    lifted: Annotated[bool, typer.Option("--lifted", help="List lifted holds too.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Place a legal hold on a base or an item, so that nothing of it is deleted; or list the holds."""
    from gristmill.cli.add import base_id_by_name
    from gristmill.cli.items import parse_id

    if item is not None and reason is None:
        raise Invalid("Pass --reason: a hold says why it was placed.", code="bad_option")
    body = {"reason": reason, **({} if item is None else {"itemId": str(parse_id(item))})}

    async def run(session: Any) -> dict[str, Any]:
        path = f"/knowledge-bases/{await base_id_by_name(session, name, create=False)}/legal-holds"
        if reason is not None:
            return {"items": [await session.call("POST", path, json=body)]}
        params = {"limit": 500, "lifted": lifted}
        return await session.call("GET", path, params=params)

    result = run_with_client(run, data_dir)
    print_json(result, as_json)
    table = new_table("id", "on", "reason", "placed", "by", "lifted")
    for entry in result["items"]:
        subject = "the base" if entry["itemId"] is None else entry["title"]
        table.add_row(
            entry["id"],
            escape(subject),
            escape(entry["reason"]),
            entry["placedAt"][:16],
            escape(entry["placedBy"]),
            (entry["liftedAt"] or "")[:16],
        )
    console(as_json).print(table if result["items"] else "No legal hold covers anything in this base.")


@base_cli.command(
    "lift",
    examples=["gristmill base lift handbook 01a1de95-5507-701c-8741-d8b6405b3611"],
)
def lift(
    name: BaseName,
    hold: Annotated[str, typer.Argument(metavar="HOLD", help="Id of the hold.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Lift a legal hold of a base."""
    from gristmill.cli.add import base_id_by_name
    from gristmill.cli.items import parse_id

    chosen = parse_id(hold)

    async def run(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        return await session.call("DELETE", f"/knowledge-bases/{base_id}/legal-holds/{chosen}")

    lifted_hold = run_with_client(run, data_dir)
    print_json(lifted_hold, as_json)
    console(as_json).print("The hold is lifted. What it covered can be deleted again.")


def show_deletions(
    base: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this base.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="From this time on, ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time, ISO 8601.")] = None,
    to_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write all of it to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Report what was deleted, when, by whom and why: with hashes, without contents."""
    from gristmill.cli.add import base_id_by_name

    async def run(session: Any) -> dict[str, Any]:
        params: dict[str, Any] = (
            {} if base is None else {"baseId": await base_id_by_name(session, base, create=False)}
        )
        params |= {name: value for name, value in (("since", since), ("until", until)) if value is not None}
        if to_file is not None:
            response = await session.client.send("GET", "/deletions.csv", params=params)
            to_file.write_bytes(response.content)
            return {"file": str(to_file), "lines": max(0, response.text.count("\n") - 1)}
        return await session.call("GET", "/deletions", params={**params, "limit": 500})

    result = run_with_client(run, data_dir)
    print_json(result, as_json)
    messages = console(as_json)
    if to_file is not None:
        messages.print(f"{result['lines']:,} deletions written to {escape(str(to_file))}.")
        return
    table = new_table("removed", "base", "what", "reason", "by", "SHA-256 of the original")
    for entry in result["items"]:
        table.add_row(
            entry["removedAt"][:16],
            escape(entry["baseName"]),
            escape(entry["title"] or entry["type"]),
            entry["reason"],
            escape(entry["actor"] or ""),
            entry["originalHash"] or "",
        )
    messages.print(table if result["items"] else "Nothing was deleted.")
