"""What a transaction writes of documents that arrive in several batches."""

import asyncio
import gc
from typing import Any, cast

import httpx
import numpy as np
import psycopg

from gristmill import app, faults
from gristmill.catalog import Base
from gristmill.ingest.chunk import TextChunk
from gristmill.ingest.task import EmbeddedChunks, EndOfContent, IndexTask, ReadWindow, VersionContent
from gristmill.ingest.write_state import DocumentState, plan_writes
from gristmill.search import Chunk
from tests.api_calls import add_items, make_base
from tests.operations.manual_worker import ManualWorker, note_to_add
from tests.wait_until import wait_until


def new_document(chunks: int) -> DocumentState:
    """A document that has been read completely."""
    nothing = cast(Any, None)
    task = IndexTask(nothing, nothing, nothing, 1, nothing, nothing, "recipe")
    state = DocumentState(task, VersionContent(b"digest", 4))
    texts = [TextChunk(index, "text", 0, 4, ()) for index in range(chunks)]
    state.add(ReadWindow([], texts, 1.0, end=EndOfContent()))
    return state


def batch(state: DocumentState, *indexes: int) -> tuple[EmbeddedChunks, DocumentState]:
    chunks = [Chunk(index, "text", 0, 4, (), np.ones(4, np.float32)) for index in indexes]
    return EmbeddedChunks(state.task, chunks), state


def ends(*batches: tuple[EmbeddedChunks, DocumentState]) -> list[bool]:
    return [write.is_last for write in plan_writes(batches)]


async def test_two_batches_of_a_document_in_one_transaction_end_it_together() -> None:
    """Otherwise neither would end it, and the document would hang."""
    document = new_document(3)
    first, last = batch(document, 0, 1), batch(document, 2)
    assert ends(first, last) == [False, True]
    assert ends(last, first) == [False, True]


async def test_a_document_ends_once_and_not_before_all_of_it_is_written() -> None:
    document, other = new_document(3), new_document(1)
    assert ends(batch(document, 0), batch(other, 0)) == [False, True]
    (write,) = plan_writes([batch(document, 0, 1)])
    document.record(write, 0.1)
    assert ends(batch(document, 1), batch(document, 2), batch(document)) == [False, True, False]


async def test_nothing_of_a_document_stays_in_memory_when_it_has_ended(
    worker: ManualWorker, base: Base
) -> None:
    """A worker runs for months."""

    def states() -> int:
        gc.collect()
        return sum(isinstance(entry, DocumentState) for entry in gc.get_objects())

    before = states()
    await worker.add(base, *(note_to_add(f"n{number}", f"rye {number}") for number in range(3)))
    await worker.work()
    assert states() == before


async def test_parts_that_are_read_while_a_batch_is_written_are_stored_too(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """The last window arrives between planning and commit: the next batch writes its parts."""
    text = "\n\n".join(
        f"Stone {n} of the mill turns slowly over the grain of the year." for n in range(4_600)
    )
    base = await make_base(http)
    with (
        faults.watch("index.window", hold=True) as window,
        faults.watch("write.begun", hold=True) as begun,
        faults.watch("index.read") as read,
    ):
        await add_items(http, base, {"type": "note", "content": text})
        await begun.passed.wait()
        window.hold.set()
        await read.passed.wait()
        begun.hold.set()

        async def is_completed() -> Any:
            (item,) = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
            return item if item["status"] == "completed" else None

        item = await wait_until(is_completed)
    assert (await http.get(f"/api/knowledge-items/{item['id']}/content")).text == text
    async with mill.db.connection() as tx:
        parts = await (await tx.execute("select sum(length(text)) from content_part")).fetchone()
    assert parts == (len(text),)


async def test_a_write_that_fails_is_tried_twice_more_and_costs_only_its_document(
    worker: ManualWorker, base: Base
) -> None:
    """S4-45, S4-47: with its transaction, then alone, then alone once more; the rest is for the next attempt of the job."""
    async with worker.db.connection() as tx:
        await tx.execute("create sequence tries")  # counts although its transactions are rolled back
        await tx.execute(
            "create function refuse() returns trigger language plpgsql as $$ begin"
            " if new.text like 'bad%' then perform nextval('tries'); raise 'refused'; end if; return new; end $$"
        )
        await tx.execute(
            "create trigger refuse before insert on chunk for each row execute function refuse()"
        )
    texts = [f"rye {number}" for number in range(16)]
    texts[7] = "bad rye"  # embedded in one batch with others, and therefore written with them
    await worker.add(base, *(note_to_add(text, text) for text in texts))
    outcomes = await asyncio.gather(
        *(worker.run(job) for job in await worker.claim(16)), return_exceptions=True
    )
    statuses = await worker.statuses()
    assert statuses.pop("bad rye") != "completed"
    assert set(statuses.values()) == {"completed"}
    assert len(await worker.rows("select text from chunk")) == 15
    assert len([outcome for outcome in outcomes if isinstance(outcome, psycopg.errors.RaiseException)]) == 1
    assert 2 <= await worker.value("select last_value from tries") <= 3
