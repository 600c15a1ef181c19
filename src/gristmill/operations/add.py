"""add: file new items in a base and queue their indexing.

    entries         an entry that no item can be made of is rejected with its error, the others go on
    probes          each source is probed first, outside the transaction: an item whose source can't be read now is
                    rejected with its error, the others go on
    transaction     lock the base, which must be open → check the parent → check the queue's capacity and the quotas → resolve
                    conflicts → insert rows → one job and one event a row; all of it or nothing

    when an item of the same type and path, address, name or title exists under the same parent:
        rename      both stay; the new one gets a number after its title
        skip        the old one stays
        replace     the old one gets the new contents; its old version stays searchable until they are indexed

Killed before the commit: nothing was added. Killed after: every row has its job.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import UUID, uuid4

from gristmill import catalog, contents, faults, jobs, usage
from gristmill.catalog import Base, BaseId, Item, ItemId, NewItem, exclusions, refresh
from gristmill.db import Database, Tx
from gristmill.errors import GristmillError, Transient, WorkError
from gristmill.jobs import Priority, QueueLimits
from gristmill.operations import freshness, guards
from gristmill.operations.freshness import FreshnessChoice
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events
from gristmill.operations.rename import enqueue_indexing
from gristmill.sources import Source

# Up to this many items are a request that a person waits for; more are an import.
INTERACTIVE_BATCH = 10

OnConflict = Literal["rename", "skip", "replace"]


@dataclass(frozen=True)
class ItemToAdd:
    """An item to add, the source to probe (None for an upload, which is stored already), its path, URL or name as the caller
    gave it, where that differs from the title, and how it is to be kept fresh."""

    item: NewItem
    source: Source | None
    path: str = ""
    freshness: FreshnessChoice = field(default_factory=FreshnessChoice)


@dataclass(frozen=True)
class InvalidEntry:
    """An entry of the request that no item can be made of: why, and its path, URL or name as the caller gave it."""

    path: str
    error: GristmillError


@dataclass(frozen=True)
class RejectedItem:
    """An item that can't be added, by its index in the request."""

    index: int
    path: str
    error: GristmillError


@dataclass(frozen=True)
class SkippedItem:
    """An item that exists already, by its index in the request."""

    index: int
    item_id: ItemId


@dataclass(frozen=True)
class AddResult:
    """The items that were filed, those that existed already, and those that were rejected."""

    created: list[Item]
    skipped: list[SkippedItem]
    failed: list[RejectedItem]
    released: list[bytes]  # blobs that replaced items no longer use
    cause: UUID  # carried by every event that follows from this request


async def add(
    db: Database,
    base_id: BaseId,
    entries: Sequence[ItemToAdd | InvalidEntry],
    limits: QueueLimits,
    *,
    parent_id: ItemId | None = None,
    on_conflict: OnConflict = "rename",
    on_filed: Callable[[Tx, Sequence[Item]], Awaitable[None]] | None = None,
) -> AddResult:
    """File the items whose sources can be read, and queue their indexing; the others are reported with their errors.
    `on_filed` records more about the filed items in the same transaction."""
    async with db.connection() as tx:
        await guards.require_base(tx, base_id)
    accepted, failed = await _probe_sources(entries)
    released: list[bytes | None] = []
    cause = uuid4()
    async with db.transaction() as tx:
        base = await guards.lock_open_base(tx, base_id)
        parent = await guards.require_container(tx, base, parent_id)
        await jobs.check_capacity(tx, base.lane, len(accepted), limits)
        await usage.check_quotas(tx, base.id, [item.size_bytes for _, item in accepted])
        if not await contents.lock_blobs_shared(
            tx, [item.blob for _, item in accepted if item.blob is not None]
        ):
            raise Transient(
                "An equal file was being deleted at the same moment. Upload the file again.",
                code="upload_lost",
            )
        container_id = parent.id if parent else None
        filed, skipped = await _file_items(tx, base, container_id, accepted, on_conflict, released, cause)
        created = [item for _, item in filed]
        await usage.name_caller(tx, cause)
        await catalog.touch_bases(tx, [base.id])
        if on_filed is not None:
            await on_filed(tx, created)
        await faults.point("add.rows_inserted")
        await freshness.begin_refreshing(tx, base, created)
        choices = _choices(entries, filed)
        await freshness.apply_choices(tx, choices)
        await exclusions.remove_exclusions_by_source(tx, base.id, [item for _, item in accepted])
        await enqueue_next_jobs(
            tx, base, created, Priority.INTERACTIVE if len(created) <= INTERACTIVE_BATCH else Priority.NORMAL
        )
        await catalog.derive_statuses_above(tx, [item.id for item in created[:1]])
        await record_filed_events(tx, created)
        if choices:  # the response shows them
            chosen = await refresh.items_with_freshness(tx, [item.id for item, _ in choices])
            created = [chosen.get(item.id, item) for item in created]
        await faults.point("add.before_commit")
    return AddResult(created, skipped, failed, [blob for blob in released if blob is not None], cause)


