"""The commands and their options."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop
from rich.console import Console
from rich.live import Live

from gristmill import __version__, clock, logs, settings
from gristmill.errors import GristmillError, Invalid, SetupError
from gristmill.settings import Settings

cli = typer.Typer(
    name="gristmill",
    help="A durable knowledge base engine: add what you have, search it, trust it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

Result = TypeVar("Result")
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where everything is kept; the user's data folder by default."),
]


@cli.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Tell the version and end.")] = False,
) -> None:
    if version:
        out.print(f"gristmill {__version__}")
        raise typer.Exit


@cli.command()
def serve(
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="Address to bind.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to bind; 0 takes a free one.")] = None,
) -> None:
    """Serve the API with a worker beside it. Stops on Ctrl-C, and leaves nothing running."""
    from gristmill.cli.serve import serve as run

    current = _settings(quiet=False, data_dir=data_dir, host=host, port=port)
    _run(run(current, lambda address: out.print(f"Gristmill is ready at [bold]{address}[/bold]")))


@cli.command()
def worker(data_dir: DataDir = None) -> None:
    """Run jobs beside a server, on this machine or, with GRISTMILL_DATABASE_URL, on any."""
    from gristmill.cli.serve import work

    current = _settings(quiet=False, data_dir=data_dir)
    _run(
        work(
            current,
            lambda at: out.print(
                f"Gristmill is working{at and f', and tells how at {at}'}; Ctrl-C stops it."
            ),
        )
    )


@cli.command()
def add(
    base: Annotated[str, typer.Argument(help="Name of the base; made when there is none.")],
    things: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH_OR_URL]...", help="Files, folders, web pages and sitemaps."),
    ] = None,
    note: Annotated[list[str] | None, typer.Option("--note", help="A note's text; may be repeated.")] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", help="Leave this out of folders, as in .gitignore; may be repeated."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all is searchable; fails when something failed.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Add files, folders, web pages and notes to a base."""
    from gristmill.cli import add as adding
    from gristmill.cli.session import connect

    async def run() -> adding.Outcome:
        async with connect(current, work=wait) as session:
            return await adding.add(
                session, out, base, things or [], note or [], wait=wait, ignore=ignore or []
            )

    current = _settings(quiet=True, data_dir=data_dir)
    outcome = _run(run())
    if outcome.refused or outcome.failed:
        raise typer.Exit(1)


