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
from gristmill.catalog import BaseId, ItemId, Whole
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
from gristmill.search.rows import Chunk, text_hash
from gristmill.search.store import Prepared, Written, prepare, to_lex

__all__ = [
    "Chunk",
    "Prepared",
    "Written",
    "begin_again",
    "cut_back",
    "discard",
    "prepare",
    "publish",
    "text_hash",
    "to_lex",
    "unchanged",
    "vectors",
    "withdraw",
    "write",
    "written",
]


async def written(tx: Tx, base_id: BaseId, item_id: ItemId, version: int) -> set[int]:
    """Which chunks of a version are there already."""
    return await store.written(tx, base_id, item_id, version)


async def begin_again(tx: Tx, base_id: BaseId, item_id: ItemId, version: int) -> None:
    """Remove what was written of a version that is made otherwise by now."""
    await store.drop_version(tx, base_id, item_id, version)


async def cut_back(tx: Tx, base_id: BaseId, item_id: ItemId, version: int, first: int) -> None:
    """Remove what was written of a version from a chunk on: what follows is another by now."""
    await store.cut_back(tx, base_id, item_id, version, first)


async def vectors(tx: Tx, bases: Sequence[UUID], hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """The vectors that texts have in any of the bases, which must be of one embedder, by the texts' hashes."""
    return await store.vectors(tx, bases, hashes) if hashes else {}


async def write(tx: Tx, base_id: BaseId, prepared: Prepared) -> None:
    """Write chunks under versions that do not answer yet."""
    await store.write(tx, base_id, prepared)


async def publish(tx: Tx, done: Sequence[tuple[BaseId, Job, Whole]]) -> None:
    """Switch to these versions and complete their jobs. The documents are still wanted, and locked."""
    had_others = await catalog.publish(tx, [whole for _, _, whole in done])
    for base_id in sorted({base_id for base_id, _, whole in done if whole.item_id in had_others}):
        items = [whole.item_id for base, _, whole in done if base == base_id and whole.item_id in had_others]
        await store.drop_other_versions(tx, base_id, items)
    await jobs.complete_all(tx, [job for _, job, _ in done])
    await events.record(tx, *(event for base_id, _, whole in done for event in _told(base_id, whole)))


async def unchanged(tx: Tx, done: Sequence[tuple[BaseId, Job, Whole]]) -> None:
    """Leave what answers as it is, for documents that would become just that, and complete their jobs."""
    await catalog.finish_unchanged(tx, [(whole.item_id, whole.version) for _, _, whole in done])
    await jobs.complete_all(tx, [job for _, job, _ in done])
    await events.record(tx, *(event for base_id, _, whole in done for event in _told(base_id, whole)))


def _told(base_id: BaseId, whole: Whole) -> list[Event]:
    item_id, version, chunks = whole.item_id, whole.version, whole.chunks
    told: list[Event] = [
        DocumentChunkingCompleted(base_id, item_id, version, chunks),
        DocumentIndexingCompleted(base_id, item_id, version, chunks),
    ]
    if not whole.waiting:  # else whoever describes the last image tells the rest
        if whole.assets:
            told.append(AllAssetsAnalyzed(base_id, item_id, version, len(whole.assets), 0))
        told.append(DocumentIngestionCompleted(base_id, item_id, version, tuple(whole.warnings)))
    return told


async def discard(tx: Tx, base_id: BaseId, item_id: ItemId) -> None:
    """Remove what does not answer, of an item whose version failed."""
    await store.drop_unpublished(tx, base_id, item_id)


async def withdraw(tx: Tx, base_id: BaseId, item_ids: Sequence[ItemId]) -> int:
    """Remove every chunk of these items; how many there were."""
    return await store.drop_items(tx, base_id, item_ids)
