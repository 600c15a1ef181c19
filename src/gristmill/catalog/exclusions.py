"""What people deleted from containers: their listings leave it out until someone adds it again or removes the exclusion.

It stays left out when it is moved: a file within its folder, by its fingerprint; a record, by the id that it has after a move.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import ItemId, NewItem
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class Exclusion:
    """A source that is left out of the container `root_id`: a path, an address or the id of a record."""

    id: UUID
    base_id: BaseId
    root_id: ItemId
    type: str
    source_key: str
    title: str
    created_at: datetime


async def exclude_items(tx: Tx, ids: Sequence[ItemId]) -> None:
    """Leave these items out of later listings, if listings or connector runs had found them. Call it before they are deleted."""
    await queries.run(tx, "exclude_items", ids=list(ids))


async def find_excluded(tx: Tx, root_id: ItemId, sources: Sequence[tuple[str, str]]) -> dict[int, str | None]:
    """Which of these sources, by type and key, are left out of a container that people added: their indexes, with the fingerprints
    that files had when they were last seen."""
    if not sources:
        return {}
    rows = await queries.many(
        tx,
        _ExcludedSource,
        "find_excluded",
        root=root_id,
        types=[kind for kind, _ in sources],
        keys=[key for _, key in sources],
    )
    return {row.place - 1: row.fingerprint for row in rows}


@dataclass(frozen=True)
class _ExcludedSource:
    place: int
    fingerprint: str | None


@dataclass(frozen=True)
class ExcludedFile:
    """A file that is left out, as it was when it was last seen."""

    id: UUID
    fingerprint: str
    path: str


async def find_excluded_files(tx: Tx, root_id: ItemId, fingerprints: Sequence[str]) -> list[ExcludedFile]:
    """Files with these fingerprints that are left out of a folder that people added."""
    return await queries.many(
        tx, ExcludedFile, "find_excluded_files", root=root_id, fingerprints=list(fingerprints)
    )


async def move_exclusions(tx: Tx, moved: Mapping[Path, ExcludedFile]) -> None:
    """Leave files out where they are now."""
    if moved:
        await queries.run(
            tx,
            "move_exclusions",
            ids=[file.id for file in moved.values()],
            paths=[str(path) for path in moved],
            titles=[path.name for path in moved],
            fingerprints=[file.fingerprint for file in moved.values()],
        )


async def note_excluded_changes(tx: Tx, root_id: ItemId, fingerprints: Mapping[str, str]) -> None:
    """Note the fingerprints, by path, that files which are left out have now: they may be moved later."""
    if fingerprints:
        await queries.run(
            tx,
            "note_excluded_changes",
            root=root_id,
            paths=list(fingerprints),
            fingerprints=list(fingerprints.values()),
        )


async def rename_excluded_records(tx: Tx, container: ItemId, new_keys: Mapping[str, str]) -> None:
    """Records that are left out of a container have other ids in their tool now, by the old ones."""
    await queries.run(
        tx,
        "rename_excluded_records",
        container=container,
        old_keys=list(new_keys),
        new_keys=list(new_keys.values()),
    )


async def list_exclusions(
    tx: Tx, base_id: BaseId, *, limit: int, after: UUID | None = None, container: UUID | None = None
) -> list[Exclusion]:
    """What is left out of the containers of a base, or of one of them, the oldest first."""
    return await queries.many(
        tx, Exclusion, "list_exclusions", base=base_id, limit=limit, after=after, container=container
    )


async def remove_exclusions(tx: Tx, base_id: BaseId, ids: Sequence[UUID] | None) -> list[Exclusion]:
    """Forget exclusions of a base: these, or all; those that existed."""
    return await queries.many(
        tx, Exclusion, "remove_exclusions", base=base_id, ids=None if ids is None else list(ids)
    )


async def remove_exclusions_by_source(tx: Tx, base_id: BaseId, items: Sequence[NewItem]) -> None:
    """Forget the exclusions of sources that people add again."""
    if items:
        await queries.run(
            tx,
            "remove_exclusions_by_source",
            base=base_id,
            types=[item.type for item in items],
            keys=[item.key for item in items],
        )


async def top_container(tx: Tx, item_id: ItemId) -> ItemId | None:
    """The container that people added, above a container or itself."""
    ids = await queries.values(tx, "top_container", id=item_id)
    return ids[0] if ids else None
