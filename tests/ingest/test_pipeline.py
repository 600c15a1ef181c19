"""Batches across documents, nothing paid twice, and one bad text that fails alone."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from gristmill import faults
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.embedding import TextRefused
from gristmill.errors import Transient
from gristmill.ingest import embed
from gristmill.jobs import Job, retry
from gristmill.operations import bases, delete
from gristmill.settings import Settings
from tests.ingest.counting import CountingEmbedder
from tests.ingest.paragraphs import paragraphs, small_chunk_base
from tests.operations.manual_worker import (
    ManualWorker,
    file_to_add,
    folder_to_add,
    items_by_title,
    note_to_add,
)
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
async def worker(db: Database, settings: Settings, embedder: CountingEmbedder) -> ManualWorker:
    return await ManualWorker.start(db, settings, embedder)


@pytest.fixture(autouse=True)
def disarm_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_armed", {})


async def run_concurrently(worker: ManualWorker, limit: int = 1000) -> list[Job]:
    """Run every job that can be claimed, side by side, as a worker would."""
    jobs = await worker.claim(limit)
    await asyncio.gather(*(worker.run(job) for job in jobs))
    return jobs


# ── batches ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_hundred_notes_are_a_few_batches(
    worker: ManualWorker, base: Base, embedder: CountingEmbedder
) -> None:
    """S4-29, S4-52: batches form across items, and grow while the embedder is quick."""
    await worker.add(base, *(note_to_add(f"n{n}", f"rye {n}") for n in range(100)))
    await run_concurrently(worker)
    assert set((await worker.statuses()).values()) == {"completed"}
    assert sorted(embedder.texts) == sorted(f"rye {n}" for n in range(100))
    assert len(embedder.calls) <= 8
    assert max(map(len, embedder.calls)) <= embed.MAX_BATCH


async def test_documents_of_several_bases_share_a_batch_by_turns(
    worker: ManualWorker, embedder: CountingEmbedder
) -> None:
    """S4-02, S4-18: a small base is in the first batch, whatever came before it."""
    large, other = await small_chunk_base(worker, "large"), await worker.base("other")
    await worker.add(large, note_to_add("large", paragraphs(900)))
    await worker.add(other, note_to_add("little", "oats"))
    embedder.gate.clear()
    running = asyncio.ensure_future(run_concurrently(worker))
    await embedder.first_call.wait()
    embedder.gate.set()
    await running
    first = next(number for number, call in enumerate(embedder.calls) if "oats" in call)
    assert first < len(embedder.calls) - 1


async def test_interactive_documents_come_first(
    db: Database, settings: Settings, embedder: CountingEmbedder
) -> None:
    """An interactive job of the same base passes a document of thousands of pieces."""
    worker = await ManualWorker.start(db, settings, embedder)
    base = await small_chunk_base(worker)
    await worker.add(base, note_to_add("large", paragraphs(2000)))
    (large,) = await worker.claim()
    large.priority = 1
    running = asyncio.ensure_future(worker.run(large))
    await embedder.first_call.wait()
    await worker.add(base, note_to_add("urgent", "oats"))
    (urgent,) = await worker.claim()
    await worker.run(urgent)
    assert not running.done()
    await running
    assert set((await worker.statuses()).values()) == {"completed"}


async def test_an_interactive_document_does_not_wait_for_the_batches_under_way(
    worker: ManualWorker, embedder: CountingEmbedder
) -> None:
    """S4-17, S4-52: it gets a batch of its own at once, and others don't."""
    base = await small_chunk_base(worker)
    await worker.add(base, *(note_to_add(f"large {n}", paragraphs(900, of=f"rye{n}")) for n in range(3)))
    large = await worker.claim(10)
    for job in large:
        job.priority = 1
    embedder.gate.clear()
    running = [asyncio.create_task(worker.run(job)) for job in large]

    async def has_calls(count: int) -> bool:
        return len(embedder.calls) >= count

    await wait_until(lambda: has_calls(embed.PARALLEL))
    await worker.add(base, note_to_add("urgent", "oats"))
    running += [asyncio.create_task(worker.run(job)) for job in await worker.claim()]
    await wait_until(lambda: has_calls(embed.PARALLEL + 1))
    assert "oats" in embedder.calls[embed.PARALLEL]
    assert len(embedder.calls) == embed.PARALLEL + 1
    embedder.gate.set()
    await asyncio.gather(*running)
    assert set((await worker.statuses()).values()) == {"completed"}


# ── nothing is paid twice ────────────────────────────────────────────────────────────────────────────────


async def test_the_same_text_is_embedded_once_wherever_it_occurs(
    worker: ManualWorker, base: Base, embedder: CountingEmbedder
) -> None:
    """S3-03, promise 4: in one batch, in another document, in another base of the same embedder."""
    await worker.add(base, note_to_add("a", "rye"), note_to_add("b", "rye"))
    await run_concurrently(worker)
    await worker.add(base, note_to_add("c", "rye"))
    await worker.work()
    await worker.add(await worker.base("other"), note_to_add("d", "rye"), note_to_add("e", "oats"))
    await worker.work()
    assert sorted(embedder.texts) == ["oats", "rye"]
    vectors = await worker.rows("select distinct embedding::text from chunk where text = 'rye'")
    assert len(vectors) == 1
    assert await worker.value("select count(*) from chunk") == 5
    assert await worker.value("select count(*) from content") == 2


