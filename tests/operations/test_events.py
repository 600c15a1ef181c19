"""Events commit with the change that they report, and all readers see them in one order without gaps."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gristmill import events, faults
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.errors import Permanent
from gristmill.events import EVENTS, RecordedEvent
from gristmill.identity import LOCAL_ORG
from gristmill.operations import add, bases, cancel, delete
from gristmill.operations import retry as retrying
from tests.embedding.hashed import HashedEmbedder
from tests.operations.interleave import pause_at, start_blocked
from tests.operations.manual_worker import (
    UNLIMITED,
    ManualWorker,
    folder_to_add,
    index_folder,
    note_to_add,
)


async def read(db: Database, after: int = 0) -> list[RecordedEvent]:
    """The events that a reader sees now."""
    async with db.transaction() as tx:
        while await events.sequence_batch(tx):
            pass
    async with db.connection() as tx:
        return await events.read(tx, LOCAL_ORG, after=after, limit=10_000)


def types(events_read: list[RecordedEvent], about: Any = None) -> list[str]:
    """The types, of one subject or of all."""
    return [event.type for event in events_read if about is None or event.subject == about]


async def test_a_note_records_each_of_its_steps_once(worker: ManualWorker, base: Base) -> None:
    """S3-14, S3-16, S3-17, S3-18, S3-20, S3-21; S3-08, S3-09, S3-11."""
    (item,) = await worker.add(base, note_to_add("rye"))
    await worker.work()
    events_read = await read(worker.db)
    assert types(events_read) == [
        "BaseCreated",
        "DocumentUploadCompleted",
        "DocumentContentExtracted",
        "DocumentChunkingCompleted",
        "DocumentIndexingCompleted",
        "DocumentIngestionCompleted",
        "KnowledgeSpaceAllDocumentsIngested",
    ]
    assert {event.subject for event in events_read[1:6]} == {item.id}
    assert [event.seq for event in events_read] == list(range(1, 8))
    assert events_read[-1].data == {"completed": 1, "failed": 0}


async def test_events_that_follow_from_a_request_carry_its_cause(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """From the add through the folder to the files below it; a reindex has its own."""
    result = await add.add(worker.db, base.id, [folder_to_add(docs)], UNLIMITED)
    await worker.work()
    of_documents = [event for event in await read(worker.db) if event.subject is not None]
    assert len(of_documents) == 14  # two folders with two events each, two files with five
    assert {event.cause for event in of_documents} == {result.cause}
    last = (await read(worker.db))[-1].seq
    again = await worker.reindex(base, result.created[0].id)
    await worker.work()
    later = [event for event in await read(worker.db, last) if event.subject is not None]
    assert {event.cause for event in later} == {again.job_id}
    assert "DocumentUploadCompleted" not in types(later)


async def test_a_base_is_ready_once_and_again_only_after_new_work(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S3-21: not between the files of one folder, not for a change of its name, not twice for one piece of work."""
    items = await index_folder(worker, base, docs)
    await bases.patch(worker.db, base.id, name="other")
    assert types(await read(worker.db)).count("KnowledgeSpaceAllDocumentsIngested") == 1
    assert types(await read(worker.db))[-2] == "KnowledgeSpaceAllDocumentsIngested"
    await worker.reindex(base, items["docs"].id)
    await worker.work()
    assert types(await read(worker.db)).count("KnowledgeSpaceAllDocumentsIngested") == 2
    await delete.delete(worker.db, base.id, [items["deep"].id])
    await worker.work()
    assert types(await read(worker.db)).count("KnowledgeSpaceAllDocumentsIngested") == 2


