"""Conversions in progress at file processors: what is known of each between two checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from gristmill.catalog import ItemId
from gristmill.contents.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class ConversionRow:
    """A row of `conversion`; without a remote id it is being started."""

    item_id: ItemId
    version: int
    processor: str
    remote_id: str | None = None
    checks: int = 0
    waited: timedelta = timedelta(0)
    progress: float = 0.0
    position: int | None = None


async def find_conversion(tx: Tx, item_id: ItemId, version: int) -> ConversionRow | None:
    """The conversion of a version of an item."""
    return await queries.maybe(tx, ConversionRow, "find_conversion", item=item_id, version=version)


async def save_conversion(tx: Tx, row: ConversionRow) -> None:
    """Save the state of a conversion."""
    await queries.run(
        tx,
        "save_conversion",
        item=row.item_id,
        version=row.version,
        processor=row.processor,
        remote_id=row.remote_id,
        checks=row.checks,
        waited=row.waited,
        progress=row.progress,
        position=row.position,
    )


async def drop_conversions(
    tx: Tx, ids: Sequence[ItemId], *, version: int | None = None
) -> list[ConversionRow]:
    """Drop the conversions of items, for one version or for all; the dropped rows."""
    return await queries.many(tx, ConversionRow, "drop_conversions", ids=list(ids), version=version)


async def orphan_conversions(tx: Tx, limit: int) -> list[ItemId]:
    """Items with conversions that no job checks."""
    return await queries.values(tx, "orphan_conversions", limit=limit)
