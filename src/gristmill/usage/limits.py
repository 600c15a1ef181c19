"""Limits as administrators see them: budgets and quotas of the organisation and of its bases, with what is used of them.

A quota is checked where something is added (`check_quotas`), in the transaction that adds it and under the base's lock.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from gristmill.db import Tx
from gristmill.errors import Conflict
from gristmill.identity import OrgId
from gristmill.usage.store import queries

LimitKind = Literal["budget", "quota"]
Measure = Literal["chunks", "tokens", "money", "items", "bytes"]
Period = Literal["month", "total"]


class QuotaExceeded(Conflict):
    """A quota has no room for what is to be added."""

    code = "quota_exceeded"


@dataclass(frozen=True)
class NewLimit:
    """A limit to set, of an organisation or of one of its bases."""

    kind: LimitKind
    measure: Measure
    period: Period
    amount: Decimal
    base_id: UUID | None = None


@dataclass(frozen=True)
class UsageLimit:
    """A row of `usage_limit`."""

    id: UUID
    org_id: OrgId
    base_id: UUID | None
    kind: LimitKind
    measure: Measure
    period: Period
    amount: Decimal


@dataclass(frozen=True)
class LimitStatus:
    """A limit and what is used of it; `ends_at` is the end of its period."""

    id: UUID
    org_id: OrgId
    base_id: UUID | None
    base_name: str | None
    kind: LimitKind
    measure: Measure
    period: Period
    amount: Decimal
    used: Decimal
    reserved: Decimal
    ends_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class _Quota:
    measure: Measure
    amount: Decimal
    used: Decimal
    base_name: str | None


async def put_limit(tx: Tx, org: OrgId, new: NewLimit) -> UsageLimit:
    """Set a limit: a new one, or a new amount of the one of the same scope, measure and period."""
    return await queries.one(
        tx,
        UsageLimit,
        "put_limit",
        org=org,
        base=new.base_id,
        kind=new.kind,
        measure=new.measure,
        period=new.period,
        amount=new.amount,
    )


async def change_limit(tx: Tx, org: OrgId, limit_id: UUID, amount: Decimal) -> UsageLimit | None:
    """Change the amount of a limit."""
    return await queries.maybe(tx, UsageLimit, "change_limit", org=org, id=limit_id, amount=amount)


async def delete_limit(tx: Tx, org: OrgId, limit_id: UUID) -> UsageLimit | None:
    """Remove a limit; what it was."""
    return await queries.maybe(tx, UsageLimit, "delete_limit", org=org, id=limit_id)


async def find_limits(
    tx: Tx, org: OrgId, *, base: UUID | None = None, limit_id: UUID | None = None
) -> list[LimitStatus]:
    """The limits of an organisation; with `base`, those that limit this base."""
    return await queries.many(tx, LimitStatus, "limits_of", org=org, base=base, id=limit_id)


async def check_quotas(tx: Tx, base_id: UUID, sizes: Sequence[int | None]) -> None:
    """Raise QuotaExceeded unless the quotas of the base and its organisation have room for items of these sizes."""
    exceeded = await _find_exceeded_quota(tx, base_id, len(sizes), sum(size or 0 for size in sizes))
    if exceeded is not None:
        raise QuotaExceeded(_message(exceeded))


async def room_for_items(tx: Tx, base_id: UUID, sizes: Sequence[int | None]) -> tuple[int, str | None]:
    """How many of the first of these items the quotas have room for, and why not for more. For lists that are added as far as
    they fit, such as folders and connectors."""
    quotas = await queries.many(tx, _Quota, "quotas_of_base", base=base_id)
    left = {index: quota.amount - quota.used for index, quota in enumerate(quotas)}
    for count, size in enumerate(sizes):
        for index, quota in enumerate(quotas):
            need = {"items": 1, "bytes": size or 0}.get(quota.measure, 0)
            if left[index] < need or (quota.measure == "chunks" and left[index] <= 0):
                return count, _message(quota)
            left[index] -= need
    return len(sizes), None


async def items_over_quota(tx: Tx, base_id: UUID) -> tuple[int, str]:
    """How many new items of a base must not be indexed because a quota is exceeded, and why: some of them were filed before the
    quota was set or lowered, or are tried again."""
    for quota in await queries.many(tx, _Quota, "quotas_of_base", base=base_id):
        excess = quota.used - quota.amount
        if excess > 0 and quota.measure == "items":
            return int(excess), _message(quota)
        if excess > 0 or (excess == 0 and quota.measure == "chunks"):
            return sys.maxsize, _message(quota)
    return 0, ""


async def _find_exceeded_quota(tx: Tx, base_id: UUID, items: int, size: int) -> _Quota | None:
    for quota in await queries.many(tx, _Quota, "quotas_of_base", base=base_id):
        need = {"items": items, "bytes": size}.get(quota.measure, 0)
        if quota.used + need > quota.amount or (quota.measure == "chunks" and quota.used >= quota.amount):
            return quota
    return None


def _message(quota: _Quota) -> str:
    owner = "the organisation" if quota.base_name is None else f"the base {quota.base_name}"
    return (
        f"The quota of {owner} is reached: {quota.amount.normalize():,f} {quota.measure}, of which "
        f"{quota.used.normalize():,f} are used. Delete something, or ask an admin to raise the quota."
    )
