"""What a switch between two sets of chunks costs: `uv run python -m bench.switch --chunks 100000`.

Writes a base of so many chunks and a copy of them as a second set, which was kept after a change of the embedder. Then the
operation `revert` goes back and forth between the two, as one call of the API does. Prints the statements of a call, the rows and
WAL that it writes, its CPU time in PostgreSQL's client and its time by the clock. None of these may grow with the base.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from bench import synthetic_base
from gristmill import app, catalog
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.operations import swap_embedder
from gristmill.search import Searcher, SearchRequest, Target
from gristmill.settings import Settings
from tests.embedding.hashed import HashedEmbedder

_CHUNK = 'item_id, version, index, text, text_hash, start, "end", page, headings, embedding'
_SEGMENT = "lexer_version, chunks, tokens, languages, chunks_by_language, nos, items, lengths, signs, terms, ordinals, counts"


class OtherEmbedder(HashedEmbedder):
    """The embedder that the base had before, in name only: nothing is embedded."""

    def __init__(self) -> None:
        super().__init__("other", dimensions=synthetic_base.DIMENSIONS)
        self.identity = f"other/1/{synthetic_base.DIMENSIONS}"


async def keep_copy(db: Database, base: Base) -> UUID:
    """Copy the chunks of a base into a second set that is kept, and note the change that left it."""
    set_id = uuid4()
    async with db.transaction() as tx:
        await tx.execute(
            "insert into chunk_set (id, base_id, state, embedder, embedder_identity, dimensions, chunking)"
            " values (%s, %s, 'kept', 'other', %s, %s, '{}')",
            [set_id, base.id, OtherEmbedder().identity, synthetic_base.DIMENSIONS],
        )
        # The numbers of chunks are unique in a set, and the arrays of the segments name them.
        await tx.execute(
            f"insert into chunk (set_id, no, {_CHUNK}) select %s, no, {_CHUNK} from chunk where set_id = %s",
            [set_id, base.chunk_set],
        )
        await tx.execute(
            f"insert into segment (set_id, {_SEGMENT}) select %s, {_SEGMENT} from segment where set_id = %s",
            [set_id, base.chunk_set],
        )
        await tx.execute(
            "insert into swap (base_id, set_id, previous_set, embedder, previous_embedder, gate, is_approved, is_revert, items,"
            " state, is_refreshed) values (%s, %s, %s, %s, 'other', 'off', true, false, 0, 'switched', true)",
            [base.id, base.chunk_set, set_id, base.embedder],
        )
    async with db.connection() as tx:
        await tx.execute("vacuum analyze chunk, segment")
    return set_id


class StatementCounter:
    """Counts the statements of this process while it is entered."""

    def __init__(self) -> None:
        self.statements = 0
        self._execute = psycopg.AsyncCursor[Any].execute

    def __enter__(self) -> "StatementCounter":
        counter, execute = self, self._execute

        async def count(self: Any, *arguments: Any, **more: Any) -> Any:
            counter.statements += 1
            return await execute(self, *arguments, **more)

        psycopg.AsyncCursor.execute = count
        return self

    def __exit__(self, *_: object) -> None:
        psycopg.AsyncCursor.execute = self._execute


async def counters(db: Database) -> tuple[int, int]:
    """The bytes of WAL, and the rows that were inserted, updated or deleted, so far."""
    async with db.connection() as tx:
        await tx.execute("select pg_stat_force_next_flush()")
        row = await (
            await tx.execute(
                "select pg_current_wal_insert_lsn() - '0/0',"
                " (select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_user_tables)"
            )
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


async def measure(mill: app.Gristmill, base: Base, rounds: int) -> None:
    """Go back and forth, and print what each way costs."""
    times: list[float] = []
    for number in range(rounds):
        wal, rows = await counters(mill.db)
        with StatementCounter() as counter:
            started = time.perf_counter()
            swap = await swap_embedder.revert(mill.db, base.id, mill.embedders)
            times.append(time.perf_counter() - started)
        assert swap.state == "switched", swap
        wal_after, rows_after = await counters(mill.db)
        print(
            f"  revert {number + 1}: {counter.statements} statements, {rows_after - rows} rows,"
            f" {(wal_after - wal) / 1024:.0f} kB of WAL, {1000 * times[-1]:.1f} ms",
            flush=True,
        )
        async with mill.db.connection() as tx:
            current = await catalog.find_base(tx, base.id)
        assert current is not None
        assert current.chunk_set == swap.set_id
        started = time.perf_counter()
        hits = await Searcher(mill.db, cache_bytes=2**28).search(
            [Target(current, None)], SearchRequest(synthetic_base.word(500), mode="text")
        )
        assert hits
        print(f"    the first search of a process after it: {1000 * (time.perf_counter() - started):.0f} ms")
    print(f"  median {1000 * statistics.median(times):.1f} ms")


@asynccontextmanager
async def open_gristmill(data_dir: Path) -> AsyncGenerator[app.Gristmill]:
    """A Gristmill without a worker: what is counted is the call alone."""
    settings = Settings(data_dir=data_dir, port=0)
    async with app.gristmill(settings, work=False, extra_embedders={"other": OtherEmbedder()}) as mill:
        yield mill


async def run(chunks: int, rounds: int, data_dir: Path) -> None:
    async with open_gristmill(data_dir) as mill:
        base = await synthetic_base.open_base(mill, data_dir, chunks)
        await keep_copy(mill.db, base)
        print(f"{chunks:,} chunks in each of two sets")
        await measure(mill, base, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    for chunks in options.chunks:
        with tempfile.TemporaryDirectory(prefix="gristmill-switch-") as temporary:
            asyncio.run(run(chunks, options.rounds, Path(temporary)))


if __name__ == "__main__":
    main()
