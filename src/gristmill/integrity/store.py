"""The named statements of the integrity checks: each finds rows that should not exist. None of them writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from gristmill.catalog import BaseId, ChunkSetId, ItemId
from gristmill.db import Queries, Tx
from gristmill.identity import OrgId

queries = Queries(__package__ or "gristmill.integrity")


@dataclass(frozen=True)
class FoundItem:
    """An item that a check found, and its base."""

    id: ItemId
    base_id: BaseId


@dataclass(frozen=True)
class UnanalysedItem(FoundItem):
    """An item with images that wait for a job that does not exist."""

    version: int


# ── items and bases ──────────────────────────────────────────────────────────────────────────────────────


async def find_underived_containers(tx: Tx, base_id: BaseId | None, limit: int) -> list[FoundItem]:
    """Listed containers whose status does not follow from their children."""
    return await queries.many(tx, FoundItem, "find_underived_containers", base=base_id, limit=limit)


async def find_unremoved_roots(tx: Tx, base_id: BaseId | None, limit: int) -> list[FoundItem]:
    """Roots of subtrees that are being deleted, without a job that removes them."""
    return await queries.many(tx, FoundItem, "find_unremoved_roots", base=base_id, limit=limit)


async def find_unanalysed_items(tx: Tx, base_id: BaseId | None, limit: int) -> list[UnanalysedItem]:
    """Items with images that wait to be described, without a job that does."""
    return await queries.many(tx, UnanalysedItem, "find_unanalysed_items", base=base_id, limit=limit)


async def find_items_with_two_jobs(tx: Tx, limit: int) -> list[UUID]:
    """Items that two living jobs would move on."""
    return await queries.values(tx, "find_items_with_two_jobs", limit=limit)


async def find_unremoved_bases(tx: Tx, limit: int) -> list[BaseId]:
    """Bases that are being deleted, without a job that removes them."""
    return await queries.values(tx, "find_unremoved_bases", limit=limit)


async def find_unannounced_bases(tx: Tx, limit: int) -> list[BaseId]:
    """Bases without active items that were not announced as ready."""
    return await queries.values(tx, "find_unannounced_bases", limit=limit)


# ── chunks, contents and blobs ───────────────────────────────────────────────────────────────────────────


async def find_incomplete_items(tx: Tx, limit: int) -> list[UUID]:
    """Items whose chunks are not exactly those of their live version."""
    return await queries.values(tx, "find_incomplete_items", limit=limit)


async def find_leftover_items(tx: Tx, limit: int) -> list[UUID]:
    """Items that do not exist any more, but chunks of them do."""
    return await queries.values(tx, "find_leftover_items", limit=limit)


async def find_leftover_bases(tx: Tx, limit: int) -> list[BaseId]:
    """Bases with chunks of versions that were never published, or of items that do not exist any more."""
    return await queries.values(tx, "find_leftover_bases", limit=limit)


async def find_outdated_sets(tx: Tx, limit: int) -> list[ChunkSetId]:
    """Sets of chunks that lack something and don't know it."""
    return await queries.values(tx, "find_outdated_sets", limit=limit)


async def find_leftover_sets(tx: Tx, limit: int) -> list[ChunkSetId]:
    """Sets of chunks that belong to no base."""
    return await queries.values(tx, "find_leftover_sets", limit=limit)


async def find_unused_contents(tx: Tx, limit: int) -> list[bytes]:
    """Contents older than an hour that no version uses."""
    return await queries.values(tx, "find_unused_contents", limit=limit)


async def find_unused(tx: Tx, limit: int) -> list[str]:
    """Contents, blobs and names in the store that nothing has used for an hour, in words."""
    return await queries.values(tx, "find_unused", limit=limit)


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────


async def find_orphan_runs(tx: Tx, limit: int) -> list[UUID]:
    """Open runs of connectors that no living job makes."""
    return await queries.values(tx, "find_orphan_runs", limit=limit)


async def filter_by_organisation(tx: Tx, ids: Sequence[Any], org: OrgId) -> list[UUID]:
    """Those of these items, bases and runs that belong to an organisation."""
    return await queries.values(tx, "filter_by_organisation", ids=list(ids), org=org)


async def is_thorough_pass_due(tx: Tx, kind: str) -> bool:
    """Whether the reconciler has made no thorough pass for an hour."""
    return (await queries.values(tx, "is_thorough_pass_due", kind=kind))[0]


async def schema_number(tx: Tx) -> int:
    """The number of the last migration that was applied."""
    return (await queries.values(tx, "schema_number"))[0]


async def find_recently_ingested_bases(tx: Tx, within: timedelta, limit: int) -> list[BaseId]:
    """Bases that became ready within a time."""
    return await queries.values(tx, "find_recently_ingested_bases", within=within, limit=limit)
