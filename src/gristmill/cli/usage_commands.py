"""`gristmill usage` and `gristmill limit …`: what was spent, and the budgets and quotas that limit it, through the API."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from gristmill.cli.common import AsJson, DataDir, OptionalBase, run_with_client
from gristmill.cli.help import CommandLine
from gristmill.cli.output import console, new_table, print_json, print_text
from gristmill.errors import Invalid, NotFound

limit_cli = CommandLine(
    name="limit",
    help="Set budgets, which pause, and quotas, which refuse; of a base or of all bases.",
    examples=["gristmill limit set budget money 20 --base handbook", "gristmill limit list"],
)
ForBase = Annotated[
    str | None,
    typer.Option("--base", metavar="NAME", help="The base that it limits; by default all bases together."),
]


def usage(
    base: OptionalBase = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="First day, such as 2026-11-01; 30 days ago by default."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Last day; today by default.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show what was embedded and what it cost, by day, base, caller and kind."""
    from gristmill.cli.add import base_id_by_name

    if as_csv and as_json:
        raise Invalid("Pass either --csv or --json.", code="bad_option")

    async def run(session: Any) -> Any:
        days = {"since": since, "until": until}
        query = {name: day for name, day in days.items() if day is not None}
        if base is not None:
            query["baseId"] = await base_id_by_name(session, base, create=False)
        if as_csv:
            response = await session.client.send("GET", "/usage", params={**query, "format": "csv"})
            return response.text
        return await session.call("GET", "/usage", params=query)

    report = run_with_client(run, data_dir)
    if as_csv:
        print_text(report.rstrip())
        return
    print_json(report, as_json)
    rows = report["items"]
    shown = console(as_json)
    shown.print(_usage_table(rows) if rows else "Nothing was embedded in these days.")
    if rows:
        totals = report["totals"]
        shown.print(
            f"In all {totals['texts']:,} texts, {totals['tokens']:,} tokens, cost {totals['cost']:,.4f}."
        )


@limit_cli.command("list", examples=["gristmill limit list", "gristmill limit list handbook"])
def list_limits(base: OptionalBase = None, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List budgets and quotas, with what is used of them."""
    from gristmill.cli.add import base_id_by_name

    async def run(session: Any) -> list[dict[str, Any]]:
        query = {} if base is None else {"baseId": await base_id_by_name(session, base, create=False)}
        return (await session.call("GET", "/limits", params=query))["items"]

    limits = run_with_client(run, data_dir)
    print_json(limits, as_json)
    console(as_json).print(_limit_table(limits) if limits else "There are no budgets and quotas.")


@limit_cli.command(
    "set",
    examples=[
        "gristmill limit set budget money 20 --base handbook",
        "gristmill limit set budget chunks 100000 --period total",
        "gristmill limit set quota items 5000 --base handbook",
    ],
)
def set_limit(
    kind: Annotated[
        str, typer.Argument(metavar="budget|quota", help="What exceeds a budget waits; a quota refuses.")
    ],
    measure: Annotated[
        str,
        typer.Argument(
            metavar="MEASURE", help="chunks, tokens or money of a budget; items, bytes or chunks of a quota."
        ),
    ],
    amount: Annotated[float, typer.Argument(min=0, help="The most that may be spent or stored.")],
    base: ForBase = None,
    period: Annotated[
        str | None, typer.Option(metavar="month|total", help="Period of a budget; a month by default.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Set a budget or a quota, or another amount of it. Items that wait for a budget go on if it has room now."""
    from gristmill.cli.add import base_id_by_name

    async def run(session: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"kind": kind, "measure": measure, "amount": amount}
        if period is not None:
            body["period"] = period
        if base is not None:
            body["baseId"] = await base_id_by_name(session, base, create=False)
        return await session.call("POST", "/limits", json=body)

    limit = run_with_client(run, data_dir)
    print_json(limit, as_json)
    console(as_json).print(_limit_table([limit]))


@limit_cli.command("remove", examples=["gristmill limit remove budget money --base handbook"])
def remove_limit(
    kind: Annotated[str, typer.Argument(metavar="budget|quota", help="Which kind of limit.")],
    measure: Annotated[str, typer.Argument(metavar="MEASURE", help="What it limits.")],
    base: ForBase = None,
    period: Annotated[
        str | None, typer.Option(metavar="month|total", help="Period of a budget; a month by default.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Remove a budget or a quota. Items that wait for the budget go on."""
    from gristmill.cli.add import base_id_by_name

    wanted_period = period or ("month" if kind == "budget" else "total")

    async def run(session: Any) -> dict[str, Any]:
        base_id = None if base is None else await base_id_by_name(session, base, create=False)
        for limit in (await session.call("GET", "/limits"))["items"]:
            if (limit["kind"], limit["measure"], limit["period"], limit["baseId"]) == (
                kind,
                measure,
                wanted_period,
                base_id,
            ):
                await session.call("DELETE", f"/limits/{limit['id']}")
                return limit
        raise NotFound("There is no such limit. `gristmill limit list` lists them.", code="limit_not_found")

    print_json(run_with_client(run, data_dir), as_json)
    console(as_json).print("Removed.")


def _usage_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    table = new_table(
        "day", "base", "caller", "kind", "model", "texts", "tokens", "cost", right=("texts", "tokens", "cost")
    )
    for row in rows:
        table.add_row(
            row["day"],
            Text(row["baseName"] or "(deleted)"),
            Text(row["callerName"] or row["caller"].removeprefix("user_email:")),
            row["kind"],
            Text(row["model"]),
            f"{row['texts']:,}",
            f"{row['tokens']:,}",
            f"{row['cost']:,.4f}",
        )
    return table


def _limit_table(limits: Sequence[Mapping[str, Any]]) -> Any:
    table = new_table("limits", "kind", "used", "of", "period", "", right=("used", "of"))
    for limit in limits:
        table.add_row(
            Text(limit["baseName"] or "all bases"),
            f"{limit['kind']} of {limit['measure']}",
            f"{limit['used']:,g}" if limit["measure"] == "money" else f"{limit['used']:,.0f}",
            f"{limit['amount']:,g}" if limit["measure"] == "money" else f"{limit['amount']:,.0f}",
            "a month" if limit["period"] == "month" else "in all",
            "[yellow]used up[/yellow]" if limit["usedUp"] else "",
        )
    return table
