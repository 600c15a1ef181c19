"""The end of items: rows, versions, contents and blobs, in batches that each leave nothing dangling; and the
names in the blob store, each of which is used once."""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class RemovalCounts:
    """What one batch took away; `blobs` are on their way out of the store."""

    items: int
    contents: int
    blobs: int


@dataclass(frozen=True)
class _RemovedRows:
    items: int
    contents: list[bytes]
    blobs: list[bytes]


async def removable_items(tx: Tx, roots: Sequence[ItemId], limit: int) -> list[ItemId]:
    """Items of subtrees that are being deleted, and hold none; nothing when all are gone."""
    return await queries.values(tx, "to_remove", roots=list(roots), limit=limit)


async def childless_items(tx: Tx, base_id: BaseId, limit: int) -> list[ItemId]:
    """Items of a base that hold none, whatever their state; nothing when all are gone."""
    return await queries.values(tx, "items_of_base", base=base_id, limit=limit)


async def lock_items(tx: Tx, ids: Sequence[ItemId]) -> list[ItemId]:
    """Those of the items that are still there, ours alone until the transaction ends. Two removals may meet in a
    subtree: both lock first, and in the same order."""
    return await queries.values(tx, "lock_items", ids=list(ids))


async def remove_items(tx: Tx, ids: Sequence[ItemId]) -> RemovalCounts:
    """Remove items, which hold no others, with all that only they use."""
    removed = await queries.one(tx, _RemovedRows, "remove_items", ids=list(ids))
    contents, blobs = await _collect(tx, removed.contents)
    return RemovalCounts(removed.items, contents, await remove_unused_blobs(tx, [*removed.blobs, *blobs]))


async def collect_contents(tx: Tx, hashes: Sequence[bytes]) -> int:
    """Forget those of the contents that no version uses, with what they hold; how many.

    Locked first and looked at second: a look from before the lock would not see who began to use one meanwhile.
    """
    collected, blobs = await _collect(tx, hashes)
    await remove_unused_blobs_nowait(tx, blobs)
    return collected


async def _collect(tx: Tx, hashes: Sequence[bytes]) -> tuple[int, list[bytes]]:
    """How many contents are forgotten, and the blobs that they held."""
    locked = await queries.values(tx, "lock_contents", hashes=list(hashes)) if hashes else []
    if not locked:
        return 0, []
    blobs: list[bytes] = await queries.values(tx, "blobs_inside", hashes=locked)
    return await queries.run(tx, "collect_contents", hashes=locked), blobs


# ── blobs, and names in the store that are no blob's ─────────────────────────────────────────────────────


async def remove_unused_blobs(tx: Tx, hashes: Sequence[bytes]) -> int:
    """Have those of the blobs leave the store that nothing uses; how many. Locked first, looked at second."""
    locked = await queries.values(tx, "lock_blobs", hashes=list(hashes)) if hashes else []
    return await queries.run(tx, "doom_blobs", hashes=locked) if locked else 0


async def remove_unused_blobs_nowait(tx: Tx, hashes: Sequence[bytes]) -> int:
    """The same, without waiting: one that somebody is taking into use is left to a later collection. For
    transactions that take blobs into use themselves, which would else wait for each other."""
    locked = await queries.values(tx, "lock_free_blobs", hashes=list(hashes)) if hashes else []
    return await queries.run(tx, "doom_blobs", hashes=locked) if locked else 0


async def touch_blob(tx: Tx, digest: bytes) -> str | None:
    """Have a blob stay for a while though nothing uses it yet; its name in the store, None when it is not kept."""
    names = await queries.values(tx, "touch_blob", hash=digest)
    return names[0] if names else None


async def find_unused_blobs(tx: Tx) -> list[bytes]:
    """Blobs that were stored long ago, and that nothing uses."""
    return await queries.values(tx, "unused_blobs")


async def lock_blobs_shared(tx: Tx, hashes: Sequence[bytes]) -> bool:
    """Have these blobs stay until the transaction ends; False when one is not there."""
    expected = set(hashes)
    return not expected or set(await queries.values(tx, "hold_blobs", hashes=list(expected))) == expected


async def reserve_blob_name(tx: Tx, name: str) -> None:
    """Write down that bytes are about to get this name in the store: if nobody keeps them, they are removed."""
    await queries.run(tx, "announce_name", name=name)


async def register_blob(tx: Tx, digest: bytes, size: int, name: str) -> str | None:
    """Keep bytes that are in the store under an announced name; the name that they are kept under, which is another
    when equal bytes are kept already, and None when they were announced so long ago that they were given up. Unless
    they are kept under the announced name, that is doomed."""
    stored_name: str | None = None
    if await queries.values(tx, "claim_name", name=name):
        (stored_name,) = await queries.values(tx, "keep_blob", hash=digest, size=size, name=name)
    if stored_name != name:
        # Also when it was given up: it may have been taken out of the store before the bytes came in.
        await queries.run(tx, "doom_name", name=name)
    return stored_name


async def abandon_overdue_names(tx: Tx) -> None:
    """Give up names that were announced long ago."""
    await queries.run(tx, "doom_due")


async def find_abandoned_names(tx: Tx, limit: int) -> list[str]:
    """Names to take out of the store."""
    return await queries.values(tx, "doomed_names", limit=limit)


async def delete_abandoned_names(tx: Tx, names: Sequence[str]) -> None:
    """These are out of the store."""
    await queries.run(tx, "forget_names", names=list(names))
