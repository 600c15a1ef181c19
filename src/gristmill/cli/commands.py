"""The commands and their options."""

import json
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.markup import escape

from gristmill import __version__, clock
from gristmill.cli import (
    connector_commands,
    embedder_commands,
    embedder_swap,
    index_commands,
    key_commands,
)
from gristmill.cli.common import AsJson, DataDir, load_settings, run_async, run_with_client
from gristmill.cli.help import CommandLine
from gristmill.cli.imports import pause_garbage_collector
from gristmill.cli.output import console, out, print_error, print_json
from gristmill.errors import GristmillError

cli = CommandLine(
    name="gristmill",
    help="A durable knowledge base engine: add documents, search them, trust the results.",
)
_REFRESH_INTERVAL = timedelta(seconds=1)


@cli.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        out.print(f"gristmill {__version__}")
        raise typer.Exit


@cli.command()
def serve(
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, metavar="NUMBER", help="Port to listen on; 0 picks a free one."),
    ] = None,
    single_process: Annotated[
        bool | None,
        typer.Option(
            "--single-process", help="Run the server and the worker in one process, which takes less memory."
        ),
    ] = None,
) -> None:
    """Run the server and a worker. Ctrl-C stops both, and the built-in PostgreSQL."""
    with pause_garbage_collector():
        from gristmill.cli.serve import serve as run

    current = load_settings(
        quiet=False, data_dir=data_dir, host=host, port=port, single_process=single_process
    )
    code = run(current, lambda address: out.print(f"Gristmill is ready at [bold]{address}[/bold]"))
    if code:
        raise typer.Exit(code)


@cli.command()
def worker(data_dir: DataDir = None) -> None:
    """Run an additional worker, on this machine or, with GRISTMILL_DATABASE_URL, on any other."""
    with pause_garbage_collector():
        from gristmill.cli.serve import work

    current = load_settings(quiet=False, data_dir=data_dir)
    run_async(
        work(
            current,
            lambda at: out.print(
                f"The worker is running{at and f', with its metrics at {at}/metrics'}. Ctrl-C stops it."
            ),
        )
    )


