"""Both processors keep the port's promises, against fakes of their services (S1-14, S1-15, S1-16)."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import Permanent, Transient, WorkError
from gristmill.ingest.processors import (
    Conversion,
    DoclingServe,
    MinerU,
    Processor,
    ProcessorConfig,
    choose_reader,
    pause_before_check,
)
from gristmill.ingest.processors.conversion import DEADLINE, MAX_PAUSE
from tests.ingest.processors import services
from tests.ingest.processors.converting import convert
from tests.ingest.processors.services import MARKDOWN, Service


@dataclass(frozen=True)
class Kind:
    name: str
    answer: Any
    make: Callable[[ProcessorConfig], Processor]
    key: tuple[str, str]
    begins: str  # the request that begins the conversion
    asks: str
    waiting: dict[str, Any]
    running: Callable[[int], dict[str, Any]]
    done: dict[str, Any]
    failed: dict[str, Any]


KINDS = [
    Kind(
        "docling",
        services.docling,
        DoclingServe,
        ("X-Api-Key", "k3y"),
        "/v1/convert/file/async",
        "/v1/status",
        {"task_status": "pending", "task_position": 2},
        lambda pages: {"task_status": "started", "task_meta": {"num_processed": pages}},
        {"task_status": "success"},
        {"task_status": "failure", "error_message": "it is broken"},
    ),
    Kind(
        "mineru",
        services.mineru,
        MinerU,
        ("Authorization", "Bearer k3y"),
        "/upload/x",
        "/api/v4/extract-results",
        {"state": "pending"},
        lambda pages: {"state": "running", "extract_progress": {"extracted_pages": pages, "total_pages": 9}},
        {"state": "done"},
        {"state": "failed", "err_msg": "it is broken"},
    ),
]


@dataclass(frozen=True)
class ProcessorCase:
    kind: Kind
    service: Service
    processor: Processor


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
async def serve_case(request: pytest.FixtureRequest) -> AsyncGenerator[ProcessorCase]:
    kind: Kind = request.param
    with services.serve(kind.answer) as service:
        config = ProcessorConfig(service.url, "k3y", timedelta(seconds=5), timedelta(seconds=5))
        processor = kind.make(config)
        yield ProcessorCase(kind, service, processor)
        await processor.close()


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-1.7 the bytes of the document")
    return path


class ConversionRecorder:
    """Records the saved states and how long it would have waited, without waiting."""

    def __init__(self) -> None:
        self.saved_states: list[Conversion] = []
        self.waits: list[float] = []

    async def save(self, conversion: Conversion) -> None:
        self.saved_states.append(conversion)

    async def wait(self, duration: timedelta) -> None:
        self.waits.append(duration.total_seconds())


async def test_a_document_is_uploaded_once_asked_after_and_fetched(
    serve_case: ProcessorCase, document: Path
) -> None:
    serve_case.service.states = [
        serve_case.kind.waiting,
        serve_case.kind.waiting,
        serve_case.kind.running(0),
        serve_case.kind.running(3),
        serve_case.kind.done,
    ]
    notes = ConversionRecorder()
    assert await convert(serve_case.processor, document, "größe.pdf", notes.save, wait=notes.wait) == MARKDOWN
    uploads = [body for _, path, _, body in serve_case.service.requests if path == serve_case.kind.begins]
    assert len(uploads) == 1
    assert b"the bytes of the document" in uploads[0]
    assert len({state.remote_id for state in notes.saved_states}) == 1
    # Progress begins the pauses again.
    assert notes.waits[0] == 5
    assert notes.waits[-1] == 5
    assert max(notes.waits) > 5


async def test_the_key_goes_to_the_service_and_nowhere_else(
    serve_case: ProcessorCase, document: Path
) -> None:
    serve_case.service.states = [serve_case.kind.done]
    await convert(
        serve_case.processor, document, "a.pdf", ConversionRecorder().save, wait=ConversionRecorder().wait
    )
    name, value = serve_case.kind.key
    for _, path, headers, _ in serve_case.service.requests:
        foreign = path in ("/upload/x", "/result.zip")
        assert (headers.get(name) or headers.get(name.lower())) == (None if foreign else value), path


async def test_what_was_kept_is_asked_after_and_not_begun_again(
    serve_case: ProcessorCase, document: Path
) -> None:
    """S3-03, C26."""
    serve_case.service.states = [serve_case.kind.done]
    under_way = Conversion("t 1" if serve_case.kind.name == "docling" else "b 1")
    assert (
        await convert(
            serve_case.processor,
            document,
            "a.pdf",
            ConversionRecorder().save,
            under_way,
            ConversionRecorder().wait,
        )
        == MARKDOWN
    )
    assert serve_case.kind.begins not in (*serve_case.service.paths("POST"), *serve_case.service.paths("PUT"))


async def test_a_conversion_that_failed_says_why(serve_case: ProcessorCase, document: Path) -> None:
    serve_case.service.states = [serve_case.kind.running(1), serve_case.kind.failed]
    with pytest.raises(Permanent, match="it is broken") as caught:
        await convert(
            serve_case.processor, document, "a.pdf", ConversionRecorder().save, wait=ConversionRecorder().wait
        )
    assert caught.value.code == "conversion_failed"


async def test_half_an_hour_without_progress_is_the_end_and_progress_extends_it(
    serve_case: ProcessorCase, document: Path
) -> None:
    """S1-15, C15."""
    serve_case.service.states = [serve_case.kind.running(pages) for pages in range(60) for _ in range(3)] + [
        serve_case.kind.running(60)
    ]
    notes = ConversionRecorder()
    with pytest.raises(Permanent) as caught:
        await convert(serve_case.processor, document, "a.pdf", notes.save, wait=notes.wait)
    assert caught.value.code == "conversion_timeout"
    assert sum(notes.waits) > DEADLINE.total_seconds() + 60 * 10  # progress extended the time
    since = [state.waited for state in notes.saved_states]
    assert max(since) < DEADLINE


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (429, Transient, "processor_unavailable"),
        (503, Transient, "processor_unavailable"),
        (401, Permanent, "processor_unauthorized"),
        (422, Permanent, "processor_refused"),
    ],
)
async def test_each_refusal_has_its_code_and_reveals_no_key(
    serve_case: ProcessorCase, document: Path, status: int, kind: type[WorkError], code: str
) -> None:
    serve_case.service.fails[serve_case.kind.begins] = status
    with pytest.raises(kind) as caught:
        await serve_case.processor.start(document, "a.pdf")
    assert caught.value.code == code
    assert "k3y" not in caught.value.message
    if isinstance(caught.value, Transient) and status == 429:
        assert caught.value.retry_after == timedelta(seconds=7)


async def test_a_beginning_without_an_answer_is_not_repeated_blindly(
    serve_case: ProcessorCase, document: Path
) -> None:
    """S3-03, C26: it may have begun, and cost."""
    serve_case.service.hangs_up = serve_case.kind.begins
    with pytest.raises(Permanent) as caught:
        await serve_case.processor.start(document, "a.pdf")
    assert caught.value.code == "conversion_uncertain"
    # Asking may be repeated.
    serve_case.service.hangs_up = serve_case.kind.asks
    with pytest.raises(Transient) as error:
        await serve_case.processor.poll("t 1" if serve_case.kind.name == "docling" else "b 1")
    assert error.value.code == "processor_unreachable"


async def test_a_service_that_is_not_there_is_tried_again(serve_case: ProcessorCase, document: Path) -> None:
    away = serve_case.kind.make(ProcessorConfig("http://127.0.0.1:9", None))
    with pytest.raises(Transient) as caught:
        await away.start(document, "a.pdf")
    assert caught.value.code == "processor_unreachable"
    await away.close()


async def test_an_invalid_response_is_reported(serve_case: ProcessorCase) -> None:
    serve_case.service.states = [{"task_status": "odd", "state": "odd"}]
    with pytest.raises(Permanent) as caught:
        await serve_case.processor.poll("t 1" if serve_case.kind.name == "docling" else "b 1")
    assert caught.value.code == "processor_bad_answer"


class Cancellable:
    """A processor that never finishes, and can be cancelled."""

    identity = "test"
    extensions = frozenset(("pdf",))

    def __init__(self) -> None:
        self.cancelled_ids: list[str] = []

    async def start(self, path: Path, name: str) -> str:
        return "r1"

    async def poll(self, remote_id: str) -> Any:
        raise AssertionError

    async def fetch(self, remote_id: str) -> str:
        raise AssertionError

    async def cancel(self, remote_id: str) -> bool:
        self.cancelled_ids.append(remote_id)
        return True

    async def close(self) -> None:
        pass


async def test_a_conversion_that_is_no_longer_needed_is_cancelled_remotely(document: Path) -> None:
    processor, waiting = Cancellable(), asyncio.Event()

    async def wait(_: timedelta) -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(convert(processor, document, "a.pdf", ConversionRecorder().save, wait=wait))
    await waiting.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert processor.cancelled_ids == ["r1"]


def test_pauses_grow_from_five_seconds_to_a_minute() -> None:
    pauses = [pause_before_check(Conversion("x", checks=checks)).total_seconds() for checks in range(30)]
    assert pauses[0] == 5
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_PAUSE.total_seconds()


def test_a_base_says_who_reads_its_documents() -> None:
    """S1-22."""
    processors = {"remote": Cancellable()}
    assert choose_reader("a.pdf", None, processors) == choose_reader("a.pdf", "local", processors) == "direct"
    assert choose_reader("A.PDF", "remote", processors) == "process"
    assert choose_reader("a.txt", "remote", processors) == "direct"
    assert choose_reader("a.pdf", "gone", processors) == "invalid"