@pytest.mark.parametrize("end", ["fails", "is cancelled", "is deleted"])
async def test_a_base_is_ready_whatever_ended_its_last_item(
    worker: ManualWorker, base: Base, end: str
) -> None:
    """S3-21: the base has no active item any more."""
    (_, last) = await worker.add(base, note_to_add("one"), note_to_add("two"))
    first_job, last_job = await worker.claim(2)
    await worker.run(first_job)
    assert "KnowledgeSpaceAllDocumentsIngested" not in types(await read(worker.db))
    match end:
        case "fails":
            async with worker.db.transaction() as tx:
                on_dead = worker.handlers["index_document"].on_dead
                assert on_dead is not None
                await on_dead(tx, last_job, Permanent("It has no text.", code="no_text"))
        case "is cancelled":
            await cancel.cancel(worker.db, last_job.id)
        case _:
            await delete.delete(worker.db, base.id, [last.id])
    events_read = await read(worker.db)
    assert events_read[-1].type == "KnowledgeSpaceAllDocumentsIngested"
    assert events_read[-1].data == {"completed": 1, "failed": 0 if end == "is deleted" else 1}
    if end == "is cancelled":
        assert types(events_read, last.id)[-1] == "ItemFailed"


async def test_when_the_last_two_items_end_at_once_the_base_is_announced_once(
    worker: ManualWorker, second_worker: ManualWorker, base: Base
) -> None:
    """S3-21: neither commits before the other has ended its item too."""
    await worker.add(base, note_to_add("one"), note_to_add("two"))
    (first_job,) = await worker.claim()
    (second_job,) = await second_worker.claim()
    async with pause_at("publish.before_commit", worker.run(first_job)):
        second_run = await start_blocked(worker, second_worker.run(second_job))
    await second_run
    assert types(await read(worker.db)).count("KnowledgeSpaceAllDocumentsIngested") == 1


async def test_documents_of_a_base_are_published_side_by_side_while_more_is_to_do(
    worker: ManualWorker, second_worker: ManualWorker, base: Base
) -> None:
    """S3-21: only the last ones wait for each other. One publishes while another's commit takes long."""
    await worker.add(base, note_to_add("one"), note_to_add("two"), note_to_add("three"))
    (first_job,) = await worker.claim()
    (second_job,) = await second_worker.claim()
    async with pause_at("publish.before_commit", worker.run(first_job)):
        await second_worker.run(second_job)
        assert types(await read(worker.db)).count("DocumentIngestionCompleted") == 1
    assert "KnowledgeSpaceAllDocumentsIngested" not in types(await read(worker.db))
    await worker.work()
    assert types(await read(worker.db)).count("KnowledgeSpaceAllDocumentsIngested") == 1


async def test_a_commit_that_lands_late_is_never_skipped_by_a_cursor(
    worker: ManualWorker, base: Base
) -> None:
    """The late event was written first, but comes after the events that a reader has seen."""
    last = (await read(worker.db))[-1].seq
    async with await psycopg.AsyncConnection.connect(worker.db.url) as late:
        await events.record(late, events.BaseChanged(base.id, "late"))
        async with worker.db.transaction() as tx:
            await events.record(tx, events.BaseChanged(base.id, "early"))
        events_read = await read(worker.db, last)
        assert [event.data["name"] for event in events_read] == ["early"]
        await late.commit()
    assert [event.data["name"] for event in await read(worker.db, events_read[-1].seq)] == ["late"]
    assert [event.seq for event in await read(worker.db)] == [1, 2, 3]


async def test_many_writers_and_readers_at_once_lose_nothing_and_agree(
    worker: ManualWorker, base: Base
) -> None:
    """Readers follow a cursor while sixteen transactions commit at a time."""
    event_count = 400

    async def write(number: int) -> None:
        async with worker.db.transaction() as tx:
            await events.record(tx, events.BaseChanged(base.id, str(number)))

    async def follow() -> list[tuple[int, str]]:
        events_read: list[tuple[int, str]] = []
        while len(events_read) < event_count:
            after = events_read[-1][0] if events_read else start
            events_read += [(event.seq, event.data["name"]) for event in await read(worker.db, after)]
        return events_read

    start = (await read(worker.db))[-1].seq
    readers = [asyncio.create_task(follow()) for _ in range(3)]
    await asyncio.gather(*(write(number) for number in range(event_count)))
    first, *other_readers = await asyncio.gather(*readers)
    assert other_readers == [first, first]
    assert sorted(int(name) for _, name in first) == list(range(event_count))
    assert [seq for seq, _ in first] == list(range(start + 1, start + event_count + 1))


