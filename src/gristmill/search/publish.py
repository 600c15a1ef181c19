"""Publishes versions of items: chunks are written next to the live version, then one transaction switches to the new one.

    existing_chunk_indexes   the chunks of a version that an earlier attempt has written
    reusable_vectors        vectors of texts that were embedded before, by the hash of the text
    prepare_write           build the segment of the chunks; needs no transaction
    write                   insert the chunks of any number of documents of a base, which share a segment
    write_unindexed         the same for a base in a search engine: no segment, but a task to put them there
    publish                 items → completed with their new versions, old chunks deleted, jobs completed, events
                            recorded: all or nothing
    discard_unpublished     delete the chunks of a version that failed

The caller passes a transaction that holds the bases' shared locks and has checked the jobs' leases. If the process is
killed before `publish`, the old version stays live, and the next attempt continues after the chunks already written.
"""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill import catalog, contents, events, jobs
from gristmill.catalog import Base, BaseId, ItemId
from gristmill.contents import FinishedVersion
from gristmill.db import Tx
from gristmill.events import (
    AllAssetsAnalyzed,
    DocumentChunkingCompleted,
    DocumentIndexingCompleted,
    DocumentIngestionCompleted,
    Event,
)
from gristmill.jobs import Job
from gristmill.search import store
from gristmill.search.binary_copy import Chunk, text_hash
from gristmill.search.index import tasks
from gristmill.search.index.engine import IndexUnavailable
from gristmill.search.index.pending_put import LexedChunks, PendingPut
from gristmill.search.index.tasks import NumberedVersion
from gristmill.search.segment import Segment
from gristmill.search.store import PreparedWrite, VersionChunks, prepare_write, segment_input

__all__ = [
    "Chunk",
    "PendingPut",
    "PreparedWrite",
    "VersionChunks",
    "add_segment",
    "discard_begun",
    "discard_from_index",
    "discard_leftovers",
    "discard_other_versions",
    "discard_unpublished",
    "discard_version",
    "existing_chunk_indexes",
    "finish_unchanged",
    "next_chunk_index",
    "prepare_write",
    "publish",
    "remove_items",
    "reusable_vectors",
    "segment_input",
    "text_hash",
    "write",
    "write_unindexed",
]


async def existing_chunk_indexes(tx: Tx, set_id: UUID, item_id: ItemId, version: int) -> set[int]:
    """The indexes of the chunks of a version that are written already."""
    return await store.existing_indexes(tx, set_id, item_id, version)


async def next_chunk_index(tx: Tx, set_id: UUID, item_id: ItemId, version: int) -> int:
    """The index of the next chunk of a version. The caller has locked the item."""
    return await store.next_index(tx, set_id, item_id, version)


async def discard_version(tx: Tx, set_id: UUID, item_id: ItemId, version: int) -> None:
    """Delete the chunks of a version, because it is now built with other settings."""
    await store.drop_version(tx, set_id, item_id, version)
    await tasks.forget_puts(tx, item_id, version)


async def discard_from_index(tx: Tx, set_id: UUID, item_id: ItemId, version: int, first_index: int) -> None:
    """Delete the chunks of a version from `first_index` on, because their text has changed."""
    await store.drop_from_index(tx, set_id, item_id, version, first_index)


async def reusable_vectors(
    tx: Tx, sets: Sequence[UUID], hashes: Sequence[bytes]
) -> dict[bytes, NDArray[np.float32]]:
    """Existing vectors by text hash, from any of the sets, which must have the same embedder."""
    return await store.find_vectors(tx, sets, hashes) if hashes else {}


async def write(tx: Tx, set_id: UUID, prepared: PreparedWrite) -> None:
    """Write chunks of versions that are not live yet."""
    await store.write(tx, set_id, prepared)


async def add_segment(tx: Tx, set_id: UUID, new: Segment) -> None:
    """Add a segment of chunks that are written already, and have none."""
    await store.insert_segment(tx, set_id, new)


async def write_unindexed(
    tx: Tx, base: Base, prepared: PreparedWrite, *, with_segment: bool = False
) -> list[PendingPut]:
    """Write chunks of versions that are not live yet, of a base in a search engine; what is to be put there next. With a
    segment too, while the base moves from one index to the other."""
    nos = await store.insert_chunks(tx, base.chunk_set, prepared.versions)
    if with_segment and nos:
        await store.insert_segment(tx, base.chunk_set, prepared.segment.with_numbers(nos))
    numbered: list[NumberedVersion] = []
    start = 0
    for version in prepared.versions:
        end = start + len(version.chunks)
        numbered.append(NumberedVersion(version.item_id, version.version, nos[start:end]))
        start = end
    opened = await tasks.open_puts(tx, base.id, [version for version in numbered if version.nos])
    await tasks.add_languages(tx, base.id, sorted(prepared.segment.languages))
    by_first_number = {task.first_no: task for task in opened}
    lexed, start = LexedChunks(prepared.segment), 0
    pending: list[PendingPut] = []
    for version, numbers in zip(prepared.versions, numbered, strict=True):
        if numbers.nos:
            vectors = [chunk.embedding for chunk in version.chunks]
            task = by_first_number[min(numbers.nos)]
            pending.append(PendingPut(base.id, task, numbers.nos, vectors, lexed, start))
        start += len(version.chunks)
    return pending


