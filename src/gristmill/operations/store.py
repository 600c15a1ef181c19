"""The named statements of the operations: questions about items and their jobs that no single package can answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from gristmill.catalog import BaseId, ItemId
from gristmill.db import Queries, Tx

queries = Queries(__package__ or "gristmill.operations")


@dataclass(frozen=True)
class StuckItem:
    """An active item that no job will move on."""

    id: ItemId
    base_id: BaseId


async def find_stuck_items(tx: Tx, base_id: BaseId | None, limit: int) -> list[StuckItem]:
    """Active items without a living job, of one base or of all."""
    return await queries.many(tx, StuckItem, "find_stuck_items", base=base_id, limit=limit)


async def find_parked_items(tx: Tx, base_id: BaseId, limit: int) -> list[ItemId]:
    """Items whose indexing was interrupted in a base that does not resume by itself."""
    return await queries.values(tx, "find_parked_items", base=base_id, limit=limit)


async def find_running_for_deleted(tx: Tx, lane: str) -> Sequence[UUID]:
    """Items being deleted that running jobs of a lane still work on."""
    return await queries.values(tx, "find_running_for_deleted", lane=lane)


async def find_waiting_for_deleted(tx: Tx, lane: str, limit: int) -> Sequence[UUID]:
    """Items being deleted that jobs of a lane wait to work on."""
    return await queries.values(tx, "find_waiting_for_deleted", lane=lane, limit=limit)


async def find_busy_items(tx: Tx, ids: Sequence[ItemId]) -> list[ItemId]:
    """One of the items that living jobs are about; none if there is none."""
    return await queries.values(tx, "find_busy_items", ids=list(ids))


async def find_living_jobs(tx: Tx, lane: str, kind: str) -> Sequence[UUID]:
    """The living jobs of a kind in a lane."""
    return await queries.values(tx, "find_living_jobs", lane=lane, kind=kind)


async def find_dead_for_deleted(tx: Tx, lane: str) -> Sequence[UUID]:
    """Items being deleted that dead jobs of a lane are about."""
    return await queries.values(tx, "find_dead_for_deleted", lane=lane)
