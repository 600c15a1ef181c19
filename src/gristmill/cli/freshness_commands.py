"""`gristmill base refresh`, `base exclusions` and `item refresh`: when sources are checked, and what is left out of them."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill.cli.common import (
    AsJson,
    BaseName,
    Cron,
    DataDir,
    Every,
    Watch,
    refresh_rule,
    run_with_client,
)
from gristmill.cli.item_changes import item_cli
from gristmill.cli.item_commands import ItemId
from gristmill.cli.output import console, new_table, plural, print_json
from gristmill.cli.question_commands import base_cli
from gristmill.errors import Invalid


def _rule_text(rule: dict[str, Any] | None) -> str:
    if rule is None:
        return "on request only"
    return f"at {rule['cron']} (UTC)" if rule.get("cron") else f"every {rule['every']}"


@base_cli.command(
    "refresh",
    examples=["gristmill base refresh handbook --every 1d", "gristmill base refresh handbook --every never"],
)
def refresh_base(
    name: BaseName, every: Every = None, cron: Cron = None, as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Set when folders, files on the disk, pages and sitemaps of a base are checked for changes."""
    from gristmill.cli.add import base_id_by_name

    rule = refresh_rule(every, cron)

    async def run(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        body = {"refresh": None if rule == {"every": "never"} else rule}
        return await session.call("PATCH", f"/knowledge-bases/{base_id}", json=body)

    base = run_with_client(run, data_dir)
    print_json(base, as_json)
    console(as_json).print(
        f"Sources of [bold]{escape(name)}[/bold] are checked {_rule_text(base['refresh'])}."
    )


@base_cli.command(
    "exclusions",
    examples=[
        "gristmill base exclusions handbook",
        "gristmill base exclusions handbook --take-back 01a1de95-5507-701c-8741-d8b6405b3611",
    ],
)
def show_exclusions(
    name: BaseName,
    take_back: Annotated[
        str | None, typer.Option(metavar="ID", help="Remove this exclusion: the source is found again.")
    ] = None,
    take_back_all: Annotated[bool, typer.Option("--take-back-all", help="Remove all of them.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List what was deleted from folders, sitemaps and connectors, and is left out of them since; or take it back."""
    from gristmill.cli.add import base_id_by_name
    from gristmill.cli.items import parse_id

    chosen = None if take_back is None else parse_id(take_back)

    async def run(session: Any) -> dict[str, Any]:
        path = f"/knowledge-bases/{await base_id_by_name(session, name, create=False)}/exclusions"
        if chosen is not None:
            return await session.call("DELETE", f"{path}/{chosen}")
        if take_back_all:
            return await session.call("DELETE", path)
        page = await session.call("GET", path, params={"limit": 500})
        exclusions = list(page["items"])
        while page["nextCursor"] is not None:
            page = await session.call("GET", path, params={"limit": 500, "cursor": page["nextCursor"]})
            exclusions += page["items"]
        return {"items": exclusions}

    result = run_with_client(run, data_dir)
    print_json(result, as_json)
    messages = console(as_json)
    if "removed" in result:
        messages.print(
            f"{plural(result['removed'], 'exclusion')} removed. The next check finds the sources again."
        )
        return
    table = new_table("id", "type", "source", "deleted")
    for entry in result["items"]:
        table.add_row(entry["id"], entry["type"], escape(entry["source"]), entry["createdAt"][:16])
    messages.print(table if result["items"] else "Nothing was deleted from containers of this base.")


@item_cli.command(
    "refresh",
    examples=[
        "gristmill item refresh 01a1de95-5507-701c-8741-d8b6405b3611",
        "gristmill item refresh 01a1de95-5507-701c-8741-d8b6405b3611 --every 1h",
        "gristmill item refresh 01a1de95-5507-701c-8741-d8b6405b3611 --no-watch",
    ],
)
def refresh_item(
    item_id: ItemId,
    every: Every = None,
    cron: Cron = None,
    inherit: Annotated[
        bool, typer.Option("--inherit", help="Use the rule of its container or base.")
    ] = False,
    watch: Watch = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Check the source of an item now; or set when it is checked, and whether a folder is watched."""
    from gristmill.cli.items import parse_id

    changes: dict[str, Any] = {} if watch is None else {"watch": watch}
    if every is not None or cron is not None or inherit:
        if inherit and (every is not None or cron is not None):
            raise Invalid("Pass either --inherit or a time.", code="bad_option")
        changes["refresh"] = None if inherit else refresh_rule(every, cron)
    path = f"/knowledge-items/{parse_id(item_id)}"

    async def run(session: Any) -> dict[str, Any]:
        if changes:
            return await session.call("PATCH", path, json=changes)
        await session.call("POST", f"{path}/refresh")
        return await session.call("GET", path)

    item = run_with_client(run, data_dir)
    print_json(item, as_json)
    title = f"[bold]{escape(item['title'])}[/bold]"
    freshness: dict[str, Any] = item["freshness"] or {}
    watch_state: dict[str, Any] = freshness.get("watch") or {}
    summary = f"{title} is checked {_rule_text(item['refresh'])}" + (
        f"; watch: {watch_state['state']}." if watch_state else "."
    )
    console(as_json).print(summary if changes else f"Checking {title}.")
