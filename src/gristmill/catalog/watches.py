"""Folders that are watched, and which worker watches each: a lease, like that of a job.

waiting ── claim ──▶ watching ── its worker stops, or its lease expires ──▶ claimed by another
   └── no worker can ──▶ unavailable, with the reason; tried again
off         the user does not want it
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class FolderWatch:
    """Whether a folder is watched, and if not, why."""

    item_id: ItemId
    wanted: bool | None
    state: str
    reason_code: str | None
    reason: str | None


@dataclass(frozen=True)
class FreeWatch:
    """A folder that should be watched, and that no worker watches."""

    item_id: ItemId
    base_id: BaseId
    source: dict[str, Any]
    wanted: bool | None
    state: str
    reason_code: str | None


async def begin_watch(tx: Tx, item_id: ItemId) -> None:
    """Watch a new folder if that is cheap. One that is added again keeps what was wanted of it."""
    await queries.run(tx, "begin_watch", id=item_id)


async def want_watch(tx: Tx, item_id: ItemId, wanted: bool | None) -> None:
    """Set whether a folder is watched; None: if that is cheap."""
    await queries.run(tx, "want_watch", id=item_id, wanted=wanted)


async def find_watches(tx: Tx, ids: Sequence[ItemId]) -> dict[ItemId, FolderWatch]:
    """The watches of those items that are folders which people added."""
    rows = await queries.many(tx, FolderWatch, "find_watches", ids=list(ids))
    return {row.item_id: row for row in rows}


async def find_free_watches(tx: Tx, limit: int, refused: Collection[ItemId] = ()) -> list[FreeWatch]:
    """Folders that should be watched, and that no worker watches, except for these."""
    return await queries.many(tx, FreeWatch, "find_free_watches", limit=limit, **{"except": list(refused)})


async def claim_watch(tx: Tx, item_id: ItemId, owner: UUID, lease: timedelta) -> bool:
    """Give the watch of a folder to a worker; False when another one has it."""
    return bool(await queries.values(tx, "claim_watch", id=item_id, owner=owner, lease=lease))


async def renew_watches(tx: Tx, ids: Sequence[ItemId], owner: UUID, lease: timedelta) -> set[ItemId]:
    """Renew the leases of a worker; the folders that it still watches."""
    return set(await queries.values(tx, "renew_watches", ids=list(ids), owner=owner, lease=lease))


async def fence_watch(tx: Tx, item_id: ItemId, owner: UUID) -> bool:
    """Whether a worker has the watch of a folder, until the transaction ends."""
    return bool(await queries.values(tx, "fence_watch", id=item_id, owner=owner))


async def release_watches(tx: Tx, ids: Sequence[ItemId], owner: UUID) -> None:
    """Free the folders of a worker that stops."""
    if ids:
        await queries.run(tx, "release_watches", ids=list(ids), owner=owner)


async def refuse_watch(tx: Tx, item_id: ItemId, code: str, reason: str) -> None:
    """Record why a folder can't be watched."""
    await queries.run(tx, "refuse_watch", id=item_id, code=code, reason=reason)
