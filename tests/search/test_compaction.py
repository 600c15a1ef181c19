"""Compaction merges segments without changing the results of searches."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gristmill import app, catalog, faults
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.search import Mode, Searcher, SearchRequest, Target, compaction, publish
from gristmill.settings import Settings
from tests.embedding.hashed import HashedEmbedder
from tests.search.published_items import file_note, new_base
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

NOTES = 30


@pytest.fixture
async def mill_with_worker(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    async with app.gristmill(settings, work=True, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        yield mill


async def fill(db: Database) -> Base:
    base = await new_base(db)
    await fill_base(db, base)
    return base


async def fill_base(db: Database, base: Base) -> None:
    async with db.transaction() as tx:  # one, so that no worker merges the first ones before the last
        for n in range(NOTES):
            await file_note(tx, base, f"note {n}", f"wheel number {n}", "stone and " + "mill " * n)


async def search_results(db: Database, base: Base) -> list[Any]:
    results: list[Any] = []
    legs: list[tuple[Mode, HashedEmbedder | None]] = [("text", None), ("vector", HashedEmbedder())]
    for mode, embedder in legs:
        for query in ("wheel 7", "mill", "stone number"):
            request = SearchRequest(query, limit=50, mode=mode)
            hits = await Searcher(db, cache_bytes=2**20).search([Target(base, embedder)], request)
            results.append([(hit.chunk_id, hit.score) for hit in hits])
    return results


async def count(db: Database, table: str) -> int:
    async with db.connection() as tx:
        cursor = await tx.execute(f"select count(*) from {table}".encode())
        row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def wait_until_compacted(db: Database) -> None:
    async def is_compacted() -> bool:
        await compaction.CompactionScheduler(db).queue_due()
        return await count(db, "segment") == 1 and await count(db, "job") == 0

    await wait_until(is_compacted)


async def test_small_segments_are_merged_and_results_stay_the_same(mill_with_worker: app.Gristmill) -> None:
    db = mill_with_worker.db
    base = await fill(db)
    before = await search_results(db, base)
    assert await count(db, "segment") in (1, NOTES)
    await wait_until_compacted(db)
    assert await search_results(db, base) == before


async def test_deleted_chunks_leave_the_index(mill_with_worker: app.Gristmill) -> None:
    """Promise 3: no word of a deleted document remains in the index."""
    db = mill_with_worker.db
    base = await fill(db)
    async with db.transaction() as tx:
        secret = await file_note(tx, base, "secret", "qwrt")
    assert await count(db, "segment where position('qwrt'::bytea in terms) > 0") == 1
    async with db.transaction() as tx:
        await publish.remove_items(tx, base.id, [secret.id])
        await catalog.mark_deleting(tx, [secret.id])
    await wait_until_compacted(db)
    assert await count(db, "segment where position('qwrt'::bytea in terms) > 0") == 0
    assert await count(db, "deleted_chunk") == 0


async def test_an_attempt_that_fails_before_its_commit_changes_nothing(
    mill_with_worker: app.Gristmill,
) -> None:
    db = mill_with_worker.db
    faults.arm("tidy.before_commit=fail@1")
    try:
        base = await fill(db)
        before = await search_results(db, base)
        await wait_until_compacted(db)
        assert await search_results(db, base) == before
    finally:
        faults.disarm()


async def test_segments_of_another_lexer_version_are_lexed_again(mill_with_worker: app.Gristmill) -> None:
    """Chunks without a lexed segment, or of another lexer version, are found after the next compaction."""
    db = mill_with_worker.db
    base = await fill(db)
    await wait_until_compacted(db)
    before = await search_results(db, base)
    async with db.transaction() as tx:
        await tx.execute(
            "update segment set lexer_version = 0, id = nextval('segment_id'), lengths = '', signs = '',"
            " terms = '', ordinals = '', counts = ''"
        )
    await wait_until_compacted(db)
    assert await count(db, "segment where lexer_version > 0") == 1
    assert await search_results(db, base) == before


async def test_every_base_is_checked_in_turn_and_one_with_new_segments_at_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-36: a check looks at a bounded number of bases, however many there are."""
    monkeypatch.setattr(compaction, "BASES_PER_CHECK", 1)
    created = [await new_base(db, f"mill {number}") for number in range(3)]
    scheduler = compaction.CompactionScheduler(db)
    await fill_base(db, created[2])
    queued = [await scheduler.queue_due() for _ in created]
    assert queued == [0, 0, 1], "it was found when its turn came"
    await fill_base(db, created[1])
    assert await scheduler.queue_due() == 1, "it was found at once"
