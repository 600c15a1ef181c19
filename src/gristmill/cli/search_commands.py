"""The options of `gristmill search`, `gristmill ask` and `gristmill why-not`."""

from typing import Annotated, Any

import typer

from gristmill.cli.common import AsJson, BaseName, DataDir, SearchMode, run_with_client
from gristmill.cli.output import out

Query = Annotated[str, typer.Argument(help="The query.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="CONDITION",
        help="Condition on metadata, such as 'year>=2020', team=sales,support or 'document.created>=2024'; or type=note. May be repeated.",
    ),
]


def search(
    base: BaseName,
    query: Query,
    limit: Annotated[
        int, typer.Option(min=1, max=100, metavar="NUMBER", help="Maximum number of hits.")
    ] = 10,
    mode: SearchMode = "hybrid",
    filters: Filters = None,
    min_score: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="SCORE", help="Leave out hits with a lower score.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show why each hit is at its place.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Search a base by meaning and by keyword."""
    from gristmill.cli import search as search_command
    from gristmill.cli.filters import parse_filters

    body: dict[str, Any] = {
        "query": query,
        "limit": limit,
        "mode": mode,
        "filters": parse_filters(filters or []),
    }
    if min_score is not None:
        body["minScore"] = min_score
    if explain:
        body["explain"] = True

    async def run(session: Any) -> None:
        await search_command.search(session, out, base, body, as_json=as_json)

    run_with_client(run, data_dir)


def ask(
    base: BaseName,
    question: Annotated[str, typer.Argument(help="The question.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Answer a question from a base, with the passages that the answer cites. Needs a chat model (`chat_url`)."""
    from gristmill.cli import ask as ask_command

    async def run(session: Any) -> int:
        return await ask_command.ask(session, out, base, question, as_json=as_json)

    if code := run_with_client(run, data_dir):
        raise typer.Exit(code)


def why_not(
    item_id: Annotated[
        str, typer.Argument(metavar="ITEM_ID", help="Id of the item, as `gristmill item list` shows it.")
    ],
    query: Query,
    mode: SearchMode = "hybrid",
    filters: Filters = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Explain why an item is not among the hits of a query, or where it is."""
    from gristmill.cli import search as search_command
    from gristmill.cli.filters import parse_filters

    body = {"query": query, "mode": mode, "filters": parse_filters(filters or [])}

    async def run(session: Any) -> None:
        await search_command.why_not(session, out, item_id, body, as_json=as_json)

    run_with_client(run, data_dir)
