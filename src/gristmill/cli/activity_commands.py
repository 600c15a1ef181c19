"""The options of `gristmill events` and `gristmill queue`."""

from typing import Annotated, Any

import typer

from gristmill.cli.common import AsJson, DataDir, OptionalBase, run_with_client
from gristmill.cli.output import console, print_json


def events(
    base: OptionalBase = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with new events, until Ctrl-C.")] = False,
    type: Annotated[  # noqa: A002
        list[str] | None,
        typer.Option(metavar="NAME", help="Only events of this type, such as ItemFailed; may be repeated."),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="EVENT_ID", help="Begin after this event, and show all that follow.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=500, metavar="NUMBER", help="Number of latest events, without --after.")
    ] = 20,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show what happened, oldest first: items added, indexed, failed and deleted, connectors run."""
    from gristmill.cli import activity

    async def run(session: Any) -> None:
        filters = await activity.event_filters(session, base, type or [])
        pages = activity.event_pages(session, filters, after=after, limit=limit, follow=follow)
        await activity.print_events(pages, console(as_json), as_json=as_json, follow=follow)

    run_with_client(run, data_dir)


def queue(base: OptionalBase = None, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show what is being worked on and what waits: the lanes of bases, connectors and webhooks, or one base."""
    from gristmill.cli import activity

    async def run(session: Any) -> dict[str, Any]:
        return await activity.find_queue(session, base)

    current_queue = run_with_client(run, data_dir)
    print_json(current_queue, as_json)
    console(as_json).print(activity.queue_view(current_queue, base))
