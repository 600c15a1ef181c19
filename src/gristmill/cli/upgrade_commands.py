"""The options of `gristmill upgrade` and `gristmill move`. `upgrade_admin` does the work; it is imported late to keep `--help` fast."""

from typing import Annotated

import typer

from gristmill.cli.common import AsJson, DataDir, load_settings, run_async
from gristmill.cli.output import print_json


def upgrade(
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Delete the databases that earlier upgrades and moves kept.")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Bring the built-in PostgreSQL to the version of this release: copy, compare, switch. The old one is kept."""
    from gristmill.cli import upgrade_admin

    current = load_settings(quiet=True, data_dir=data_dir)
    work = upgrade_admin.drop_old(current, as_json) if drop_old else upgrade_admin.upgrade(current, as_json)
    print_json(run_async(work), as_json)


def move(
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="URL", help="An empty database, postgresql://…; or `embedded`, the built-in one."
        ),
    ],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Move all data from the built-in PostgreSQL to your own, or back. Stop `gristmill serve` and all workers first."""
    from gristmill.cli import upgrade_admin

    current = load_settings(quiet=True, data_dir=data_dir)
    print_json(run_async(upgrade_admin.move(current, to, as_json)), as_json)
