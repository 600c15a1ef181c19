"""Questions and changes of folders whose files are compared with the disk, in the caller's transaction.

A fingerprint is what the operating system says of a file without reading it (`sources/directory.py`). A path with an equal one
has not changed; a new path with the fingerprint of a file whose path is gone is that file, moved.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class ListedChild:
    """An item that a listing filed, as far as a comparison with its source needs it. Of a folder that is being listed, not
    everything is filed."""

    id: ItemId
    parent_id: ItemId
    type: str
    source_key: str
    fingerprint: str | None
    status: str
    error_code: str | None
    is_being_listed: bool


@dataclass(frozen=True)
class KnownFolder:
    """A folder of the tree; while it is being listed, `expanded_version` is below `wanted_version`."""

    id: ItemId
    parent_id: ItemId | None
    source_key: str
    wanted_version: int
    expanded_version: int


@dataclass(frozen=True)
class FileAtPath:
    """A file with a known fingerprint, and where it was listed."""

    id: ItemId
    fingerprint: str
    path: str


@dataclass(frozen=True)
class FileMove:
    """A file that is at another place now."""

    id: ItemId
    parent_id: ItemId
    title: str
    path: str
    fingerprint: str
    listed_version: int


@dataclass(frozen=True)
class MovedItem:
    """A file that was moved, where it was before, and whether it has another name."""

    id: ItemId
    old_parent: ItemId
    is_renamed: bool


async def find_listed_children(tx: Tx, parents: Sequence[ItemId]) -> list[ListedChild]:
    """What listings have filed in containers."""
    return await queries.many(tx, ListedChild, "find_listed_children", parents=list(parents))


async def find_listed_by_key(
    tx: Tx, base_id: BaseId, places: Sequence[tuple[ItemId, str]]
) -> list[ListedChild]:
    """Which of these paths are filed below their parents."""
    return await queries.many(
        tx,
        ListedChild,
        "find_listed_by_key",
        base=base_id,
        parents=[parent for parent, _ in places],
        keys=[key for _, key in places],
    )


async def find_folders(tx: Tx, base_id: BaseId, places: Sequence[tuple[ItemId, str]]) -> list[KnownFolder]:
    """The folders of these paths below their parents."""
    return await queries.many(
        tx,
        KnownFolder,
        "find_folders",
        base=base_id,
        parents=[parent for parent, _ in places],
        keys=[key for _, key in places],
    )


async def find_folder(tx: Tx, item_id: ItemId) -> KnownFolder | None:
    """A folder of the tree, unless it is being deleted."""
    return await queries.maybe(tx, KnownFolder, "find_folder", id=item_id)


async def find_any_fingerprint(tx: Tx, item_id: ItemId) -> str | None:
    """The fingerprint of any file below a folder."""
    fingerprints = await queries.values(tx, "find_any_fingerprint", id=item_id)
    return fingerprints[0] if fingerprints else None


async def find_by_fingerprint(tx: Tx, root: Item, fingerprints: Sequence[str]) -> list[FileAtPath]:
    """Files of a folder that people added with these fingerprints. The same files may be filed in another one, too."""
    return await queries.many(
        tx,
        FileAtPath,
        "find_by_fingerprint",
        base=root.base_id,
        root=root.id,
        fingerprints=list(fingerprints),
    )


async def move_items(tx: Tx, moves: Sequence[FileMove]) -> list[MovedItem]:
    """Put files at their new places, with the access lists that apply there; those that still exist as they were."""
    if not moves:
        return []
    moved = await queries.many(
        tx,
        MovedItem,
        "move_items",
        ids=[move.id for move in moves],
        parents=[move.parent_id for move in moves],
        titles=[move.title for move in moves],
        paths=[move.path for move in moves],
        fingerprints=[move.fingerprint for move in moves],
        listed_versions=[move.listed_version for move in moves],
    )
    await queries.run(tx, "inherit_acls", ids=[move.id for move in moved])
    return moved
