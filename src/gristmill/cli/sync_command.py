"""The options of `gristmill sync`. `connector_admin` does the work; it is imported late to keep `--help` fast."""

from typing import Annotated

import typer

from gristmill.cli.common import AsJson, DataDir, run_with_client
from gristmill.cli.output import console, print_json


def sync(
    connector: Annotated[str, typer.Argument(help="Name of the connector.")],
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until everything is searchable; exit with 1 if the run failed."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Read everything again, not only changes.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what a run would do.")] = False,
    allow_deletions: Annotated[
        bool,
        typer.Option(
            "--allow-deletions",
            help="Allow the run to delete many documents that no longer exist in the source.",
        ),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run a connector now."""
    from gristmill.cli import connector_admin as connectors

    options = {"force": force, "dryRun": dry_run, "allowDeletions": allow_deletions}
    run = run_with_client(
        lambda session: connectors.sync(session, console(as_json), connector, wait=wait, options=options),
        data_dir,
        work=wait,
    )
    print_json(run, as_json)
    if wait and run["status"] not in ("success", "completed_with_errors"):
        raise typer.Exit(1)
