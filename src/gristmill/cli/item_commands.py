"""`gristmill item …`: list, show, delete and retry items, through the API."""

from typing import Annotated

import typer
from rich.markup import escape

from gristmill.cli.common import AsJson, BaseName, DataDir, run_with_client
from gristmill.cli.completion import complete_base_names
from gristmill.cli.help import CommandLine
from gristmill.cli.output import confirm, console, details, plural, print_json, print_text
from gristmill.errors import Invalid

item_cli = CommandLine(
    name="item",
    help="List, show, change, move, delete and retry items of bases.",
    examples=["gristmill item list handbook --status failed"],
)
ItemId = Annotated[
    str, typer.Argument(metavar="ITEM_ID", help="Id of the item, as `gristmill item list` shows it.")
]
ItemIds = Annotated[
    list[str], typer.Argument(metavar="ITEM_ID", help="Ids of items, as `gristmill item list` shows them.")
]


@item_cli.command(
    "list",
    examples=[
        "gristmill item list handbook",
        "gristmill item list handbook --all --status failed",
        "gristmill item list handbook --title refund --json",
    ],
)
def list_items(
    base: BaseName,
    everything: Annotated[bool, typer.Option("--all", help="Also what is in folders and sitemaps.")] = False,
    under: Annotated[
        str | None, typer.Option(metavar="ITEM_ID", help="Only what is below this item.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="WORD", help="Only items of this status, such as completed or failed, at any depth."
        ),
    ] = None,
    type: Annotated[  # noqa: A002
        str | None, typer.Option(metavar="WORD", help="Only items of this type, such as file or note.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only items with this in the title.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List the items of a base: those that were added, or all."""
    from gristmill.cli import items

    filters = {"status": status, "type": type, "q": title, "under": under}
    if everything or status or type or title:
        filters["parentId"] = None if under else "*"

    listed = run_with_client(lambda session: items.find_items(session, base, filters), data_dir)
    print_json(listed, as_json)
    console(as_json).print(items.item_table(listed))


@item_cli.command(
    "show",
    examples=[
        "gristmill item show 01a1de95-5507-701c-8741-d8b6405b3611",
        "gristmill item show 01a1de95-5507-701c-8741-d8b6405b3611 --content > refunds.md",
    ],
)
def show_item(
    item_id: ItemId,
    content: Annotated[bool, typer.Option("--content", help="Print its text, as markdown.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show an item: its status, why it failed or waits, its source and metadata; or its text."""
    from gristmill.cli import items

    if content:
        text = run_with_client(lambda session: session.client.content(items.parse_id(item_id)), data_dir)
        if as_json:
            print_json({"id": item_id, "content": text}, as_json)
        else:
            print_text(text)
        return
    item = run_with_client(lambda session: items.find_item(session, item_id), data_dir)
    print_json(item, as_json)
    console(as_json).print(details(item))


@item_cli.command("delete", examples=["gristmill item delete 01a1de95-5507-701c-8741-d8b6405b3611"])
def delete_items(
    item_id: ItemIds,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Delete items with everything below them. This can't be undone."""
    from gristmill.cli import items

    messages = console(as_json)
    chosen = run_with_client(lambda session: items.find_all(session, item_id), data_dir)
    names = f"“{chosen[0]['title']}”" if len(chosen) == 1 else plural(len(chosen), "item")
    question = f"Delete {names} with everything below? This can't be undone."
    if not yes and not confirm(question, "Deleting items"):
        messages.print("Nothing was deleted.")
        raise typer.Exit(1)
    print_json(run_with_client(lambda session: items.delete(session, chosen), data_dir), as_json)
    messages.print(f"Deleted {escape(names)}.")


@item_cli.command(
    "retry",
    examples=[
        "gristmill item retry 01a1de95-5507-701c-8741-d8b6405b3611",
        "gristmill item retry --base handbook",
    ],
)
def retry_items(
    item_id: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM_ID", help="Ids of failed items.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="All failed items of this base.", autocompletion=complete_base_names
        ),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Try failed items again, from their source."""
    from gristmill.cli import items

    if bool(item_id) == (base is not None):
        raise Invalid("Pass ids of items, or --base with the name of a base.", code="bad_option")

    result = run_with_client(lambda session: items.retry(session, item_id or [], base), data_dir)
    print_json(result.output, as_json)
    for entry in result.output["failed"]:
        error = entry["error"]
        out_line = f"[red]not retried[/red] {entry['itemId']}: {escape(error['message'])} ({error['code']})"
        console(as_json).print(out_line)
    console(as_json).print(f"{plural(len(result.output['rootIds']), 'item')} queued again.")
    if not result.succeeded:
        raise typer.Exit(1)