async def _probe_sources(
    entries: Sequence[ItemToAdd | InvalidEntry],
) -> tuple[list[tuple[int, NewItem]], list[RejectedItem]]:
    accepted: list[tuple[int, NewItem]] = []
    failed: list[RejectedItem] = []
    for index, entry in enumerate(entries):
        if isinstance(entry, InvalidEntry):
            failed.append(RejectedItem(index, entry.path, entry.error))
            continue
        try:
            size = entry.item.size_bytes if entry.source is None else await entry.source.probe()
        except WorkError as error:
            failed.append(RejectedItem(index, entry.path or entry.item.title, error))
        else:
            accepted.append((index, replace(entry.item, size_bytes=size)))
    return accepted, failed


async def _file_items(
    tx: Tx,
    base: Base,
    parent_id: ItemId | None,
    accepted: Sequence[tuple[int, NewItem]],
    on_conflict: OnConflict,
    released: list[bytes | None],
    cause: UUID,
) -> tuple[list[tuple[int, Item]], list[SkippedItem]]:
    """Insert or replace items. Returns what was filed, each with its index in the request, and what was skipped."""
    items = [item for _, item in accepted]
    indexes = [index for index, _ in accepted]
    if on_conflict == "rename":
        items = await _with_free_keys(tx, base, parent_id, items)
        inserted = await catalog.insert_items(tx, base.id, parent_id, items, cause=cause)
        return [*zip(indexes, inserted, strict=True)], []
    existing = await catalog.find_existing(tx, base.id, parent_id, items)
    # Of equal items within one request the first counts, or with replace the last.
    first = {_identity(item): place for place, item in reversed(list(enumerate(items)))}
    last = {_identity(item): place for place, item in enumerate(items)}
    chosen = set((last if on_conflict == "replace" else first).values())
    fresh = [place for place in sorted(chosen) if place not in existing]
    inserted: list[Item] = []
    if fresh:
        inserted = await catalog.insert_items(
            tx, base.id, parent_id, [items[place] for place in fresh], cause=cause
        )
    filed = [(indexes[place], item) for place, item in zip(fresh, inserted, strict=True)]
    if on_conflict == "replace":
        for place in sorted(chosen & existing.keys()):
            released.append(await catalog.item_blob_hash(tx, existing[place]))
            (before,) = await catalog.find_items(tx, [existing[place]])
            replaced = await catalog.replace_item(tx, existing[place], items[place], cause)
            if replaced is not None:
                filed.append((indexes[place], replaced))
                if replaced.title != before.title and not replaced.is_container:
                    await enqueue_indexing(tx, base, replaced)  # the contents may be the same
        return filed, []
    ids = {_identity(items[place]): item.id for place, item in zip(fresh, inserted, strict=True)}
    skipped = [
        SkippedItem(index, existing.get(place) or ids[_identity(item)])
        for place, (index, item) in enumerate(accepted)
        if place not in fresh
    ]
    return filed, skipped


def _choices(
    entries: Sequence[ItemToAdd | InvalidEntry], filed: Sequence[tuple[int, Item]]
) -> list[tuple[Item, FreshnessChoice]]:
    """How the filed items are to be kept fresh, those of them for which someone chose."""
    return [
        (item, entry.freshness)
        for index, item in filed
        if isinstance(entry := entries[index], ItemToAdd) and entry.freshness != FreshnessChoice()
    ]


async def _with_free_keys(
    tx: Tx, base: Base, parent_id: ItemId | None, items: Sequence[NewItem]
) -> list[NewItem]:
    """The items with keys that are free: where needed, a number is appended to title and key."""
    existing = await catalog.find_existing(tx, base.id, parent_id, items) if items else {}
    result = list(items)
    taken: set[tuple[str, str]] = set()
    conflicts: dict[tuple[str, str], list[int]] = {}
    for place, item in enumerate(items):
        if place in existing or _identity(item) in taken:
            conflicts.setdefault(_identity(item), []).append(place)
        else:
            taken.add(_identity(item))
    for places in conflicts.values():
        numbers = await _free_numbers(tx, base, parent_id, items[places[0]], len(places), taken)
        for place, number in zip(places, numbers, strict=True):
            result[place] = _with_number(items[place], number)
            taken.add(_identity(result[place]))
    return result


async def _free_numbers(
    tx: Tx, base: Base, parent_id: ItemId | None, item: NewItem, count: int, taken: set[tuple[str, str]]
) -> list[int]:
    """The first numbers that make the item's key free. Each query tries more of them, because thousands may have the
    same name."""
    free: list[int] = []
    start, width = 2, count + 8
    while len(free) < count:
        candidates = [_with_number(item, number) for number in range(start, start + width)]
        existing = await catalog.find_existing(tx, base.id, parent_id, candidates)
        free += [
            start + place
            for place, candidate in enumerate(candidates)
            if place not in existing and _identity(candidate) not in taken
        ]
        start, width = start + width, width * 4
    return free[:count]


def _with_number(item: NewItem, number: int) -> NewItem:
    suffix = f" ({number})"
    return replace(item, title=item.title + suffix, key=item.key + suffix)


def _identity(item: NewItem) -> tuple[str, str]:
    """Equal for items that count as the same under one parent."""
    return item.type, item.key
