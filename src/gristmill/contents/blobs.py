"""Blobs: bytes in the object store, known by their hash; and the names that bytes have there, each used once.

    () ── reserve_blob_name ──▶ pending ── register_blob ──▶ the name of a blob
                                   │                             │
                                   └── a day later ──▶ deleting ◀┘ nothing uses the blob
                                                          │
                                                          └── out of the store: drop_deleting_names ──▶ ()

Bytes are put into the store after their name is reserved and before they are registered, so a process killed in between
leaves a name that is deleted later.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.catalog import ItemId
from gristmill.contents.store import queries
from gristmill.db import Tx

# ── use ──────────────────────────────────────────────────────────────────────────────────────────────────


async def blob_name(tx: Tx, digest: bytes) -> str | None:
    """The name of a blob in the store."""
    names = await queries.values(tx, "blob_name", hash=digest)
    return names[0] if names else None


async def item_blob_name(tx: Tx, item_id: ItemId) -> str | None:
    """The name of an uploaded file's bytes in the store."""
    names = await queries.values(tx, "item_blob_name", id=item_id)
    return names[0] if names else None


@dataclass(frozen=True)
class _ItemBlob:
    id: ItemId
    name: str


async def item_blob_names(tx: Tx, ids: Sequence[ItemId]) -> dict[ItemId, str]:
    """The names of uploaded files' bytes in the store, for those of the items that are uploads."""
    return {row.id: row.name for row in await queries.many(tx, _ItemBlob, "item_blob_names", ids=list(ids))}


async def touch_blob(tx: Tx, digest: bytes) -> str | None:
    """Protect a blob from collection for a while, though nothing uses it yet; its name, None when there is none."""
    names = await queries.values(tx, "touch_blob", hash=digest)
    return names[0] if names else None


async def lock_blobs_shared(tx: Tx, hashes: Sequence[bytes]) -> bool:
    """Protect these blobs from removal until the transaction ends; False when one does not exist."""
    expected = set(hashes)
    return (
        not expected or set(await queries.values(tx, "lock_blobs_shared", hashes=list(expected))) == expected
    )


# ── storing ──────────────────────────────────────────────────────────────────────────────────────────────


async def reserve_blob_name(tx: Tx, name: str) -> None:
    """Note that bytes are about to get this name in the store; if they are not registered, they are deleted."""
    await queries.run(tx, "reserve_blob_name", name=name)


async def register_blob(tx: Tx, digest: bytes, size: int, name: str) -> str | None:
    """Make a blob of bytes that are in the store under a reserved name; the name that the blob has.

    That is another name when a blob of equal bytes exists, and None when the reservation has expired. Then the reserved
    name is marked for deletion.
    """
    stored_name: str | None = None
    if await queries.values(tx, "claim_blob_name", name=name):
        (stored_name,) = await queries.values(tx, "register_blob", hash=digest, size=size, name=name)
    if stored_name != name:
        # Also when the reservation expired: the name may have been deleted before the bytes arrived.
        await queries.run(tx, "mark_name_deleting", name=name)
    return stored_name


# ── collection ───────────────────────────────────────────────────────────────────────────────────────────


async def find_unused_blobs(tx: Tx) -> list[bytes]:
    """Blobs that were stored a while ago and that nothing uses."""
    return await queries.values(tx, "find_unused_blobs")


async def remove_unused_blobs(tx: Tx, hashes: Sequence[bytes]) -> int:
    """Delete those of the blobs that nothing uses, and mark their names for deletion; how many.

    Two statements: what the second sees is newer than the locks of the first.
    """
    locked = await queries.values(tx, "lock_blobs", hashes=list(hashes)) if hashes else []
    return await queries.run(tx, "delete_unused_blobs", hashes=locked) if locked else 0


async def remove_unused_blobs_nowait(tx: Tx, hashes: Sequence[bytes]) -> int:
    """The same, but pass over blobs that another transaction has locked; a later collection finds them.

    For transactions that start to use blobs themselves: two of them would otherwise deadlock.
    """
    locked = await queries.values(tx, "lock_blobs_skip_locked", hashes=list(hashes)) if hashes else []
    return await queries.run(tx, "delete_unused_blobs", hashes=locked) if locked else 0


async def mark_overdue_names(tx: Tx) -> None:
    """Mark names for deletion that were reserved long ago and never registered."""
    await queries.run(tx, "mark_overdue_names")


async def find_deleting_names(tx: Tx, limit: int) -> list[str]:
    """Names to delete from the store."""
    return await queries.values(tx, "find_deleting_names", limit=limit)


async def drop_deleting_names(tx: Tx, names: Sequence[str]) -> None:
    """Drop names that are deleted from the store."""
    await queries.run(tx, "drop_deleting_names", names=list(names))


# ── back-ups ─────────────────────────────────────────────────────────────────────────────────────────────


async def lock_byte_removal(tx: Tx) -> None:
    """Let no bytes leave the store until the transaction ends. Deletions wait for it, so hold it for a moment only."""
    await queries.run(tx, "lock_byte_removal")


async def lock_byte_removal_shared(tx: Tx) -> None:
    """Take the right to remove bytes from the store; waits for a back-up that lists them. It is the connection's, so that no
    transaction is open while the store works: give it back with `unlock_byte_removal_shared`."""
    await queries.run(tx, "lock_byte_removal_shared")


async def unlock_byte_removal_shared(tx: Tx) -> None:
    """Give the right to remove bytes back."""
    await queries.run(tx, "unlock_byte_removal_shared")


async def names_in_store(tx: Tx) -> list[str]:
    """All names whose bytes may be in the store, also those that are about to be deleted."""
    return await queries.values(tx, "names_in_store")
