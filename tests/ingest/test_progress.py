"""How far a document is: the weights of the stages, how often that is written, and the phases that users see."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from gristmill import catalog
from gristmill.catalog import Base, ItemStatus, phase
from gristmill.catalog import progress as shown_progress
from gristmill.ingest import embed, progress
from gristmill.ingest.chunk import TextChunk
from gristmill.ingest.embed_queue import DocumentQueue
from gristmill.ingest.task import Completion, EndOfContent, IndexTask, ReadWindow, VersionContent
from gristmill.ingest.write_state import DocumentState, PlannedWrite
from gristmill.jobs import store
from gristmill.usage import BudgetUsedUp
from tests.ingest.paragraphs import paragraphs, small_chunk_base
from tests.operations.manual_worker import ManualWorker, folder_to_add, note_to_add


class _TaskWithoutJob:
    """What a queue needs of a task."""

    def __init__(self) -> None:
        self.completion = Completion()


def chunks(first: int, count: int) -> list[TextChunk]:
    return [TextChunk(index, "rye", 0, 3, ()) for index in range(first, first + count)]


def read(state: DocumentState, count: int, share: float) -> None:
    """Read the next chunks of a document; with a share of 1, the last ones."""
    end = EndOfContent() if share == 1 else None
    state.add(ReadWindow([], chunks(state.chunk_count, count), share, end=end))


def write(state: DocumentState, *indexes: int) -> None:
    is_read = state.end is not None
    state.record(PlannedWrite(state, [], frozenset(indexes), (), (), (), is_read, is_last=False), 0.0)


@pytest.fixture
def state() -> DocumentState:
    return DocumentState(cast(IndexTask, None), VersionContent(b"", 0))


def test_reading_is_60_percent_and_writing_40(state: DocumentState) -> None:
    """S4-34: a document that has been read is at 60 %; every written chunk adds its share of the other 40."""
    read(state, 4, share=1)
    percents = [state.percent]
    for index in range(4):
        write(state, index)
        percents.append(state.percent)
    assert percents == [60, 70, 80, 90, 99]


def test_batches_fill_the_last_part_of_what_has_been_read(state: DocumentState) -> None:
    """S4-35: half of a long document, read and written, is half of its progress."""
    read(state, 2, share=0.5)
    assert state.percent == 30
    write(state, 0)
    assert state.percent == 40
    write(state, 1)
    assert state.percent == 50


def test_a_batch_has_at_most_200_chunks_and_may_have_100() -> None:
    """S4-52, S4-29: `test_pipeline.py` shows that batches grow up to this limit."""
    assert 100 <= embed.MAX_BATCH <= 200
    assert embed.MIN_BATCH <= 100


def test_progress_is_written_every_300_ms() -> None:
    """S4-38."""
    assert progress.EVERY.total_seconds() == 0.3


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (ItemStatus.IDLE, "pending"),
        (ItemStatus.PREPARING, "pending"),
        (ItemStatus.PROCESSING, "pending"),
        (ItemStatus.READING, "preprocessing"),
        (ItemStatus.EMBEDDING, "embedding"),
        (ItemStatus.COMPLETED, "completed"),
        (ItemStatus.FAILED, "failed"),
        (ItemStatus.DELETING, "pending"),
    ],
)
def test_every_status_has_one_of_five_phases(status: ItemStatus, expected: str) -> None:
    """S4-14, S4-37."""
    assert phase(status) == expected


@pytest.mark.parametrize(
    ("status", "percent", "expected"),
    [
        (ItemStatus.COMPLETED, None, 100),
        (ItemStatus.COMPLETED, 40.0, 100),
        (ItemStatus.EMBEDDING, 99.9, 99),
        (ItemStatus.EMBEDDING, 100.0, 99),
        (ItemStatus.READING, 12.7, 12),
        (ItemStatus.PROCESSING, None, 0),
        (ItemStatus.PROCESSING, -3.0, 0),
        (ItemStatus.FAILED, 71.0, 71),
    ],
)
def test_only_a_completed_item_shows_100(status: ItemStatus, percent: float | None, expected: int) -> None:
    """S4-64, S4-67: what is reported is cut to 0..99; a failure keeps what it had (S4-49)."""
    assert shown_progress(status, percent) == expected


async def test_a_document_with_256_waiting_chunks_is_not_read_further() -> None:
    """S4-20, S4-53: however large a document is, this is all that waits in memory; it is read on as chunks are taken."""
    queue = DocumentQueue(cast(IndexTask, _TaskWithoutJob()))
    queue.add(chunks(0, 255), is_last=False)
    await queue.wait_for_room()
    queue.add(chunks(255, 1), is_last=False)
    reader = asyncio.ensure_future(queue.wait_for_room())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not reader.done()
    queue.take(1)
    await reader


@pytest.mark.slow
async def test_progress_never_falls_and_ends_at_a_hundred(
    worker: ManualWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-34, S4-35, S4-36, S4-38, S4-67: reported while it runs, by every process."""
    monkeypatch.setattr("gristmill.ingest.progress.EVERY", timedelta(milliseconds=5))
    base = await small_chunk_base(worker)
    (item,) = await worker.add(base, note_to_add("n", paragraphs(600)))
    (job,) = await worker.claim()
    running = asyncio.ensure_future(worker.run(job))
    percentages: list[float] = []
    while not running.done():
        rows = await worker.rows("select percent from progress where item_id = %s", item.id)
        percentages += [row[0] for row in rows]
        await asyncio.sleep(0)
    await running
    assert percentages == sorted(percentages)
    assert len(set(percentages)) > 2
    assert max(percentages) < 100
    assert await worker.statuses() == {"n": "completed"}


@pytest.mark.slow
async def test_a_folder_shows_one_percentage_that_never_falls_while_it_is_listed(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    """S4-04: each child counts the same, one that is not listed yet nothing."""
    for number in range(6):
        (tmp_path / f"d{number % 3}").mkdir(exist_ok=True)
        (tmp_path / f"d{number % 3}/{number}.md").write_text(f"rye {number}")
    (root,) = await worker.add(base, folder_to_add(tmp_path))
    percentages = [0.0]
    while jobs := await worker.claim():
        await worker.run(jobs[0])
        percentages.append(await worker.value("select item_progress(%s)", root.id))
    assert percentages == sorted(percentages)
    assert percentages[-1] == pytest.approx(100)
    assert len(set(percentages)) > 4


async def test_what_a_worker_reported_before_it_was_killed_does_not_hide_why_the_document_waits_now(
    worker: ManualWorker, base: Base
) -> None:
    """S4-42: the report of an embedder that was down stayed, for ever, if its worker was killed at that moment."""
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    (job,) = await worker.claim()
    report = {
        "id": str(item.id),
        "version": 1,
        "percent": 10,
        "note": "The embedder is at its limits.",
        "note_code": "embedder_paced",
        "next_in": 5,
        "job": str(job.id),
        "lease": str(job.lease),
    }
    async with worker.db.transaction() as tx:
        await catalog.record_progress(tx, [report])
    code = "select waiting_for ->> 'code' from item_row where id = %s"
    assert await worker.value(code, item.id) == "embedder_paced"
    async with worker.db.transaction() as tx:
        await store.postpone(tx, job, timedelta(minutes=1), counted=False, error=BudgetUsedUp("Used up."))
    assert await worker.value(code, item.id) == "budget_used_up"
