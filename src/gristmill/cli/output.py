"""What commands print: for people, or with `--json` one JSON document and nothing else."""

import json
import sys

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gristmill.errors import GristmillError, SetupError

# A file or a pipe has no width: nothing is cut or wrapped there.
_UNLIMITED_WIDTH = 100_000
out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else _UNLIMITED_WIDTH)
err = Console(stderr=True, soft_wrap=True, width=None if sys.stderr.isatty() else _UNLIMITED_WIDTH)


def console(as_json: bool) -> Console:
    """The console for messages to people; it is silent with `--json`."""
    return Console(quiet=True) if as_json else out


def new_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table in the style of all commands; the columns named in `right` are numbers."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def print_json(value: object, as_json: bool) -> None:
    """Print the result as JSON, if asked for."""
    if as_json:
        out.print_json(json.dumps(value, ensure_ascii=False, default=str))


def print_error(error: GristmillError) -> int:
    """Print the error in one line; returns the exit code for it."""
    if isinstance(error, SetupError):
        err.print(f"[red]gristmill can't start:[/red] {escape(error.message)} ({error.code})")
        return 2
    err.print(f"[red]gristmill:[/red] {escape(error.message)} ({error.code})")
    return 1
