"""What all commands share: consoles, settings, and the event loop.

With `--json`, a command prints only JSON to standard output, without messages for people.
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
    typer.Option("--data-dir", help="Folder with all data; by default in the user's data folder."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def console(as_json: bool) -> Console:
    """The console for messages to people; it is silent with `--json`."""
    return Console(quiet=True) if as_json else out


def print_json(value: object, as_json: bool) -> None:
    """Print the result as JSON, if asked for."""
    if as_json:
        out.print_json(json.dumps(value, ensure_ascii=False, default=str))


def run_with_client(
    run: Callable[[Any], Coroutine[Any, Any, Result]], data_dir: Path | None, *, work: bool = False
) -> Result:
    """Run a command with a client of the running server, or of a Gristmill in this process."""
    from gristmill.cli.client_session import connect

    async def run_connected() -> Result:
        async with connect(current, work=work) as session:
            return await run(session)

    current = load_settings(quiet=True, data_dir=data_dir)
    return run_async(run_connected())


def load_settings(*, quiet: bool, **overrides: Any) -> Settings:
    """Load the settings and configure logging; a `quiet` command logs warnings only, unless `log_level` is set."""
    current = settings.load(**overrides)
    level = "warning" if quiet and "log_level" not in current.model_fields_set else current.log_level
    logs.configure(level, current.log_format)
    return current


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a new event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
