"""What all commands share: common options, the server that they use, settings, and the event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop

from gristmill import settings
from gristmill.cli.completion import complete_base_names
from gristmill.errors import Invalid
from gristmill.settings import Settings
from gristmill.telemetry import logs

Result = TypeVar("Result")
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="PATH", help="Folder with all data; by default in the user's data folder."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; show what would be embedded and what it costs.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BaseName = Annotated[str, typer.Argument(help="Name of the base.", autocompletion=complete_base_names)]
OptionalBase = Annotated[
    str | None,
    typer.Argument(help="Name of a base; by default all bases.", autocompletion=complete_base_names),
]
SearchMode = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="WORD",
        help="hybrid (by meaning and by keyword), vector or text.",
        autocompletion=lambda: ["hybrid", "vector", "text"],
    ),
]


class RenderOption(StrEnum):
    """Which web pages a browser renders."""

    NEVER = "never"
    AUTO = "auto"
    ALWAYS = "always"


Every = Annotated[
    str | None, typer.Option(metavar="INTERVAL", help="Check after this time: 30m, 12h, 1d or 2w; never.")
]
Cron = Annotated[
    str | None, typer.Option(metavar="TIMES", help="Check at the times of a cron expression, in UTC.")
]
Watch = Annotated[bool | None, typer.Option("--watch/--no-watch", help="Watch a folder, or don't.")]
CrawlPages = Annotated[
    int | None,
    typer.Option(
        "--pages", metavar="N", min=1, max=50_000, help="Most pages of a crawled site; 1,000 by default."
    ),
]
CrawlDepth = Annotated[
    int | None,
    typer.Option(
        "--depth", metavar="N", min=0, max=50, help="Most links from the start page to a page; 5 by default."
    ),
]
CrawlInclude = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="PATTERN",
        help="Crawl only addresses like this, such as '/docs/*'; may be repeated.",
    ),
]
CrawlExclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="PATTERN", help="Do not crawl addresses like this; may be repeated."),
]
Render = Annotated[
    RenderOption | None,
    typer.Option(
        "--render",
        metavar="WORD",
        help="Which of these web pages a browser renders: never, auto (those with hardly any text) or always.",
    ),
]


@dataclass(frozen=True)
class ServerChoice:
    """The server that the command line names; without one, the settings do, or the data dir."""

    url: str | None = None
    key: str | None = None


_NONE = ServerChoice()
_server: ContextVar[ServerChoice] = ContextVar("server", default=_NONE)


def choose_server(url: str | None, key: str | None, *, instead_of: ServerChoice | None = None) -> None:
    """Use the server at `url` with this key; what is None stays as in `instead_of`."""
    other = instead_of or _NONE
    _server.set(ServerChoice(url or other.url, _read_key(key) or other.key))


def add_server_choice(url: str | None, key: str | None) -> None:
    """Options of a command, which win over the same options before its name."""
    choose_server(url, key, instead_of=_server.get())


def key_option() -> str | None:
    """The key of the command line, if it has one."""
    return _server.get().key


def run_with_client(
    run: Callable[[Any], Coroutine[Any, Any, Result]], data_dir: Path | None, *, work: bool = False
) -> Result:
    """Run a command with a client of the server, or of a Gristmill in this process if none runs."""
    from gristmill.cli.client_session import connect

    async def run_connected() -> Result:
        async with connect(current, work=work) as session:
            return await run(session)

    current = client_settings(data_dir)
    return run_async(run_connected())


def client_settings(data_dir: Path | None) -> Settings:
    """The settings of a command that uses a server: `url` and `api_key` are those of the command line, if it has them."""
    choice = _server.get()
    if choice.url and data_dir is not None:
        raise Invalid("A server has its own data dir. Pass either --url or --data-dir.", code="bad_option")
    current = _load(quiet=True, data_dir=data_dir, url=choice.url, api_key=choice.key)
    # The folder on the command line is meant, not the server of the environment.
    return current if data_dir is None else current.model_copy(update={"url": None})


def load_settings(*, quiet: bool, **overrides: Any) -> Settings:
    """The settings of a command that works on this machine; a `quiet` command logs warnings only, unless `log_level` is set."""
    if _server.get().url:
        raise Invalid(
            "This command works on the data of this machine, not on a server elsewhere. Remove --url.",
            code="bad_option",
        )
    return _load(quiet=quiet, **overrides)


def _load(*, quiet: bool, **overrides: Any) -> Settings:
    current = settings.load(**overrides)
    level = "warning" if quiet and "log_level" not in current.model_fields_set else current.log_level
    logs.configure(level, current.log_format)
    return current


def _read_key(key: str | None) -> str | None:
    """The key, or with `@FILE` the content of that file, which keeps it out of the shell's history."""
    if key is None or not key.startswith("@"):
        return key
    try:
        return Path(key[1:]).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise Invalid(f"The key can't be read from {key[1:]}. Check the file.", code="bad_option") from error


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a new event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def refresh_rule(every: str | None, cron: str | None) -> dict[str, str]:
    """The rule that `--every` or `--cron` gives."""
    if (every is None) == (cron is None):
        raise Invalid("Pass either --every or --cron.", code="bad_option")
    return {"every": every} if every is not None else {"cron": cron or ""}