@cli.command()
def add(
    base: Annotated[str, typer.Argument(help="Name of the base; created if it does not exist.")],
    things: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH_OR_URL", help="Files, folders, web pages and sitemaps."),
    ] = None,
    note: Annotated[
        list[str] | None, typer.Option("--note", metavar="TEXT", help="Text of a note; may be repeated.")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="PATTERN",
            help="Skip matching entries of folders, as in .gitignore; may be repeated.",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until everything is searchable; exit with 1 if an item failed."),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Add files, folders, web pages and notes to a base."""
    from gristmill.cli import add as adding

    items = adding.items_to_add(things or [], note or [], ignore or [])

    async def run(session: Any) -> adding.CommandResult:
        return await adding.add(session, console(as_json), base, items, wait=wait)

    _finish(run_with_client(run, data_dir, work=wait), as_json)


@cli.command()
def reindex(
    base: Annotated[str, typer.Argument(help="Name of the base.")],
    item: Annotated[
        list[str] | None,
        typer.Argument(metavar="ITEM_ID", help="Items to reindex; by default all items of the base."),
    ] = None,
    on_active: Annotated[
        str,
        typer.Option(
            "--on-active",
            metavar="WORD",
            help="What to do with items that are being processed: reject, skip or after.",
        ),
    ] = "reject",
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until the items are reindexed; exit with 1 if an item failed."),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Reindex items and everything below them. The old versions stay searchable until the new ones are ready."""
    from gristmill.cli import reindex as reindexing

    async def run(session: Any) -> Any:
        return await reindexing.reindex(
            session, console(as_json), base, item or [], on_active=on_active, wait=wait
        )

    _finish(run_with_client(run, data_dir, work=wait), as_json)


@cli.command()
def search(
    base: Annotated[str, typer.Argument(help="Name of the base.")],
    query: Annotated[str, typer.Argument(help="The query.")],
    limit: Annotated[
        int, typer.Option(min=1, max=100, metavar="NUMBER", help="Maximum number of hits.")
    ] = 10,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Search a base by meaning and by keyword."""
    from gristmill.cli import search as search_command
    from gristmill.cli.client_session import connect

    async def run() -> int:
        async with connect(current, work=False) as session:
            return await search_command.search(session, out, base, query, limit=limit, as_json=as_json)

    current = load_settings(quiet=True, data_dir=data_dir)
    run_async(run())


@cli.command()
def ask(
    base: Annotated[str, typer.Argument(help="Name of the base.")],
    question: Annotated[str, typer.Argument(help="The question.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Answer a question from a base, with the passages that the answer cites. Needs a chat model (`chat_url`)."""
    from gristmill.cli import ask as ask_command
    from gristmill.cli.client_session import connect

    async def run() -> int:
        async with connect(current, work=False) as session:
            return await ask_command.ask(session, out, base, question, as_json=as_json)

    current = load_settings(quiet=True, data_dir=data_dir)
    if code := run_async(run()):
        raise typer.Exit(code)


@cli.command()
def status(
    base: Annotated[str | None, typer.Argument(help="Name of a base; by default all bases.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update until Ctrl-C.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show the bases, their items by status, the queue, its rate and the estimated time left."""
    from gristmill.cli import status as show

    async def run(session: Any) -> None:
        bases = await show.bases_with_queues(session, base)
        if as_json:
            print(json.dumps(bases), flush=True)
            while watch:
                await clock.pause(_REFRESH_INTERVAL)
                print(json.dumps(await show.bases_with_queues(session, base)), flush=True)
            return
        if not watch:
            out.print(show.status_view(session, bases))
            return
        with Live(show.status_view(session, bases), console=out, auto_refresh=False) as live:
            while True:
                await clock.pause(_REFRESH_INTERVAL)
                live.update(
                    show.status_view(session, await show.bases_with_queues(session, base)), refresh=True
                )

    run_with_client(run, data_dir)


@cli.command()
def doctor(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Check settings, disk, database, embedder and guarantees, and say how to fix problems."""
    from gristmill.cli.doctor import run_checks

    async def run() -> bool:
        results: list[Any] = []
        async for result in run_checks(current):
            results.append(vars(result))
            mark = "[green]✓[/green]" if result.ok else "[red]✗[/red]"
            console(as_json).print(f"{mark} {result.what:<11} {escape(result.detail)}")
        print_json(results, as_json)
        return all(result["ok"] for result in results)

    current = load_settings(quiet=True, data_dir=data_dir)
    if not run_async(run()):
        raise typer.Exit(1)


@cli.command()
def mcp(data_dir: DataDir = None) -> None:
    """Run an MCP server on standard input and output, for agents."""
    with pause_garbage_collector():
        from gristmill.cli.client_session import connect
        from gristmill.server.mcp.tools import create

    async def run() -> None:
        async with connect(current, work=True) as session:
            await create(session.new_client).run_stdio_async()

    current = load_settings(quiet=True, data_dir=data_dir)
    run_async(run())


cli.add_typer(embedder_swap.base_cli)  # with the commands of base_commands.py
cli.add_typer(embedder_commands.embedder_cli)
cli.add_typer(index_commands.index_cli)
cli.add_typer(connector_commands.connector)
cli.command()(connector_commands.sync)
cli.add_typer(key_commands.key_cli, name="keys")
cli.command()(key_commands.audit)


def _finish(outcome: Any, as_json: bool) -> None:
    """Print the result, and exit with 1 if anything failed."""
    print_json(outcome.output, as_json)
    if not outcome.succeeded:
        raise typer.Exit(1)


def run() -> int:
    """Run the command that `sys.argv` names; returns its exit code. Errors are printed in one line, without a traceback."""
    try:
        cli(prog_name="gristmill")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except GristmillError as error:
        return print_error(error)
    return 0
