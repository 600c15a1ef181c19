"""limits: set and remove the budgets and quotas of an organisation and of its bases.

    transaction     the base exists → write the limit → run the jobs now that wait for a budget: they look again

A job that pauses at the same moment may miss it; it looks again a minute later by itself.
"""

from decimal import Decimal
from uuid import UUID

from gristmill import jobs, usage
from gristmill.catalog import BaseId, Viewer
from gristmill.db import Database, Tx
from gristmill.errors import NotFound
from gristmill.identity import OrgId
from gristmill.operations import guards
from gristmill.usage import BudgetUsedUp, LimitStatus, NewLimit, UsageLimit


async def set_limit(db: Database, org: OrgId, new: NewLimit) -> LimitStatus:
    """Set a limit, or another amount of the one of the same scope, measure and period."""
    async with db.transaction() as tx:
        if new.base_id is not None:
            await guards.require_base(tx, BaseId(new.base_id), Viewer(None, org))
        limit = await usage.put_limit(tx, org, new)
        return await _apply(tx, limit)


async def change_amount(db: Database, org: OrgId, limit_id: UUID, amount: Decimal) -> LimitStatus:
    """Raise or lower a limit."""
    async with db.transaction() as tx:
        limit = await usage.change_limit(tx, org, limit_id, amount)
        if limit is None:
            raise _not_found(limit_id)
        return await _apply(tx, limit)


async def remove_limit(db: Database, org: OrgId, limit_id: UUID) -> None:
    """Remove a limit."""
    async with db.transaction() as tx:
        limit = await usage.delete_limit(tx, org, limit_id)
        if limit is None:
            raise _not_found(limit_id)
        await _run_waiting_jobs(tx, limit)


async def _apply(tx: Tx, limit: UsageLimit) -> LimitStatus:
    await _run_waiting_jobs(tx, limit)
    (status,) = await usage.find_limits(tx, limit.org_id, limit_id=limit.id)
    return status


async def _run_waiting_jobs(tx: Tx, limit: UsageLimit) -> None:
    if limit.kind == "budget":
        lane = None if limit.base_id is None else str(limit.base_id)
        await jobs.run_waiting_now(tx, limit.org_id, lane, BudgetUsedUp.code)


def _not_found(limit_id: UUID) -> NotFound:
    return NotFound(f"There is no limit {limit_id}.", code="limit_not_found")