async def test_reindexing_what_did_not_change_embeds_and_writes_nothing(
    worker: ManualWorker, base: Base, docs: Path, embedder: CountingEmbedder
) -> None:
    """S3-03, S3-10, promise 4; the version that answers goes on answering."""
    (root,) = await worker.add(base, folder_to_add(docs))
    await worker.work()
    chunks = await worker.rows("select id from chunk order by 1")
    embedder.calls.clear()
    await worker.reindex(base, root.id)
    await worker.work()
    assert embedder.calls == []
    assert await worker.rows("select id from chunk order by 1") == chunks
    assert set((await worker.statuses()).values()) == {"completed"}
    await worker.assert_healthy()


async def test_one_changed_paragraph_is_all_that_is_embedded(
    worker: ManualWorker, tmp_path: Path, embedder: CountingEmbedder
) -> None:
    base = await small_chunk_base(worker)
    path = tmp_path / "a.md"
    path.write_text(paragraphs(40))
    (item,) = await worker.add(base, file_to_add(path))
    await worker.work()
    before = embedder.texts
    assert len(before) == 40
    path.write_text(paragraphs(40).replace("rye 17 ", "oats 17 "))
    embedder.calls.clear()
    await worker.reindex(base, item.id)
    await worker.work()
    (changed_text,) = embedder.texts
    assert changed_text.startswith("oats 17 ")
    assert (await worker.rows("select timeline ->> 'reused' from item_version"))[-1] == ("39",)
    assert await worker.value("select count(*) from chunk") == 40


async def test_another_way_of_cutting_makes_it_anew(
    worker: ManualWorker, tmp_path: Path, embedder: CountingEmbedder
) -> None:
    """S3-04: the same bytes, but other chunks."""
    base = await small_chunk_base(worker)
    path = tmp_path / "a.md"
    path.write_text(paragraphs(10))
    (item,) = await worker.add(base, file_to_add(path))
    await worker.work()
    await bases.patch(worker.db, base.id, chunking={"maxTokens": 256})
    await worker.reindex(base, item.id)
    await worker.work()
    assert await worker.value("select count(*) from chunk") < 10
    await worker.assert_healthy()


async def test_an_interrupted_attempt_is_not_continued_with_other_chunking(worker: ManualWorker) -> None:
    """S3-04: what the first attempt wrote is not mixed with what the second makes."""
    base, text = await small_chunk_base(worker), paragraphs(100)
    await worker.add(base, note_to_add("n", text))
    faults.arm("index.batch_written=fail")
    assert isinstance(await worker.run(await worker.take("index_document")), retry.Postpone)
    assert await worker.value("select count(*) from chunk") > 0
    await bases.patch(worker.db, base.id, chunking={"maxTokens": 256})
    await worker.make_due()
    await worker.work()
    other = await worker.base("other")
    await worker.add(other, note_to_add("n", text))
    await worker.work()
    chunks = [
        await worker.rows("select index, text from chunk where set_id = %s order by 1", base_id)
        for base_id in (base.id, other.id)
    ]
    assert chunks[0] == chunks[1]
    await worker.assert_healthy()


async def test_an_interrupted_attempt_goes_on_after_its_last_batch(
    worker: ManualWorker, embedder: CountingEmbedder
) -> None:
    """Promise 4: of two attempts, the second embeds only what the first did not write."""
    base = await small_chunk_base(worker)
    await worker.add(base, note_to_add("n", paragraphs(100)))
    faults.arm("index.batch_written=fail")
    job = await worker.take("index_document")
    assert isinstance(await worker.run(job), retry.Postpone)
    chunk_count = await worker.value("select count(*) from chunk")
    assert 0 < chunk_count < 100
    first = len(embedder.texts)
    await worker.make_due()
    await worker.work()
    assert await worker.statuses() == {"n": "completed"}
    assert await worker.value("select count(*) from chunk") == 100
    assert len(embedder.texts) <= 100 + first - chunk_count
    assert await worker.value("select (timeline ->> 'resumed')::int from item_version") == chunk_count
    await worker.assert_healthy()


async def test_an_attempt_that_finds_another_text_begins_again(
    worker: ManualWorker, tmp_path: Path, embedder: CountingEmbedder
) -> None:
    """Nothing of the first text is left in what answers."""
    base = await small_chunk_base(worker)
    path = tmp_path / "a.md"
    path.write_text(paragraphs(100))
    await worker.add(base, file_to_add(path))
    faults.arm("index.batch_written=fail")
    await worker.run(await worker.take("index_document"))
    assert await worker.value("select count(*) from chunk") > 0
    path.write_text(paragraphs(90, "oats"))
    await worker.make_due()
    await worker.work()
    assert await worker.value("select count(*) from chunk where text like 'oats%%'") == 90
    assert await worker.value("select count(*) from chunk") == 90
    await worker.assert_healthy()


