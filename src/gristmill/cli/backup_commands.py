"""The options of `gristmill backup` and `gristmill restore`. `backup_admin` does the work; it is imported late to keep
`--help` fast."""

from typing import Annotated

import typer

from gristmill.cli.common import AsJson, DataDir, load_settings, run_async
from gristmill.cli.output import print_json
from gristmill.errors import Invalid

Destination = Annotated[
    str,
    typer.Argument(metavar="FOLDER_OR_URL", help="Folder or bucket (s3://, gs://, az://) of the back-ups."),
]


def backup(
    destination: Destination,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            metavar="NUMBER",
            help="Keep only the newest so many back-ups; all by default.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the newest back-up again and compare every byte.")
    ] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the back-ups.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Back up the database, uploaded files and the sealing key, while Gristmill runs. Later ones add only what changed."""
    from gristmill.cli import backup_admin

    if show_list and (verify or keep is not None):
        raise Invalid("Pass --list alone.", code="bad_option")
    current = load_settings(quiet=True, data_dir=data_dir)
    if show_list:
        work = backup_admin.list_backups(destination, as_json)
    elif verify:
        work = backup_admin.verify_newest(destination, as_json)
    else:
        work = backup_admin.make_backup(current, destination, keep, as_json)
    print_json(run_async(work), as_json)


def restore(
    source: Destination,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="ID", help="Which back-up, as --list shows it; the newest by default."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Restore a back-up into a data dir that has no data yet. Start `gristmill serve` on it afterwards."""
    from gristmill.cli import backup_admin

    current = load_settings(quiet=True, data_dir=data_dir)
    print_json(run_async(backup_admin.restore(current, source, at, as_json)), as_json)
