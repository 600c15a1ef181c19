"""The tasks of bases in a search engine: changes not yet applied to it. One function per statement, in the caller's
transaction.

    put         chunks of a version: written with the chunks, closed when the engine has them; a version with an open one is
                not published
    relabel     an item's labels have changed (a trigger)
    remove      chunks were deleted, and their numbers recorded (a trigger)
    drop        the base is gone
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from gristmill.catalog import Base, BaseId, ItemId
from gristmill.db import Tx
from gristmill.search.index.engine import Labels, metadata_tokens
from gristmill.search.literals import number_array
from gristmill.search.scope import Scope
from gristmill.search.segment import ChunkText
from gristmill.search.store import Vector, queries

_MAX_BASES = 1_000
_MAX_RECENT = 1_000  # items that changed lately
_LONGEST_PUBLICATION = timedelta(seconds=5)  # from when it notes the time to when others see it


@dataclass(frozen=True)
class PutTask:
    """Chunks of one version that the engine may lack."""

    id: int
    item_id: ItemId
    version: int
    first_no: int
    last_no: int


@dataclass(frozen=True)
class NumberedVersion:
    """The numbers that the chunks of one version got."""

    item_id: UUID
    version: int
    nos: Sequence[int]


async def open_puts(tx: Tx, base_id: UUID, versions: Sequence[NumberedVersion]) -> list[PutTask]:
    """Note that the engine has to get these chunks; a task for each version."""
    return await queries.many(
        tx,
        PutTask,
        "open_puts",
        base=base_id,
        items=[version.item_id for version in versions],
        versions=[version.version for version in versions],
        first_nos=[min(version.nos) for version in versions],
        last_nos=[max(version.nos) for version in versions],
    )


async def add_languages(tx: Tx, base_id: UUID, languages: Sequence[str]) -> None:
    """Note the languages of texts of a base."""
    await queries.run(tx, "add_languages", base=base_id, languages=list(languages))


async def languages(tx: Tx, base_id: UUID) -> frozenset[str]:
    """The languages of a base's texts."""
    return frozenset(await queries.values(tx, "languages", base=base_id))


async def sample_texts(tx: Tx, set_id: UUID, size: int) -> list[str]:
    """The beginnings of chunks of a set, evenly from the first to the last."""
    return await queries.values(tx, "sample_texts", set=set_id, size=size)


async def close(tx: Tx, ids: Sequence[int]) -> None:
    """Delete tasks that are done."""
    if ids:
        await queries.run(tx, "close_tasks", ids=list(ids))


async def puts_of_version(tx: Tx, item_id: ItemId, version: int) -> list[PutTask]:
    """The chunks of a version that the engine may lack."""
    return await queries.many(tx, PutTask, "puts_of_version", item=item_id, version=version)


