"""What commands share: where they print, which settings hold, how they run.

What is asked for as JSON is printed to standard output, alone and whole; what people are told beside it is left out.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop
from rich.console import Console

from gristmill import settings
from gristmill.settings import Settings
from gristmill.telemetry import logs

out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

Result = TypeVar("Result")
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where everything is kept; the user's data folder by default."),
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


def console(as_json: bool) -> Console:
    """Where people are told what happens; nowhere, when a program reads."""
    return Console(quiet=True) if as_json else out


def print_json(value: object, as_json: bool) -> None:
    """Print what a program asked for."""
    if as_json:
        out.print_json(json.dumps(value, ensure_ascii=False, default=str))


def run_with_client(
    run: Callable[[Any], Coroutine[Any, Any, Result]], data_dir: Path | None, *, work: bool = False
) -> Result:
    """Run with a way to the server, or with one opened here."""
    from gristmill.cli.client_session import connect

    async def run_connected() -> Result:
        async with connect(current, work=work) as session:
            return await run(session)

    current = load_settings(quiet=True, data_dir=data_dir)
    return run_async(run_connected())


def load_settings(*, quiet: bool, **overrides: Any) -> Settings:
    """The settings in force; a `quiet` command logs only what is wrong, unless told otherwise."""
    current = settings.load(**overrides)
    level = "warning" if quiet and "log_level" not in current.model_fields_set else current.log_level
    logs.configure(level, current.log_format)
    return current


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run it on a loop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
