"""`gristmill index …`: move bases between the embedded index and a search engine, through the API."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill.cli.base_commands import BaseName
from gristmill.cli.common import AsJson, DataDir, run_with_client
from gristmill.cli.help import CommandLine
from gristmill.cli.output import console, print_json
from gristmill.errors import Invalid

index_cli = CommandLine(name="index", help="Move bases between the embedded index and a search engine.")


@index_cli.callback()
def _index() -> None:
    """A group, though it has one command so far."""


@index_cli.command("move")
def move(
    name: BaseName,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="INDEX", help="opensearch: the search engine of `index_url`; or embedded."
        ),
    ],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Move a base to the search engine of the settings, or back. Searches go on, and nothing is embedded again."""
    from gristmill.cli.add import base_id_by_name

    if to not in ("embedded", "opensearch"):
        raise Invalid("Move a base to `opensearch` or to `embedded`.", code="invalid_request")
    messages = console(as_json)

    async def run(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        job = await session.call("POST", f"/knowledge-bases/{base_id}/index/move", json={"to": to})
        messages.print(f"Moving [bold]{escape(name)}[/bold] to {to}. `gristmill status` shows the queue.")
        if not session.is_remote:
            messages.print("No server is running. It is moved when `gristmill serve` runs.")
        return job

    print_json(run_with_client(run, data_dir), as_json)