async def publish(
    tx: Tx, finished: Sequence[tuple[BaseId, Job, FinishedVersion]], earlier_events: Sequence[Event] = ()
) -> None:
    """Make these versions live and complete their jobs. The caller has locked the items and checked that these versions
    are still wanted. `earlier_events` are recorded before those of the completion, in one statement."""
    item_ids = [completed.item_id for _, _, completed in finished]
    if await tasks.find_unindexed(
        tx, [(completed.item_id, completed.version) for _, _, completed in finished]
    ):
        # Its put failed, or another worker has just begun it again: the next attempt goes on from the open tasks.
        raise IndexUnavailable("The search engine does not have all chunks of this version yet.")
    replaced_items = await contents.publish(tx, [completed for _, _, completed in finished])
    await catalog.mark_missing(tx, item_ids)
    for base_id in sorted(
        {base_id for base_id, _, completed in finished if completed.item_id in replaced_items}
    ):
        items = [
            completed.item_id
            for base, _, completed in finished
            if base == base_id and completed.item_id in replaced_items
        ]
        await store.drop_other_versions(tx, base_id, items)
    completion_events = [
        event for base_id, _, completed in finished for event in _completion_events(base_id, completed)
    ]
    await events.record(tx, *earlier_events, *completion_events)
    await jobs.complete_all(tx, [job for _, job, _ in finished])
    await jobs.dismiss_dead_by_subject(tx, item_ids)
    # Last, because others that end documents of the same folders wait from here to the commit.
    await catalog.derive_statuses_after_end(tx, item_ids)


async def finish_unchanged(
    tx: Tx, finished: Sequence[tuple[BaseId, Job, FinishedVersion]], earlier_events: Sequence[Event] = ()
) -> None:
    """Keep the live versions of documents whose new versions would be identical, and complete their jobs."""
    await catalog.finish_unchanged(
        tx, [(completed.item_id, completed.version) for _, _, completed in finished]
    )
    await jobs.complete_all(tx, [job for _, job, _ in finished])
    completion_events = [
        event for base_id, _, completed in finished for event in _completion_events(base_id, completed)
    ]
    await events.record(tx, *earlier_events, *completion_events)
    await catalog.derive_statuses_after_end(tx, [completed.item_id for _, _, completed in finished])


def _completion_events(base_id: BaseId, completed: FinishedVersion) -> list[Event]:
    item_id, version, chunks = completed.item_id, completed.version, completed.chunks
    completion_events: list[Event] = [
        DocumentChunkingCompleted(base_id, item_id, version, chunks),
        DocumentIndexingCompleted(base_id, item_id, version, chunks),
    ]
    if not completed.waiting_assets:  # otherwise the job that describes the last image records the rest
        if completed.assets:
            completion_events.append(AllAssetsAnalyzed(base_id, item_id, version, len(completed.assets), 0))
        completion_events.append(
            DocumentIngestionCompleted(base_id, item_id, version, tuple(completed.warnings))
        )
    return completion_events


async def discard_unpublished(tx: Tx, base_id: BaseId, item_id: ItemId) -> None:
    """Delete the unpublished chunks of an item whose version failed."""
    await store.drop_unpublished(tx, base_id, item_id)
    await tasks.forget_puts(tx, item_id)


async def discard_begun(tx: Tx, base: Base) -> None:
    """Delete the chunks of versions that are being made, because other chunks are about to take over. The caller holds the
    base's exclusive lock."""
    await store.drop_begun(tx, base.id, base.chunk_set)


async def discard_other_versions(tx: Tx, set_id: UUID, item_ids: Sequence[ItemId]) -> None:
    """Delete the chunks of other versions than the live ones of these items."""
    await store.drop_not_live(tx, set_id, item_ids)


async def discard_leftovers(tx: Tx, base_id: BaseId, limit: int) -> int:
    """Remove chunks of versions that were never published, and of items that no longer exist; of how many items."""
    return await store.drop_leftovers(tx, base_id, limit)


async def remove_items(tx: Tx, base_id: BaseId, item_ids: Sequence[ItemId]) -> int:
    """Delete every chunk of these items; returns how many there were."""
    return await store.drop_items(tx, base_id, item_ids)
