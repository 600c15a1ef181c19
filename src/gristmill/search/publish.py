"""Makes versions searchable: chunks are written beside what answers, then one transaction switches.

    written   which chunks of a version an earlier attempt has written
    vectors   what was embedded before, by the hash of the text
    to_lex    what of writing needs no transaction: the segment that the chunks' words and vectors are built into
    write     rows of any number of documents of a base, which share a segment
    publish   items → completed with their new versions, the old versions' rows gone, the jobs done, their events: all
              or nothing
    discard   the version will not come: what is there of it goes

The caller brings a transaction that shares the bases' turns and has proved the jobs' leases. Killed anywhere
before publish: the old version answers, and the next attempt goes on after what is written.
"""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill import catalog, events, jobs
from gristmill.catalog import BaseId, FinishedVersion, ItemId
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
from gristmill.search.store import PreparedWrite, VersionChunks, prepare_write, segment_input

__all__ = [
    "Chunk",
    "PreparedWrite",
    "VersionChunks",
    "discard_from_index",
    "discard_unpublished",
    "discard_version",
    "finish_unchanged",
    "prepare_write",
    "publish",
    "remove_items",
    "reusable_vectors",
    "segment_input",
    "text_hash",
    "write",
    "written_chunk_indexes",
]


async def written_chunk_indexes(tx: Tx, base_id: BaseId, item_id: ItemId, version: int) -> set[int]:
    """Which chunks of a version are there already."""
    return await store.written_indexes(tx, base_id, item_id, version)


async def discard_version(tx: Tx, base_id: BaseId, item_id: ItemId, version: int) -> None:
    """Remove what was written of a version that is made otherwise by now."""
    await store.drop_version(tx, base_id, item_id, version)


async def discard_from_index(
    tx: Tx, base_id: BaseId, item_id: ItemId, version: int, first_index: int
) -> None:
    """Remove what was written of a version from a chunk on: what follows is another by now."""
    await store.drop_from_index(tx, base_id, item_id, version, first_index)


async def reusable_vectors(
    tx: Tx, bases: Sequence[UUID], hashes: Sequence[bytes]
) -> dict[bytes, NDArray[np.float32]]:
    """The vectors that texts have in any of the bases, which must be of one embedder, by the texts' hashes."""
    return await store.find_vectors(tx, bases, hashes) if hashes else {}


async def write(tx: Tx, base_id: BaseId, prepared: PreparedWrite) -> None:
    """Write chunks under versions that do not answer yet."""
    await store.write(tx, base_id, prepared)


async def publish(tx: Tx, finished: Sequence[tuple[BaseId, Job, FinishedVersion]]) -> None:
    """Switch to these versions and complete their jobs. The documents are still wanted, and locked."""
    replaced_items = await catalog.publish(tx, [completed for _, _, completed in finished])
    for base_id in sorted(
        {base_id for base_id, _, completed in finished if completed.item_id in replaced_items}
    ):
        items = [
            completed.item_id
            for base, _, completed in finished
            if base == base_id and completed.item_id in replaced_items
        ]
        await store.drop_other_versions(tx, base_id, items)
    await jobs.complete_all(tx, [job for _, job, _ in finished])
    await events.record(
        tx, *(event for base_id, _, completed in finished for event in _completion_events(base_id, completed))
    )


async def finish_unchanged(tx: Tx, finished: Sequence[tuple[BaseId, Job, FinishedVersion]]) -> None:
    """Leave what answers as it is, for documents that would become just that, and complete their jobs."""
    await catalog.finish_unchanged(
        tx, [(completed.item_id, completed.version) for _, _, completed in finished]
    )
    await jobs.complete_all(tx, [job for _, job, _ in finished])
    await events.record(
        tx, *(event for base_id, _, completed in finished for event in _completion_events(base_id, completed))
    )


def _completion_events(base_id: BaseId, completed: FinishedVersion) -> list[Event]:
    item_id, version, chunks = completed.item_id, completed.version, completed.chunks
    completion_events: list[Event] = [
        DocumentChunkingCompleted(base_id, item_id, version, chunks),
        DocumentIndexingCompleted(base_id, item_id, version, chunks),
    ]
    if not completed.waiting_assets:  # else whoever describes the last image tells the rest
        if completed.assets:
            completion_events.append(AllAssetsAnalyzed(base_id, item_id, version, len(completed.assets), 0))
        completion_events.append(
            DocumentIngestionCompleted(base_id, item_id, version, tuple(completed.warnings))
        )
    return completion_events


async def discard_unpublished(tx: Tx, base_id: BaseId, item_id: ItemId) -> None:
    """Remove what does not answer, of an item whose version failed."""
    await store.drop_unpublished(tx, base_id, item_id)


async def remove_items(tx: Tx, base_id: BaseId, item_ids: Sequence[ItemId]) -> int:
    """Remove every chunk of these items; how many there were."""
    return await store.drop_items(tx, base_id, item_ids)