# ── failure ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_text_that_is_refused_fails_its_document_alone(
    worker: ManualWorker, base: Base, embedder: CountingEmbedder
) -> None:
    """S4-47: the batch is halved until the text is alone."""

    def refuse(texts: Sequence[str]) -> None:
        if any("poison" in text for text in texts):
            raise TextRefused("This text is refused.")

    embedder.before = refuse
    await worker.add(base, *(note_to_add(f"n{n}", "poison" if n == 7 else f"rye {n}") for n in range(16)))
    await run_concurrently(worker)
    statuses = await worker.statuses()
    assert statuses.pop("n7") == "failed"
    assert set(statuses.values()) == {"completed"}
    assert await worker.rows("select error_code from item where title = 'n7'") == [("embedder_refused",)]
    await worker.assert_healthy()


async def test_an_embedder_that_is_down_for_a_while_costs_no_attempt(
    worker: ManualWorker, base: Base, embedder: CountingEmbedder
) -> None:
    """S4-42, S4-44: it is waited for, as long as it asks."""
    down = iter(range(3))

    def fail(_texts: Sequence[str]) -> None:
        if next(down, None) is not None:
            raise Transient("Busy.", retry_after=timedelta(milliseconds=50))

    embedder.before = fail
    await worker.add(base, *(note_to_add(f"n{n}", f"rye {n}") for n in range(20)))
    await run_concurrently(worker)
    assert set((await worker.statuses()).values()) == {"completed"}
    assert await worker.rows("select distinct attempt, errors from job_history") == [(1, [])]


async def test_an_embedder_that_stays_down_sends_documents_back_without_counting_an_attempt(
    worker: ManualWorker, base: Base, embedder: CountingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold no slot meanwhile, and come back when it asks."""
    monkeypatch.setattr(embed, "_PATIENCE", timedelta(seconds=1))

    def fail(_texts: Sequence[str]) -> None:
        raise Transient("Down.", retry_after=timedelta(minutes=1))

    embedder.before = fail
    await worker.add(base, note_to_add("n"))
    move = await worker.step()
    assert move == retry.Postpone(timedelta(minutes=1), counted=False)
    assert await worker.rows("select state::text, attempt from job") == [("delayed", 0)]
    assert len(embedder.calls) == 1
    await worker.assert_healthy()


async def test_a_document_that_fails_while_others_go_well_is_at_fault(
    worker: ManualWorker, base: Base, embedder: CountingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-47: it is tried alone, and has an attempt counted; the others are done."""
    monkeypatch.setattr(embed, "_PAUSES", (0.01,))
    failures = 0

    def fail(texts: Sequence[str]) -> None:
        nonlocal failures
        if any("broken" in text for text in texts):
            failures += 1
            raise Transient("500")

    embedder.before = fail
    await worker.add(base, *(note_to_add(f"n{n}", "broken" if n == 3 else f"rye {n}") for n in range(8)))
    bad = (await items_by_title(worker, base))["n3"].id
    bad_job, *other_jobs = sorted(await worker.claim(8), key=lambda job: job.subject != bad)
    running = asyncio.ensure_future(worker.run(bad_job))
    for job in other_jobs:  # one between any two of its failures
        before = failures

        async def has_failed_again(before: int = before) -> bool:
            return failures > before or running.done()

        await wait_until(has_failed_again)
        await worker.run(job)
    move = await running
    assert isinstance(move, retry.Postpone)
    assert move.counted
    statuses = await worker.statuses()
    assert statuses.pop("n3") in {"reading", "embedding"}  # progress is shown at most every 300 ms
    assert [*statuses.values()] == ["completed"] * 7


async def test_a_cancelled_document_ends_the_call_that_only_it_waits_for(
    worker: ManualWorker, base: Base, embedder: CountingEmbedder
) -> None:
    """S4-12, S4-27; S4-09."""
    await worker.add(base, note_to_add("n"))
    (job,) = await worker.claim()
    embedder.gate.clear()
    running = asyncio.ensure_future(worker.handlers["index_document"].run(job))
    await embedder.first_call.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    async def is_cancelled() -> bool:
        return embedder.cancelled_calls == 1

    await wait_until(is_cancelled)
    embedder.gate.set()


async def test_a_document_deleted_while_its_batch_is_embedded_does_not_affect_the_others(
    worker: ManualWorker, base: Base, embedder: CountingEmbedder
) -> None:
    """Delete wins: the batch is lexed again without the deleted document, and the other one is published."""
    _, deleted = await worker.add(base, note_to_add("a", "rye"), note_to_add("b", "oats"))
    embedder.gate.clear()
    running = asyncio.ensure_future(run_concurrently(worker))
    await embedder.first_call.wait()
    await delete.delete(worker.db, base.id, [deleted.id])
    embedder.gate.set()
    await running
    assert await worker.rows("select text from chunk") == [("rye",)]
    assert (await worker.statuses())["a"] == "completed"
    await worker.assert_healthy()