@cli.command()
def search(
    base: Annotated[str, typer.Argument(help="Name of the base.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most hits to show.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="The API's answer, as it is.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Search a base by meaning and by words."""
    from gristmill.cli import show
    from gristmill.cli.session import connect

    async def run() -> int:
        async with connect(current, work=False) as session:
            return await show.search(session, out, base, query, limit=limit, as_json=as_json)

    current = _settings(quiet=True, data_dir=data_dir)
    _run(run())


@cli.command()
def status(
    base: Annotated[str | None, typer.Argument(help="Name of a base; all of them by default.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing until Ctrl-C.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Show the bases, their items by status, the queue, its rate and when it may be done."""
    from gristmill.cli import show
    from gristmill.cli.session import connect

    async def run() -> None:
        async with connect(current, work=False) as session:
            if not watch:
                out.print(await show.status(session, base))
                return
            with Live(await show.status(session, base), console=out, auto_refresh=False) as live:
                while True:
                    await clock.pause(timedelta(seconds=1))
                    live.update(await show.status(session, base), refresh=True)

    current = _settings(quiet=True, data_dir=data_dir)
    _run(run())


connector = typer.Typer(
    name="connector", help="Follow tools of a team: GitHub, GitLab and others.", no_args_is_help=True
)
cli.add_typer(connector)
ConnectorName = Annotated[str, typer.Argument(help="Name of the connector.")]


@connector.command("add")
def connector_add(
    type: Annotated[str, typer.Argument(help="github, gitlab, jira or confluence.")],  # noqa: A002
    name: Annotated[str, typer.Argument(help="What to call it.")],
    base: Annotated[list[str], typer.Option("--base", help="Name of a base to feed; may be repeated.")],
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE of its configuration; may be repeated."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option("--secret", help="KEY=@FILE, KEY=- to be asked, or KEY=VALUE; may be repeated."),
    ] = None,
    schedule: Annotated[str | None, typer.Option(help="When it runs by itself, as cron in UTC.")] = None,
    acl: Annotated[
        list[str] | None,
        typer.Option("--acl", help="Who may see all of it, in place of the tool's own; may be repeated."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Follow a tool, and feed bases with what it holds."""
    from gristmill.cli import connectors

    async def run(session: Any) -> None:
        await connectors.add(
            session,
            out,
            type,
            name,
            bases=base,
            config=setting or [],
            secrets=secret or [],
            schedule=schedule,
            acl=acl or [],
        )

    _in_session(run, data_dir)


@connector.command("list")
def connector_list(data_dir: DataDir = None) -> None:
    """List the connectors, and how their last runs went."""
    from gristmill.cli import connectors

    async def run(session: Any) -> None:
        out.print(await connectors.listed(session))

    _in_session(run, data_dir)


@connector.command("show")
def connector_show(name: ConnectorName, data_dir: DataDir = None) -> None:
    """Show a connector and its last runs, as JSON."""
    from gristmill.cli import connectors

    _in_session(lambda session: connectors.show(session, out, name), data_dir)


@connector.command("pause")
def connector_pause(name: ConnectorName, data_dir: DataDir = None) -> None:
    """Run a connector no longer by itself."""
    from gristmill.cli import connectors

    _in_session(lambda session: connectors.turn(session, out, name, "pause"), data_dir)


@connector.command("resume")
def connector_resume(name: ConnectorName, data_dir: DataDir = None) -> None:
    """Run a connector by its schedule again."""
    from gristmill.cli import connectors

    _in_session(lambda session: connectors.turn(session, out, name, "resume"), data_dir)


@connector.command("delete")
def connector_delete(
    name: ConnectorName,
    purge: Annotated[
        bool, typer.Option("--purge/--detach", help="Remove its documents, or keep them as they are.")
    ],
    data_dir: DataDir = None,
) -> None:
    """Forget a connector; what becomes of its documents has to be said."""
    from gristmill.cli import connectors

    word = "purge" if purge else "detach"
    _in_session(lambda session: connectors.delete(session, out, name, word), data_dir)


@cli.command()
def sync(
    connector: Annotated[str, typer.Argument(help="Name of the connector.")],
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all is searchable; fails when the run failed.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Read everything anew.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what a run would do.")] = False,
    allow_deletions: Annotated[
        bool, typer.Option("--allow-deletions", help="Let a mass of documents go, if they are gone there.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Run a connector now."""
    from gristmill.cli import connectors

    how = {"force": force, "dryRun": dry_run, "allowDeletions": allow_deletions}
    if not _in_session(
        lambda session: connectors.sync(session, out, connector, wait=wait, how=how), data_dir, work=wait
    ):
        raise typer.Exit(1)


@cli.command()
def doctor(data_dir: DataDir = None) -> None:
    """Check settings, disk, database, embedder and promises; say what to do. Settings are listed in docs/settings.md."""
    from gristmill.cli.doctor import examine

    async def run() -> bool:
        well = True
        async for finding in examine(current):
            mark = "[green]✓[/green]" if finding.ok else "[red]✗[/red]"
            out.print(f"{mark} {finding.what:<10} {finding.detail}")
            well = well and finding.ok
        return well

    current = _settings(quiet=True, data_dir=data_dir)
    if not _run(run()):
        raise typer.Exit(1)


key_cli = typer.Typer(no_args_is_help=True, help="Make, show and revoke API keys, on the database itself.")
cli.add_typer(key_cli, name="keys")

OrgName = Annotated[str, typer.Option("--org", help="Organisation; made when there is none.")]


@key_cli.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    role: Annotated[str, typer.Option(help="admin, editor or reader.")] = "reader",
    org: OrgName = "local",
    email: Annotated[str | None, typer.Option(help="Whose eyes the key has.")] = None,
    team: Annotated[list[str] | None, typer.Option(help="A team of the principal; may be repeated.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A group of the principal; may be repeated.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, help="Days until it expires; never by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Make a key, and print its secret: the only time that it is shown."""
    from gristmill.cli import keys

    if role not in ("admin", "editor", "reader"):
        raise Invalid(f"{role!r} is no role; take admin, editor or reader.", code="bad_role")
    new = keys.new_key(name, role, email, team or [], group or [], days)

    async def run() -> str:
        async with keys.database(current) as db:
            return (await keys.create(db, org, new))[1]

    current = _settings(quiet=True, data_dir=data_dir)
    secret = _run(run())
    out.print_json(json.dumps({"key": secret})) if as_json else out.print(secret, highlight=False)


@key_cli.command("list")
def list_keys(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False, data_dir: DataDir = None
) -> None:
    """Show all keys, by the beginning of their secrets."""
    from gristmill.cli import keys

    async def run() -> None:
        async with keys.database(current) as db:
            await keys.show(db, out, as_json=as_json)

    current = _settings(quiet=True, data_dir=data_dir)
    _run(run())


@key_cli.command("revoke")
def revoke_key(
    key: Annotated[
        str, typer.Argument(help="Its name, id, or the beginning of its secret as `list` shows it.")
    ],
    org: OrgName = "local",
    data_dir: DataDir = None,
) -> None:
    """Revoke a key, with the sessions that it opened."""
    from gristmill.cli import keys

    async def run() -> str:
        async with keys.database(current) as db:
            return (await keys.revoke(db, org, key)).prefix

    current = _settings(quiet=True, data_dir=data_dir)
    out.print(f"Revoked {_run(run())}….")


@cli.command()
def audit(
    org: Annotated[str, typer.Option("--org", help="Whose log.")] = "local",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most rows to show.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Show what may have changed something, and who asked for it, newest first."""
    from gristmill.cli import keys

    async def run() -> None:
        async with keys.database(current) as db:
            await keys.show_audit(db, out, org, limit=limit, as_json=as_json)

    current = _settings(quiet=True, data_dir=data_dir)
    _run(run())


@cli.command()
def mcp(data_dir: DataDir = None) -> None:
    """Serve agents over standard input and output, by the Model Context Protocol."""
    from gristmill.cli.session import connect
    from gristmill.doors.mcp import create

    async def run() -> None:
        async with connect(current, work=True) as session:
            await create(session.again).run_stdio_async()

    current = _settings(quiet=True, data_dir=data_dir)
    _run(run())


def _in_session(
    run: Callable[[Any], Coroutine[Any, Any, Result]], data_dir: Path | None, *, work: bool = False
) -> Result:
    """Run with a way to the server, or with one opened here."""
    from gristmill.cli.session import connect

    async def whole() -> Result:
        async with connect(current, work=work) as session:
            return await run(session)

    current = _settings(quiet=True, data_dir=data_dir)
    return _run(whole())


def _settings(*, quiet: bool, **given: Any) -> Settings:
    """The settings in force; a `quiet` command logs only what is wrong, unless told otherwise."""
    current = settings.load(**given)
    level = "warning" if quiet and "log_level" not in current.model_fields_set else current.log_level
    logs.configure(level, current.log_format)
    return current


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def main() -> None:
    """Run the command; errors that people can do something about are one line, not a traceback."""
    try:
        cli()
    except KeyboardInterrupt:
        sys.exit(130)
    except SetupError as error:
        err.print(f"[red]gristmill can't start:[/red] {error.message} ({error.code})")
        sys.exit(2)
    except GristmillError as error:
        err.print(f"[red]gristmill:[/red] {error.message} ({error.code})")
        sys.exit(1)
