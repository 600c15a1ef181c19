"""When the sources of items are checked: schedules, what is due, and the outcome of checks, in the caller's transaction.

The rules themselves are in `operations/refresh_rule.py`. A schedule is a row of a narrow table: a check that finds no change
updates that row, a whole batch in one statement, and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from psycopg.types.json import Jsonb

from gristmill.catalog.base import BaseId, RenderChoice
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx

RefreshOrigin = Literal["item", "container", "base"]


@dataclass(frozen=True)
class ItemRefresh:
    """When an item's source is checked, and how the last check ended. `origin` is who sets the rule."""

    item_id: ItemId
    rule: dict[str, Any]
    origin: RefreshOrigin
    next_at: datetime | None
    unchanged: int
    checked_at: datetime | None
    error_code: str | None
    error_message: str | None


@dataclass(frozen=True)
class FirstCheck:
    """A rule, and when the first check by it is due: after `delay`, and at a random time within `spread` from then. None: never."""

    rule: Mapping[str, Any]
    delay: timedelta | None
    spread: timedelta


@dataclass(frozen=True)
class DueItem:
    """An item whose source is to be checked, with what is known of the last reading."""

    id: ItemId
    type: str
    status: str
    source: dict[str, Any]
    error_code: str | None
    fingerprint: str | None
    parent_id: ItemId | None
    rule: dict[str, Any]
    unchanged: int
    validators: dict[str, str] | None = None
    original: bytes | None = None
    render: RenderChoice | None = None  # pages: its own choice, or its container's; None: its base's

    @classmethod
    def of(cls, item: Item, schedule: ItemRefresh) -> Self:
        """An item that is checked though it may not be due."""
        return cls(
            item.id,
            item.type,
            item.status,
            item.source,
            item.error_code,
            None,
            item.parent_id,
            schedule.rule,
            schedule.unchanged,
        )


@dataclass(frozen=True)
class SourceCheck:
    """The outcome of a check, and when the next one is due; None: never."""

    item_id: ItemId
    next_in: timedelta | None
    unchanged: int
    error_code: str | None = None
    error_message: str | None = None


async def database_time(tx: Tx) -> datetime:
    """The time by the database's clock."""
    return (await queries.values(tx, "database_time"))[0]


async def set_base_refresh(tx: Tx, base_id: BaseId, first: FirstCheck | None) -> None:
    """Change the rule of a base, for every item in it that inherits it. None: nothing is checked by itself."""
    rule = None if first is None else Jsonb(dict(first.rule))
    await queries.values(tx, "set_base_refresh", id=base_id, rule=rule)
    if first is None:
        await queries.run(tx, "unschedule_base", base=base_id)
    else:
        await queries.run(tx, "reschedule_base", base=base_id, **_parameters(first))


async def schedule_checks(
    tx: Tx, ids: Sequence[ItemId], first: FirstCheck, origin: RefreshOrigin = "base"
) -> None:
    """Schedule the first checks of new items."""
    if ids:
        await queries.run(tx, "schedule_checks", ids=list(ids), origin=origin, **_parameters(first))


async def set_item_refresh(
    tx: Tx, ids: Sequence[ItemId], first: FirstCheck | None, origin: RefreshOrigin = "item"
) -> None:
    """Change the rule of items; None ends their checks."""
    if first is None:
        await queries.run(tx, "drop_item_refresh", ids=list(ids))
    else:
        await queries.run(tx, "set_item_refresh", ids=list(ids), origin=origin, **_parameters(first))


async def items_with_freshness(tx: Tx, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
    """Items by their ids, with how they are kept fresh."""
    return {item.id: item for item in await queries.many(tx, Item, "items_with_freshness", ids=list(ids))}


async def inheriting_pages(tx: Tx, parent_id: ItemId) -> list[ItemId]:
    """The pages of a container that have no rule of their own."""
    return await queries.values(tx, "inheriting_pages", parent=parent_id)


async def run_checks_now(tx: Tx, ids: Sequence[ItemId]) -> int:
    """Make the next checks of items due; how many have a schedule."""
    return len(await queries.values(tx, "run_checks_now", ids=list(ids)))


async def find_refreshes(tx: Tx, ids: Sequence[ItemId]) -> dict[ItemId, ItemRefresh]:
    """The schedules of those items that have one."""
    rows = await queries.many(tx, ItemRefresh, "find_refreshes", ids=list(ids))
    return {row.item_id: row for row in rows}


async def find_due_bases(tx: Tx) -> list[BaseId]:
    """Bases with an item whose source is to be checked now."""
    return await queries.values(tx, "find_due_bases")


async def find_due_items(
    tx: Tx, base_id: BaseId, *, containers: bool, limit: int, ids: Sequence[ItemId] | None = None
) -> list[DueItem]:
    """Documents or containers of a base whose sources are to be checked now, or those of them with these ids; the longest due
    first."""
    return await queries.many(
        tx,
        DueItem,
        "find_due_items",
        base=base_id,
        containers=containers,
        limit=limit,
        ids=None if ids is None else list(ids),
    )


async def record_checks(tx: Tx, checks: Sequence[SourceCheck]) -> None:
    """Record checks and when the next ones are due, unless another schedule was set in the meantime."""
    if checks:
        await queries.run(
            tx,
            "record_checks",
            ids=[check.item_id for check in checks],
            delays=[check.next_in.total_seconds() if check.next_in else None for check in checks],
            unchanged=[check.unchanged for check in checks],
            codes=[check.error_code for check in checks],
            messages=[check.error_message for check in checks],
        )


async def set_fingerprints(tx: Tx, fingerprints: Mapping[ItemId, str]) -> None:
    """Record the fingerprints of files whose new versions are requested in the same transaction."""
    if fingerprints:
        await queries.run(
            tx, "set_fingerprints", ids=list(fingerprints), fingerprints=list(fingerprints.values())
        )


def _parameters(first: FirstCheck) -> dict[str, Any]:
    return {"rule": Jsonb(dict(first.rule)), "delay": first.delay, "spread": first.spread}
