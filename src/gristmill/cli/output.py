"""What commands print: for people, or with `--json` one JSON document and nothing else."""

import json
import sys
from collections.abc import Mapping
from typing import Any, cast

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gristmill.errors import GristmillError, Invalid, SetupError

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


def details(fields: Mapping[str, Any]) -> Table:
    """A table of one thing: a row per field, without the empty ones. Fields have the names of the API."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        if text := plain_value(value):
            table.add_row(name, Text(text))
    return table


def plain_value(value: Any) -> str:
    """A value as one would write it, without what is empty: `completed: 3, failed: 1`."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case dict():
            parts = [(name, plain_value(part)) for name, part in cast(dict[str, Any], value).items()]
            return ", ".join(f"{name}: {text}" for name, text in parts if text)
        case list():
            return ", ".join(plain_value(part) for part in cast(list[Any], value))
        case _:
            return str(value)


def print_text(text: str) -> None:
    """Print text of documents as it is, with its tabs and long lines."""
    out.file.write(f"{text}\n")


def plural(count: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def confirm(question: str, action: str) -> bool:
    """Ask in the terminal whether to do it. No event loop may run meanwhile: it would keep Ctrl-C from ending the prompt."""
    if not sys.stdin.isatty():
        raise Invalid(
            f"{action} can't be undone, and there is no terminal to confirm it in. Pass --yes.",
            code="confirmation_required",
        )
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_json(value: object, as_json: bool) -> None:
    """Print the result as JSON, if asked for."""
    if as_json:
        out.print_json(json.dumps(value, ensure_ascii=False, default=str))


def file_error(error: OSError) -> Invalid:
    """The error for the user where a file or folder that a command needs can't be used."""
    place = error.filename if isinstance(error.filename, str) else "A file"
    return Invalid(
        f"{place} can't be used: {error.strerror or error}. Check the path, its permissions and the free space.",
        code="file_unusable",
    )


def print_error(error: GristmillError) -> int:
    """Print the error in one line; returns the exit code for it."""
    if isinstance(error, SetupError):
        err.print(f"[red]gristmill can't start:[/red] {escape(error.message)} ({error.code})")
        return 2
    err.print(f"[red]gristmill:[/red] {escape(error.message)} ({error.code})")
    return 1