async def find_unindexed(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> set[ItemId]:
    """The items of those versions of which the engine may lack chunks."""
    return set(
        await queries.values(
            tx,
            "unindexed_versions",
            items=[item for item, _ in versions],
            versions=[version for _, version in versions],
        )
    )


async def forget_puts(tx: Tx, item_id: UUID, version: int | None = None) -> None:
    """Forget the chunks of a version that was discarded, or of all versions that are not live."""
    await queries.run(tx, "forget_puts", item=item_id, version=version)


async def forget_stale_puts(tx: Tx, base_id: BaseId) -> None:
    """Forget chunks of versions that are neither live nor wanted any more."""
    await queries.run(tx, "forget_stale_puts", base=base_id)


async def chunks_of_put(tx: Tx, task: PutTask) -> tuple[list[ChunkText], list[Vector]]:
    """The texts and vectors of a task's chunks, in the order of their numbers."""
    return await _read_chunks(
        tx,
        "chunks_of_put",
        item=task.item_id,
        version=task.version,
        first_no=task.first_no,
        last_no=task.last_no,
    )


async def _read_chunks(tx: Tx, name: str, **parameters: Any) -> tuple[list[ChunkText], list[Vector]]:
    async with tx.cursor() as cursor:
        await cursor.execute(queries[name], parameters)
        rows = await cursor.fetchall()
    return [ChunkText(*row[:5]) for row in rows], [
        np.array(row[5].strip("[]").split(","), np.float32) for row in rows
    ]


@dataclass(frozen=True)
class _LabelRow:
    id: ItemId
    is_base_list: bool
    acl: list[str] | None
    type: str
    metadata: dict[str, Any]
    ancestors: list[ItemId]


async def labels(tx: Tx, items: Sequence[ItemId]) -> Mapping[ItemId, Labels]:
    """The labels of items by the tables; not of items that are gone."""
    rows = await queries.many(tx, _LabelRow, "labels", items=list(dict.fromkeys(items)))
    return {
        row.id: Labels(
            None if row.is_base_list else tuple(row.acl or ()),
            tuple(row.ancestors),
            row.type,
            metadata_tokens(row.metadata),
        )
        for row in rows
    }


# ── what is to be done for a base ────────────────────────────────────────────────────────────────────────


async def bases_with_tasks(tx: Tx) -> list[BaseId]:
    """Bases with tasks that no document's own job does."""
    return await queries.values(tx, "bases_with_tasks", limit=_MAX_BASES)


async def removals(tx: Tx, base_id: BaseId) -> list[int]:
    """The tasks that say that chunks of a base were deleted."""
    return await queries.values(tx, "removals", base=base_id)


async def numbers_to_remove(tx: Tx, set_id: UUID, limit: int) -> list[int]:
    """Numbers of deleted chunks that the engine may still have."""
    return await queries.values(tx, "numbers_to_remove", set=set_id, limit=limit)


async def forget_removed(tx: Tx, set_id: UUID, nos: Sequence[int]) -> None:
    """Forget deleted chunks that the engine no longer has."""
    await queries.run(tx, "forget_deleted", set=set_id, nos=list(nos))


@dataclass(frozen=True)
class RelabelTask:
    """An item whose labels have changed."""

    id: int
    item_id: ItemId


async def relabels(tx: Tx, base_id: BaseId, limit: int) -> list[RelabelTask]:
    """Items whose labels have changed, oldest change first."""
    return await queries.many(tx, RelabelTask, "relabels", base=base_id, limit=limit)


async def live_puts(tx: Tx, base_id: BaseId, limit: int) -> list[PutTask]:
    """Chunks of live versions that the engine may lack."""
    return await queries.many(tx, PutTask, "live_puts", base=base_id, limit=limit)


async def existing_numbers(tx: Tx, base_id: BaseId, nos: Sequence[int]) -> set[int]:
    """Those of the numbers that are chunks of the base."""
    return set(await queries.values(tx, "existing_numbers", base=base_id, nos=list(nos)))


async def last_number(tx: Tx, base_id: BaseId) -> int:
    """The highest number of a chunk of a base; 0 if it has none."""
    return (await queries.values(tx, "last_number", base=base_id))[0] or 0


async def open_missing_puts(tx: Tx, base_id: BaseId, nos: Sequence[int], *, after: int, until: int) -> int:
    """Note that the engine has to get the live chunks after one number and until another that are not in `nos`; of how many
    versions."""
    return len(
        await queries.values(tx, "open_missing_puts", base=base_id, nos=list(nos), after=after, until=until)
    )


async def bases_in_engine(tx: Tx, after: UUID, limit: int) -> list[BaseId]:
    """Bases in a search engine, in the order of their ids."""
    return await queries.values(tx, "bases_in_engine", after=after, limit=limit)


@dataclass(frozen=True)
class DropTask:
    """A base that is gone; `is_old` once no worker can still know of it."""

    id: int
    base_id: BaseId
    is_old: bool


async def drops(tx: Tx) -> list[DropTask]:
    """Bases that are gone."""
    return await queries.many(tx, DropTask, "drops")


@dataclass(frozen=True)
class TaskCount:
    """How many tasks of a kind are open, and the age of the oldest in seconds."""

    kind: str
    tasks: int
    age: float


async def counts(tx: Tx) -> list[TaskCount]:
    """The open tasks by kind."""
    return await queries.many(tx, TaskCount, "task_counts")


async def open_all_puts(tx: Tx, base_id: BaseId, after: UUID, limit: int, *, only_live: bool) -> UUID | None:
    """Note that the engine has to get all chunks of the next items, or those of live versions; the last item, None at the
    end."""
    items = await queries.values(
        tx, "open_all_puts", base=base_id, after=after, limit=limit, only_live=only_live
    )
    return items[0] if items else None


async def has_live_puts(tx: Tx, base_id: BaseId) -> bool:
    """Whether chunks of live versions wait for the engine."""
    return (await queries.values(tx, "has_live_puts", base=base_id))[0]


async def next_chunks(
    tx: Tx, base_id: BaseId, *, after: int, until: int, limit: int
) -> tuple[list[ChunkText], list[Vector]]:
    """The texts and vectors of the next chunks of a base, up to a number."""
    return await _read_chunks(tx, "next_chunks", base=base_id, after=after, until=until, limit=limit)


async def forget_base(tx: Tx, base_id: BaseId) -> None:
    """Forget the tasks and languages of a base that has left the engine."""
    await queries.run(tx, "forget_base", base=base_id)


async def queue_drop(tx: Tx, base_id: BaseId) -> None:
    """Note that a base is gone: its other tasks end."""
    await queries.run(tx, "queue_drop", base=base_id)


# ── searching ────────────────────────────────────────────────────────────────────────────────────────────


async def items_with_tasks(tx: Tx, base_id: UUID, limit: int) -> list[ItemId]:
    """Live items that the engine may not find, or not for everyone who may see them."""
    return await queries.values(tx, "items_with_tasks", base=base_id, limit=limit)


@dataclass(frozen=True)
class LiveVersion:
    """An item and the version of it that searches find."""

    id: ItemId
    version: int


@dataclass(frozen=True)
class SearchStart:
    """What a search must not rely on the engine for, as it was before the engine was asked: live items with open tasks, and the live
    versions of items that had changed a moment before."""

    since: datetime
    items: list[ItemId]
    recent: frozenset[LiveVersion]


async def begin_search(tx: Tx, base_id: UUID, limit: int) -> SearchStart:
    """Note what the engine may not know, before it is asked. Read afterwards, a task that ended meanwhile would be missed."""
    items = await items_with_tasks(tx, base_id, limit)
    since = (await queries.values(tx, "clock"))[0] - _LONGEST_PUBLICATION
    return SearchStart(since, items, await _recently_published(tx, base_id, since))


async def items_to_search(tx: Tx, base_id: UUID, start: SearchStart, limit: int) -> list[ItemId]:
    """The items that the engine may not have found: those of the beginning, and those of which another version was published while
    the engine answered: what it returned of them is no longer live."""
    now = await _recently_published(tx, base_id, start.since)
    return list(dict.fromkeys([*start.items, *(each.id for each in now - start.recent)]))[:limit]


async def _recently_published(tx: Tx, base_id: UUID, since: datetime) -> frozenset[LiveVersion]:
    rows = await queries.many(
        tx, LiveVersion, "recently_published", base=base_id, since=since, limit=_MAX_RECENT
    )
    return frozenset(rows)


@dataclass(frozen=True)
class GatedChunk:
    """A visible chunk and its item."""

    id: UUID
    no: int
    item_id: ItemId


async def gate(tx: Tx, base: Base, scope: Scope, nos: Sequence[int]) -> dict[int, GatedChunk]:
    """The visible ones of these chunks, by number."""
    rows = await queries.many(
        tx,
        GatedChunk,
        "gate_chunks",
        base=base.id,
        set=base.chunk_set,
        nos=number_array(nos),
        **scope.parameters(),
    )
    return {row.no: row for row in rows}


async def chunks_of_items(
    tx: Tx, base: Base, scope: Scope, items: Sequence[UUID], limit: int
) -> list[ChunkText]:
    """The visible chunks of these items."""
    return await queries.many(
        tx,
        ChunkText,
        "chunks_of_items",
        base=base.id,
        set=base.chunk_set,
        items=list(items),
        limit=limit,
        **scope.parameters(),
    )
