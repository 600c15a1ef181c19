"""The commands and their options."""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.markup import escape

from gristmill import __version__, clock
from gristmill.cli import (
    activity_commands,
    backup_commands,
    connector_commands,
    embedder_commands,
    freshness_commands,
    index_commands,
    key_commands,
    mcp_commands,
    portable_commands,
    retention_commands,
    search_commands,
    secret_commands,
    sync_command,
    upgrade_commands,
    usage_commands,
    user_commands,
)
from gristmill.cli.common import (
    AsJson,
    BaseName,
    CrawlDepth,
    CrawlExclude,
    CrawlInclude,
    CrawlPages,
    Cron,
    DataDir,
    DryRun,
    Every,
    OptionalBase,
    Render,
    Watch,
    choose_server,
    load_settings,
    run_async,
    run_with_client,
)
from gristmill.cli.completion import complete_base_names
from gristmill.cli.help import CommandLine, ServerKey, ServerUrl
from gristmill.cli.imports import pause_garbage_collector
from gristmill.cli.output import console, file_error, out, print_error, print_json
from gristmill.errors import GristmillError, Invalid

cli = CommandLine(
    name="gristmill",
    help="A durable knowledge base engine: add documents, search them, trust the results.",
    examples=[
        "gristmill serve",
        "gristmill add handbook ~/handbook --wait",
        'gristmill search handbook "how long do refunds take"',
    ],
)
_REFRESH_INTERVAL = timedelta(seconds=1)


@cli.callback(invoke_without_command=True)
def _common_options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    server_url: ServerUrl = None,
    server_key: ServerKey = None,
) -> None:
    choose_server(server_url, server_key)
    if version:
        out.print(f"gristmill {__version__}")
        raise typer.Exit


@cli.command(
    local=True, examples=["gristmill serve", "gristmill serve --port 8080 --data-dir /srv/gristmill"]
)
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


@cli.command(local=True, examples=["GRISTMILL_DATABASE_URL=postgresql://db/gristmill gristmill worker"])
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


@cli.command(
    examples=[
        "gristmill add handbook ~/handbook --wait",
        "gristmill add handbook https://example.org/sitemap.xml",
        "gristmill add handbook https://example.org/docs/ --crawl --include '/docs/*' --pages 500",
        'gristmill add handbook --note "Refunds are paid within 14 days."',
        "gristmill add handbook refunds.pdf --url https://kb.example.org --key @key.txt",
    ]
)
def add(
    base: Annotated[
        str,
        typer.Argument(
            help="Name of the base; created if it does not exist.", autocompletion=complete_base_names
        ),
    ],
    things: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH_OR_URL",
            help="Files, folders, web pages and sitemaps; with --crawl, start pages of web sites.",
        ),
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
    crawl: Annotated[
        bool, typer.Option("--crawl", help="Crawl the web sites from these pages, by links and sitemaps.")
    ] = False,
    pages: CrawlPages = None,
    depth: CrawlDepth = None,
    include: CrawlInclude = None,
    exclude: CrawlExclude = None,
    render: Render = None,
    every: Every = None,
    cron: Cron = None,
    watch: Watch = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until everything is searchable; exit with 1 if an item failed."),
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Add files, folders, web pages and notes to a base."""
    from gristmill.cli import add as adding

    options = {"maxPages": pages, "maxDepth": depth, "include": include, "exclude": exclude}
    rules = adding.crawl_rules(options, crawl=crawl)
    items = adding.items_to_add(things or [], note or [], ignore or [], rules, render)
    items = adding.with_freshness(items, every, cron, watch=watch)

    async def run(session: Any) -> adding.CommandResult:
        if dry_run:
            return await adding.estimate(session, console(as_json), base, items)
        return await adding.add(session, console(as_json), base, items, wait=wait)

    _finish(run_with_client(run, data_dir, work=wait), as_json)


@cli.command(
    examples=[
        "gristmill reindex handbook --wait",
        "gristmill reindex handbook 01a1de95-5507-701c-8741-d8b6405b3611",
    ]
)
def reindex(
    base: BaseName,
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
    dry_run: DryRun = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Reindex items and everything below them. The old versions stay searchable until the new ones are ready."""
    from gristmill.cli import reindex as reindexing

    async def run(session: Any) -> Any:
        return await reindexing.reindex(
            session, console(as_json), base, item or [], on_active=on_active, wait=wait, dry_run=dry_run
        )

    _finish(run_with_client(run, data_dir, work=wait), as_json)