@pytest.mark.parametrize(
    ("ask", "point"),
    [
        ("add", "add.before_commit"),
        ("delete", "delete.before_commit"),
        ("index", "publish.before_commit"),
        ("expand", "expand.before_commit"),
    ],
)
async def test_a_change_that_is_rolled_back_records_no_event(
    worker: ManualWorker, base: Base, docs: Path, ask: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State, job and event commit together or not at all."""
    monkeypatch.setattr(faults, "_armed", {})
    items = await worker.add(base, note_to_add("rye"), folder_to_add(docs))
    jobs = {job.kind: job for job in await worker.claim(2)}
    before = (await read(worker.db))[-1].seq
    faults.arm(f"{point}=fail")
    match ask:
        case "add":
            with pytest.raises(faults.FaultInjected):
                await worker.add(base, note_to_add("oats"))
        case "delete":
            with pytest.raises(faults.FaultInjected):
                await delete.delete(worker.db, base.id, [items[0].id])
        case "index":
            await worker.run(jobs["index_document"])
        case _:
            await worker.run(jobs["prepare_root"])
    events_read = await read(worker.db, before)
    if ask == "expand":  # its children, with a subfolder that was listed to its end, were filed before
        assert set(types(events_read)) == {"DocumentUploadCompleted", "ContainerAdded", "ContainerExpanded"}
        assert types(events_read, items[1].id) == []
    else:
        assert events_read == []


NO_EVENTS = (
    "create function refuse() returns trigger language plpgsql as"
    " $$ begin raise exception 'no more events'; end $$;"
    " create trigger refuse before insert on outbox for each statement execute function refuse()"
)


async def test_an_event_that_cant_be_written_undoes_the_change(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """Conversely: no change commits without its event."""
    items = await index_folder(worker, base, docs)
    before = await worker.statuses()
    async with worker.db.connection() as tx:
        await tx.execute(NO_EVENTS)
    for asking in (
        add.add(worker.db, base.id, [note_to_add("n")], UNLIMITED),
        delete.delete(worker.db, base.id, [items["docs"].id]),
        worker.reindex(base, items["docs"].id),
        bases.create(worker.db, "another", HashedEmbedder(), {}),
        bases.patch(worker.db, base.id, name="renamed"),
        bases.delete(worker.db, base.id),
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="no more events"):
            await asking
    assert await worker.statuses() == before
    assert await worker.rows("select name, status from base") == [("one", "ready")]
    assert await worker.value("select count(*) from job") == 0


async def test_deletions_record_events_when_accepted_and_when_done(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    items = await index_folder(worker, base, docs)
    deletion = await delete.delete(worker.db, base.id, [items["docs"].id])
    await worker.work()
    base_deletion = await bases.delete(worker.db, base.id)
    await worker.work()
    events_read = [
        event for event in await read(worker.db) if event.cause in (deletion.job_id, base_deletion)
    ]
    assert types(events_read) == ["ItemsDeleted", "ItemsRemoved", "BaseDeleted", "BaseRemoved"]
    assert events_read[0].data == {"rootIds": [str(items["docs"].id)], "items": 4}
    assert {**events_read[1].data, "rootIds": []} == {
        "rootIds": [],
        "items": 4,
        "chunks": 2,
        "contents": 2,
        "blobs": 0,
    }


async def test_a_retry_makes_a_base_ready_again(worker: ManualWorker, base: Base, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("rye")
    await worker.add(base, folder_to_add(tmp_path))
    path.unlink()
    faults_before = await worker.work()
    assert faults_before
    dead = await worker.rows("select id from job where state = 'dead'")
    for (job_id,) in dead:
        path.write_text("rye")
        await retrying.retry(worker.db, job_id)
        await worker.work()
    ready = types(await read(worker.db)).count("KnowledgeSpaceAllDocumentsIngested")
    assert ready == 1 + len(dead)


def test_every_event_is_named_by_its_class_and_says_when() -> None:
    assert len({event.type for event in EVENTS}) == len(EVENTS)
    for event in EVENTS:
        assert event.type == event.__name__
        assert event.__doc__, event
