"""`gristmill index …`: where bases are indexed, through the API."""

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from gristmill.cli.common import AsJson, BaseName, DataDir, OptionalBase, run_with_client
from gristmill.cli.help import CommandLine
from gristmill.cli.output import console, new_table, print_json

_STATUS_FIELDS = ("id", "name", "index", "movingTo")

index_cli = CommandLine(
    name="index",
    help="Show where bases are indexed, move one to a search engine and back, or build its index again.",
    examples=["gristmill index status", "gristmill index move handbook --to opensearch"],
)


@index_cli.command("status", examples=["gristmill index status", "gristmill index status handbook --json"])
def show_status(name: OptionalBase = None, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show where bases are indexed, and where they are being moved to."""
    from gristmill.cli import status

    bases = run_with_client(lambda session: status.find_bases(session, name), data_dir)
    print_json([{field: base[field] for field in _STATUS_FIELDS} for base in bases], as_json)
    table = new_table("base", "index", "moving to")
    for base in bases:
        table.add_row(Text(base["name"]), base["index"], base["movingTo"] or "")
    console(as_json).print(table if bases else "No knowledge bases yet.")


@index_cli.command(
    "move",
    examples=["gristmill index move handbook --to opensearch", "gristmill index move handbook --to embedded"],
)
def move(
    name: BaseName,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="URL|embedded", help="An address of `index_url`, or `opensearch`; or `embedded`."
        ),
    ],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Move a base to the search engine of the settings, or back. Searches go on, and nothing is embedded again."""
    place = "the embedded index" if to == "embedded" else "the search engine"
    _queue(name, "move", {"to": to}, f"Moving [bold]{escape(name)}[/bold] to {place}.", as_json, data_dir)


@index_cli.command("rebuild", examples=["gristmill index rebuild handbook"])
def rebuild(name: BaseName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Build the index of a base again, where it is. Searches go on, and nothing is embedded again."""
    _queue(name, "rebuild", None, f"Rebuilding the index of [bold]{escape(name)}[/bold].", as_json, data_dir)


def _queue(
    name: str, action: str, body: dict[str, str] | None, message: str, as_json: bool, data_dir: Any
) -> None:
    """Queue the job, and say who does it."""
    from gristmill.cli.add import base_id_by_name

    messages = console(as_json)

    async def run(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        job = await session.call("POST", f"/knowledge-bases/{base_id}/index/{action}", json=body)
        messages.print(f"{message} `gristmill status` shows the queue.")
        if not session.is_remote:
            messages.print("No server is running. It is done when `gristmill serve` runs.")
        return job

    print_json(run_with_client(run, data_dir), as_json)
