"""What all commands share: common options, settings, and the event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop

from gristmill import settings
from gristmill.settings import Settings
from gristmill.telemetry import logs

Result = TypeVar("Result")
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="PATH", help="Folder with all data; by default in the user's data folder."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
