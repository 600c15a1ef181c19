"""`/api/usage` and `/api/limits`: what was spent, and the budgets and quotas that limit it."""

import csv
import io
from datetime import date, timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Query, Response

from gristmill import usage
from gristmill.operations import limits
from gristmill.server.api.context import CurrentCaller, CurrentContext, parse_limit_id
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Day, Limit, Page, page_of
from gristmill.server.api.schemas.usage import LimitChange, LimitOut, NewLimitIn, UsageReport
from gristmill.usage import UsageFilter, UsageRow

router = ApiRouter("/api", tag="usage")

PathLimit = Annotated[UUID, Depends(parse_limit_id)]
_MAX_ROWS = 100_000
_DEFAULT_DAYS = timedelta(days=30)
_FIRST_DAY = date.min + _DEFAULT_DAYS
_COLUMNS = ("day", "baseId", "base", "caller", "callerName", "kind", "model", "texts", "tokens", "cost")


@router.get("/usage", response_model=UsageReport, responses={200: {"content": {"text/csv": {}}}})
async def get_usage(
    context: CurrentContext,
    caller: CurrentCaller,
    since: Day | None = None,
    until: Day | None = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    by: Annotated[str | None, Query(alias="caller", max_length=500)] = None,
    output: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
) -> UsageReport | Response:
    """What was embedded, described and answered, and what it cost, by day, base, caller and kind, newest first; the last 30 days by
    default. `format=csv` downloads a table."""
    async with context.db.connection() as tx:
        last = until or await usage.today(tx)
        chosen = UsageFilter(since or max(last, _FIRST_DAY) - _DEFAULT_DAYS, last, base_id, by)
        rows = await usage.find_usage(tx, caller.org, chosen, limit=_MAX_ROWS)
    if output == "csv":
        headers = {"Content-Disposition": f'attachment; filename="usage-{chosen.since}-{last}.csv"'}
        return Response(_to_csv(rows), media_type="text/csv; charset=utf-8", headers=headers)
    return UsageReport.of(rows)


@router.get("/limits")
async def list_limits(
    context: CurrentContext,
    caller: CurrentCaller,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    limit: Limit = 500,
    cursor: UUID | None = None,
) -> Page[LimitOut]:
    """List the budgets and quotas of the organisation and its bases, with what is used of them; with `baseId`, those that limit a
    base."""
    async with context.db.connection() as tx:
        statuses = await usage.find_limits(tx, caller.org, base=base_id)
    following = sorted(
        (status for status in statuses if cursor is None or status.id > cursor), key=lambda status: status.id
    )
    return page_of(following[:limit], limit, LimitOut.of)


@router.post("/limits", status_code=201)
async def set_limit(body: NewLimitIn, context: CurrentContext, caller: CurrentCaller) -> LimitOut:
    """Set a budget or a quota. If there is one of the same scope, measure and period, it gets this amount. Items that wait for a
    budget go on if it has room now."""
    return LimitOut.of(await limits.set_limit(context.db, caller.org, body.to_limit()))


@router.patch("/limits/{limit_id}")
async def change_limit(
    limit_id: PathLimit, body: LimitChange, context: CurrentContext, caller: CurrentCaller
) -> LimitOut:
    """Raise or lower a limit. Items that wait for a budget go on if it has room now."""
    return LimitOut.of(await limits.change_amount(context.db, caller.org, limit_id, body.to_decimal()))


@router.delete("/limits/{limit_id}", status_code=204)
async def remove_limit(limit_id: PathLimit, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Remove a limit. Items that wait for the budget go on."""
    await limits.remove_limit(context.db, caller.org, limit_id)
    return Response(status_code=204)


def _to_csv(rows: list[UsageRow]) -> str:
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(_COLUMNS)
    for row in rows:
        names = [_without_formula(name or "") for name in (row.base_name, row.caller, row.caller_name)]
        cells = [row.day, row.base_id, *names, row.kind, _without_formula(row.model)]
        writer.writerow([*cells, row.texts, row.tokens, f"{row.cost.normalize():f}"])
    return table.getvalue()


def _without_formula(text: str) -> str:
    """The text, quoted if a spreadsheet would take it for a formula."""
    return f"'{text}" if text[:1] in "=+-@\t\r" and text else text
