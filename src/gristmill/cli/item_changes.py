"""`gristmill item rename, move, tag, edit`: change items, through the API."""

import sys
from typing import Annotated

import typer
from rich.markup import escape

from gristmill.cli.common import AsJson, DataDir, run_with_client
from gristmill.cli.completion import complete_base_names
from gristmill.cli.item_commands import ItemId, ItemIds, item_cli
from gristmill.cli.output import console, plural, print_json
from gristmill.errors import Invalid

_EXAMPLE_ID = "01a1de95-5507-701c-8741-d8b6405b3611"


@item_cli.command("rename", examples=[f'gristmill item rename {_EXAMPLE_ID} "Refund policy"'])
def rename_item(
    item_id: ItemId,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="Its new title.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Give an item another title. Searches find it by the new one a moment later."""
    from gristmill.cli import items

    item = run_with_client(
        lambda session: session.client.change_item(items.parse_id(item_id), title=title), data_dir
    )
    print_json(item, as_json)
    console(as_json).print(f"It is “{escape(item['title'])}” now.")


@item_cli.command(
    "edit",
    examples=[
        f'gristmill item edit {_EXAMPLE_ID} --text "Refunds take a week."',
    ],
)
def edit_note(
    item_id: ItemId,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEXT", help="The new text; read from standard input by default."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Replace the text of a note. The old text answers until the new one is indexed."""
    from gristmill.cli import items

    content = sys.stdin.read() if text is None else text
    item = run_with_client(
        lambda session: session.client.change_item(items.parse_id(item_id), content=content), data_dir
    )
    print_json(item, as_json)
    console(as_json).print(f"“{escape(item['title'])}” is being indexed.")


@item_cli.command(
    "move",
    examples=[
        f"gristmill item move {_EXAMPLE_ID} --to archive",
        f"gristmill item move {_EXAMPLE_ID} --folder 01a1de95-5f01-7e8e-a2dd-f5b8f9a0f7aa",
    ],
)
def move_items(
    item_id: ItemIds,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="NAME", help="Base to move to.", autocompletion=complete_base_names),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option(
            "--folder", metavar="ITEM_ID", help="Folder to move into; the top of the base by default."
        ),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Move items with everything below them into a folder, to the top of their base, or to another base."""
    from gristmill.cli import items

    result = run_with_client(lambda session: items.move(session, item_id, to, folder), data_dir)
    print_json(result, as_json)
    moved = plural(sum(len(answer["rootIds"]) for answer in result), "item")
    done = "is being moved" if moved.startswith("1 ") else "are being moved"
    console(as_json).print(
        f"{moved} {done}." if any(answer["jobId"] for answer in result) else f"Moved {moved}."
    )


@item_cli.command("tag", examples=[f"gristmill item tag {_EXAMPLE_ID} --add draft --remove old"])
def tag_items(
    item_id: ItemIds,
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="TAG", help="Tag to add; repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="TAG", help="Tag to remove; repeatable.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Add tags to items, or remove them. Searches can filter by `tags`."""
    from gristmill.cli import items

    if not add and not remove:
        raise Invalid("Pass --add or --remove with a tag.", code="bad_option")
    result = run_with_client(lambda session: items.tag(session, item_id, add or [], remove or []), data_dir)
    print_json(result, as_json)
    console(as_json).print(f"Changed {plural(len(result['itemIds']), 'item')}.")
