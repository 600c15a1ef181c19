"""Merges segments of a base as compaction does, again and again, and throws the result away: load for `bench.search`."""

import asyncio
import sys
from uuid import UUID

import numpy as np

from gristmill.db import Database
from gristmill.search import compaction_store, segment, store
from gristmill.search.compaction import merge_segments
from gristmill.search.inverted_index import InvertedIndex
from gristmill.search.segment import MAX_CHUNKS


async def merge(db: Database, set_id: UUID) -> None:
    """Merge as many segments as fit into one."""
    async with db.connection(large=True) as tx:
        rows = await store.list_segments(tx, set_id)
        ids: list[int] = []
        chunks = 0
        for row in sorted(rows, key=lambda row: row.chunks):
            if chunks + row.chunks <= MAX_CHUNKS:
                ids.append(row.id)
                chunks += row.chunks
        arrays = await store.read_segment_arrays(tx, set_id, ids)
        postings = await compaction_store.read_all_postings(tx, set_id, ids)
    parts = [
        (
            segment.decode_arrays(row.nos, row.items, row.lengths, row.signs),
            InvertedIndex.load(row.terms, *postings[row.id]),
        )
        for row in arrays
    ]
    await asyncio.to_thread(merge_segments, parts, np.empty(0, np.int64), frozenset[str](), {})


async def main(url: str, set_id: UUID) -> None:
    db = Database(url)
    await db.open()
    while True:
        await merge(db, set_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], UUID(sys.argv[2])))