cli.command(
    examples=[
        'gristmill search handbook "how long do refunds take"',
        'gristmill search handbook refunds --filter "year>=2020" --filter team=sales,support',
        "gristmill search handbook refunds --mode text --explain",
        "gristmill search handbook refunds > hits.txt",
    ]
)(search_commands.search)
cli.command("why-not", examples=["gristmill why-not 01a1de95-5507-701c-8741-d8b6405b3611 refunds"])(
    search_commands.why_not
)
cli.command(examples=['gristmill ask handbook "How long do refunds take?"'])(search_commands.ask)


@cli.command(examples=["gristmill status", "gristmill status handbook --watch"])
def status(
    base: OptionalBase = None,
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


@cli.command(local=True, examples=["gristmill doctor"])
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


@cli.command(
    "support-bundle",
    local=True,
    examples=["gristmill support-bundle", "gristmill support-bundle /tmp/case.zip"],
)
def support_bundle(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Zip file to write.")] = Path(
        "gristmill-support.zip"
    ),
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Collect what someone needs who helps you: version, settings, checks, counts and log lines. No secrets, no documents."""
    from gristmill.cli.support_bundle import write_bundle

    current = load_settings(quiet=True, data_dir=data_dir)
    missing = run_async(write_bundle(current, os.environ, file))
    print_json({"file": str(file), "missing": missing}, as_json)
    messages = console(as_json)
    messages.print(f"Written to {escape(str(file))}. Look through it before you send it.")
    if missing:
        messages.print(f"Not in it: {', '.join(missing)}. missing.json says why.")


# With the commands of base_commands.py, question_commands.py, item_commands.py and item_changes.py.
cli.add_typer(freshness_commands.base_cli)
cli.add_typer(freshness_commands.item_cli)
cli.command(
    examples=["gristmill events", "gristmill events handbook --follow", "gristmill events --type ItemFailed"]
)(activity_commands.events)
cli.command(examples=["gristmill queue", "gristmill queue handbook"])(activity_commands.queue)
cli.add_typer(embedder_commands.embedder_cli)
cli.add_typer(index_commands.index_cli)
cli.add_typer(connector_commands.connector)
cli.command(examples=["gristmill sync work --wait", "gristmill sync work --dry-run"])(sync_command.sync)
cli.add_typer(key_commands.key_cli, name="keys")
cli.add_typer(user_commands.user_cli, name="user")
cli.add_typer(user_commands.group_cli, name="group")
cli.add_typer(mcp_commands.mcp_cli)
cli.add_typer(secret_commands.secret_cli)
cli.command(examples=["gristmill usage", "gristmill usage handbook --since 2026-11-01 --csv"])(
    usage_commands.usage
)
cli.add_typer(usage_commands.limit_cli)
cli.command(local=True, examples=["gristmill audit --limit 10"])(key_commands.audit)
cli.command(
    "deletions",
    examples=["gristmill deletions", "gristmill deletions --since 2026-01-01 --csv deletions.csv"],
)(retention_commands.show_deletions)
cli.command(
    local=True,
    examples=[
        "gristmill backup /backup/gristmill --keep 14",
        "gristmill backup s3://bucket/gristmill",
        "gristmill backup /backup/gristmill --list",
    ],
)(backup_commands.backup)
cli.command(local=True, examples=["gristmill restore /backup/gristmill --data-dir /srv/gristmill"])(
    backup_commands.restore
)
cli.command(local=True, examples=["gristmill upgrade", "gristmill upgrade --drop-old"])(
    upgrade_commands.upgrade
)
cli.command(
    local=True,
    examples=["gristmill move --to postgresql://gristmill@db/gristmill", "gristmill move --to embedded"],
)(upgrade_commands.move)
cli.command("export", examples=["gristmill export handbook handbook.gristmill"])(
    portable_commands.export_base
)
cli.command(
    "import",
    examples=[
        "gristmill import handbook.gristmill",
        "gristmill import handbook.gristmill --name manual --re-embed",
    ],
)(portable_commands.import_base)


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
    except OSError as error:
        return print_error(file_error(error))
    except UnicodeEncodeError:
        return print_error(
            Invalid("The command line has a word that is not UTF-8. Write it in UTF-8.", code="bad_option")
        )
    return 0
