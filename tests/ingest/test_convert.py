"""Documents that a base's file processor reads: started once, polled between snoozes, cancelled when no longer needed."""

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from gristmill import faults
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.errors import Transient
from gristmill.ingest.processors import ConversionState
from gristmill.jobs import retry
from gristmill.operations import bases, cancel, delete
from gristmill.settings import Settings
from tests.ingest.test_attachments import upload
from tests.operations.manual_worker import ManualWorker

pytestmark = pytest.mark.slow


@dataclass
class FakeProcessor:
    """A processor that the test controls; it can cancel."""

    state: ConversionState = field(default_factory=lambda: ConversionState("running", 0.5))
    started_files: list[str] = field(default_factory=list[str])
    cancelled_ids: list[str] = field(default_factory=list[str])
    polls: int = 0
    is_unreachable: bool = False
    markdown: str | None = None

    @property
    def identity(self) -> str:
        return "service/1"

    @property
    def extensions(self) -> Collection[str]:
        return ("pdf",)

    async def start(self, path: Path, name: str) -> str:
        if self.is_unreachable:
            raise Transient("It is away.", code="processor_unreachable")
        self.started_files.append(name)
        return f"remote-{len(self.started_files)}"

    async def poll(self, remote_id: str) -> ConversionState:
        self.polls += 1
        return self.state

    async def fetch(self, remote_id: str) -> str:
        return f"# Converted\n\nEmmer by {remote_id}.\n" if self.markdown is None else self.markdown

    async def cancel(self, remote_id: str) -> bool:
        self.cancelled_ids.append(remote_id)
        return True

    async def close(self) -> None:
        pass


@pytest.fixture
def service() -> FakeProcessor:
    return FakeProcessor()


@pytest.fixture
async def worker(db: Database, settings: Settings, service: FakeProcessor) -> ManualWorker:
    return await ManualWorker.start(db, settings, processors={"service": service})


@pytest.fixture
async def base(worker: ManualWorker) -> AsyncGenerator[Base]:
    new_base = await worker.base()
    yield await bases.patch(worker.db, new_base.id, file_processor="service")
    await worker.assert_healthy()


async def status(worker: ManualWorker) -> tuple[str, str | None]:
    ((state, code),) = await worker.rows("select status, error_code from item")
    return state, code


async def content(worker: ManualWorker) -> list[str]:
    return [row[0] for row in await worker.rows("select text from content_part order by text")]


async def test_a_document_is_converted_elsewhere_and_no_slot_is_held_meanwhile(
    worker: ManualWorker, base: Base, service: FakeProcessor
) -> None:
    """S1-14, S1-16, C25."""
    await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.run(await worker.take("index_document"))
    await worker.assert_healthy()
    move = await worker.run(await worker.take("check_file_processing_result"))
    assert isinstance(move, retry.Postpone)
    assert (move.delay, move.counted) == (timedelta(seconds=5), False)
    assert (await status(worker))[0] == "reading"
    await worker.make_due()
    move = await worker.step()
    assert isinstance(move, retry.Postpone)
    assert move.delay == timedelta(seconds=5)  # it made progress
    service.state = ConversionState("done")
    await worker.make_due()
    await worker.work()
    assert await status(worker) == ("completed", None)
    assert await content(worker) == ["# Converted\n\nEmmer by remote-1.\n"]
    assert service.started_files == ["a.pdf"]
    assert await worker.rows("select 1 from conversion") == []


async def test_an_item_says_that_it_waits_for_the_processor_since_when_and_until_when(
    worker: ManualWorker, base: Base, service: FakeProcessor
) -> None:
    async def waiting_for() -> dict[str, str]:
        return await worker.value("select waiting_for from item_row")

    await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.run(await worker.take("index_document"))
    await worker.run(await worker.take("check_file_processing_result"))
    first = await waiting_for()
    assert first["code"] == "conversion_running"
    assert first["message"] == "The file processor 'service' is converting the file."
    assert first["next_attempt_at"] > first["since"]
    service.state = ConversionState("waiting", position=3)
    await worker.make_due()
    await worker.step()
    second = await waiting_for()
    assert second["message"] == "The file is number 3 in the queue of the file processor 'service'."
    assert second["since"] == first["since"]
    service.state = ConversionState("done")
    await worker.make_due()
    await worker.work()
    assert await waiting_for() is None


@pytest.mark.parametrize("policy", ["fail", "warn"])
async def test_a_conversion_without_text_ends_as_the_base_wants(
    worker: ManualWorker, base: Base, service: FakeProcessor, policy: str
) -> None:
    """S1-11: never silent; also for the files that a processor reads."""
    await bases.patch(worker.db, base.id, settings={"emptyDocuments": policy})
    service.state, service.markdown = ConversionState("done"), " \r\n"
    await upload(worker, base, "scan.pdf", b"%PDF bytes")
    await worker.work()
    await worker.make_due()
    await worker.work()
    (row,) = await worker.rows("select status, error_code, warnings from item")
    assert row == {"fail": ("failed", "no_text", []), "warn": ("completed", None, ["no_text"])}[policy]
    other = await bases.patch(worker.db, (await worker.base("other")).id, file_processor="service")
    await upload(worker, other, "same.pdf", b"%PDF bytes")
    await worker.work()
    await worker.make_due()
    await worker.work()
    assert (await worker.rows("select error_code from item where base_id = %s", other.id)) == [("no_text",)]


