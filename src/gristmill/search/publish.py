"""Makes a version searchable: chunks are written beside what answers, then one transaction switches.

    begin    nothing is there but what answers (earlier attempts' rows are dropped)
    write    one batch of its rows
    publish  item → completed with the new version, the old version's rows gone, the job done: all or nothing
    discard  the version will not come: what is there of it goes

The caller brings a transaction that shares the base's turn and has proved the job's lease. Killed anywhere
before publish: the old version answers, and the next attempt begins again.
"""

import asyncio
from collections.abc import Sequence

from gristmill import catalog, jobs
from gristmill.catalog import BaseId, Item, ItemId
from gristmill.db import Tx
from gristmill.jobs import Job
from gristmill.search import store
from gristmill.search.rows import Chunk


async def begin(tx: Tx, item: Item) -> None:
    """Clear the place for the version that is wanted."""
    await store.drop_unpublished(tx, item.base_id, item.id)


async def write(tx: Tx, item: Item, version: int, chunks: Sequence[Chunk]) -> None:
    """Write one batch of the version."""
    await write_many(tx, item.base_id, [(item, version, chunks)])


async def write_many(tx: Tx, base_id: BaseId, batch: Sequence[tuple[Item, int, Sequence[Chunk]]]) -> None:
    """Write chunks of many items of a base at once; they share a segment, which is cheaper to make and to search."""
    # In a thread, for lexing a full batch takes long enough to be felt by everything else that this process does.
    await write_prepared(tx, base_id, await asyncio.to_thread(prepare, batch))


def prepare(batch: Sequence[tuple[Item, int, Sequence[Chunk]]]) -> store.Prepared:
    """Lex a batch: what of writing it needs no transaction. A millisecond for every five chunks; worth a thread."""
    return store.prepare(
        [store.Written(item.id, item.title, version, chunks) for item, version, chunks in batch]
    )


async def write_prepared(tx: Tx, base_id: BaseId, prepared: store.Prepared) -> None:
    """Write a batch that was prepared."""
    await store.write(tx, base_id, prepared)


async def publish(
    tx: Tx, job: Job, item: Item, version: int, *, chunks: int, warnings: Sequence[str]
) -> None:
    """Switch to `version` and complete the job."""
    await jobs.complete(tx, job)
    if await catalog.publish(tx, item.id, version, chunks=chunks, warnings=warnings):
        await store.drop_other_versions(tx, item.base_id, item.id, version)


async def discard(tx: Tx, base_id: BaseId, item_id: ItemId) -> None:
    """Remove what does not answer, of an item whose version failed."""
    await store.drop_unpublished(tx, base_id, item_id)


async def withdraw(tx: Tx, base_id: BaseId, item_ids: Sequence[ItemId]) -> int:
    """Remove every chunk of these items; how many there were."""
    return await store.drop_items(tx, base_id, item_ids)