async def test_equal_bytes_are_converted_once_and_other_files_are_read_here(
    worker: ManualWorker, base: Base, service: FakeProcessor
) -> None:
    """S1-22, promise 4."""
    service.state = ConversionState("done")
    for name, data in (("a.pdf", b"%PDF bytes"), ("b.pdf", b"%PDF bytes"), ("c.txt", b"Rye.")):
        await upload(worker, base, name, data)
        await worker.work()
        await worker.make_due()
        await worker.work()
    assert service.started_files == ["a.pdf"]
    assert set((await worker.statuses()).values()) == {"completed"}
    assert await content(worker) == ["# Converted\n\nEmmer by remote-1.\n", "Rye."]


async def test_another_worker_goes_on_asking_after_the_same_conversion(
    worker: ManualWorker, base: Base, service: FakeProcessor, db: Database, settings: Settings
) -> None:
    """A restart resumes the poll, and starts no second conversion."""
    await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.work()
    second_worker = await ManualWorker.start(db, settings, processors={"service": service})
    service.state = ConversionState("done")
    await second_worker.make_due()
    await second_worker.work()
    assert await status(worker) == ("completed", None)
    assert len(service.started_files) == 1


async def test_a_start_that_was_cut_off_is_not_repeated_blindly(
    worker: ManualWorker, base: Base, service: FakeProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C26: killed while it was being started; it takes a new request."""
    monkeypatch.setattr(faults, "_armed", {})
    item = await upload(worker, base, "a.pdf", b"%PDF bytes")
    faults.arm("convert.starting=fail")
    await worker.work()
    await worker.make_due()
    await worker.work()
    assert await status(worker) == ("failed", "conversion_uncertain")
    assert service.started_files == []
    service.state = ConversionState("done")
    await worker.reindex(base, item)
    await worker.work()
    await worker.make_due()
    await worker.work()
    assert await status(worker) == ("completed", None)


async def test_a_service_that_is_away_is_tried_again(
    worker: ManualWorker, base: Base, service: FakeProcessor
) -> None:
    service.is_unreachable = True
    await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.work()
    assert (await status(worker))[0] == "reading"
    service.is_unreachable, service.state = False, ConversionState("done")
    for _ in range(2):
        await worker.make_due()
        await worker.work()
    assert await status(worker) == ("completed", None)


async def test_half_an_hour_without_progress_is_the_end(
    worker: ManualWorker, base: Base, service: FakeProcessor
) -> None:
    """S1-15, C15."""
    service.state = ConversionState("running", 0.0)
    await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.work()
    for minutes, ending in (
        (timedelta(minutes=28), None),
        (timedelta(minutes=30) - timedelta(seconds=1), "conversion_timeout"),
    ):
        await worker.rows("update conversion set waited = %s returning 1", minutes)
        await worker.make_due()
        await worker.work()
        assert (await status(worker))[1] == ending
    assert (await status(worker))[0] == "failed"
    assert service.cancelled_ids == ["remote-1"]
    assert await worker.rows("select 1 from conversion") == []


async def test_a_deleted_document_is_called_off(
    worker: ManualWorker, base: Base, service: FakeProcessor
) -> None:
    item = await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.work()
    await delete.delete(worker.db, base.id, [item])
    await worker.work()
    assert service.cancelled_ids == ["remote-1"]
    assert await worker.rows("select 1 from conversion") == []


async def test_a_replaced_document_is_called_off_and_the_new_one_converted(
    worker: ManualWorker, base: Base, service: FakeProcessor
) -> None:
    await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.work()
    await upload(worker, base, "a.pdf", b"%PDF other bytes")
    await worker.make_due()
    await worker.work()
    assert service.cancelled_ids == ["remote-1"]
    service.state = ConversionState("done")
    await worker.make_due()
    await worker.work()
    assert await status(worker) == ("completed", None)
    assert await content(worker) == ["# Converted\n\nEmmer by remote-2.\n"]


async def test_cancelling_the_job_calls_the_conversion_off(
    worker: ManualWorker, base: Base, service: FakeProcessor
) -> None:
    await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.work()
    ((job,),) = await worker.rows("select id from job where kind = 'check_file_processing_result'")
    await cancel.cancel(worker.db, job)
    await worker.work()
    assert await status(worker) == ("failed", "cancelled")
    assert service.cancelled_ids == ["remote-1"]


async def test_a_processor_that_is_not_configured_is_reported(worker: ManualWorker, base: Base) -> None:
    """S1-22: invalid."""
    await bases.patch(worker.db, base.id, file_processor="gone")
    await upload(worker, base, "a.pdf", b"%PDF bytes")
    await worker.work()
    assert await status(worker) == ("failed", "unknown_file_processor")


async def test_a_base_can_only_name_a_processor_that_is_set_up(http: httpx.AsyncClient) -> None:
    """S1-16."""
    answer = await http.post("/api/knowledge-bases", json={"name": "a", "fileProcessorId": "seer"})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_file_processor")
    answer = await http.post("/api/knowledge-bases", json={"name": "a", "fileProcessorId": "local"})
    assert answer.status_code == 201
