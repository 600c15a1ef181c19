"""Traces of requests, jobs, stages and provider calls, and their cost while they are off."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gristmill import app
from gristmill.settings import Settings
from gristmill.telemetry import traces
from tests.api_calls import add_items, make_base
from tests.embedding.endpoint import Endpoint, serve
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with serve() as trace_endpoint:
        yield trace_endpoint


@pytest.fixture
def settings(settings: Settings, endpoint: Endpoint) -> Settings:
    provider = {"url": endpoint.url, "model": "hashed", "dimensions": 64}
    return Settings.model_validate(
        {
            **settings.model_dump(exclude={"embedder", "embedders"}),
            "database_url": settings.database_url,
            "embedder": "provider",
            "embedders": {"provider": provider},
        }
    )


@pytest.fixture
def spans() -> Generator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    end = traces.start_with_processor(SimpleSpanProcessor(exporter))
    yield exporter
    end()


@pytest.fixture
async def mill(settings: Settings, spans: InMemorySpanExporter) -> AsyncGenerator[app.Gristmill]:
    async with app.gristmill(settings, work=True) as running:
        yield running


def spans_named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


async def test_requests_jobs_stages_and_provider_calls_have_spans(
    http: httpx.AsyncClient, spans: InMemorySpanExporter
) -> None:
    base = await make_base(http)
    await add_items(http, base, {"type": "note", "content": "the wheel turns"})

    async def look() -> ReadableSpan | None:
        return next(iter(spans_named(spans, "job index_document")), None)

    job = await wait_until(look)
    assert job.attributes is not None
    assert job.context is not None
    assert (job.attributes["lane"], job.attributes["attempt"]) == (base, 1)
    for stage in ("read", "embed", "write"):
        (span,) = spans_named(spans, f"stage {stage}")
        assert span.parent is not None
        assert span.parent.span_id == job.context.span_id
    calls = spans_named(spans, "POST 127.0.0.1")
    assert {call.context.trace_id for call in calls if call.context} == {job.context.trace_id}
    (request,) = spans_named(spans, "POST /api/knowledge-bases/{base_id}/items")
    assert request.attributes is not None
    assert request.attributes["http.response.status_code"] == 202
    assert all("wheel" not in str(span.attributes) for span in spans.get_finished_spans())


async def test_a_request_continues_the_trace_of_its_sender(
    http: httpx.AsyncClient, spans: InMemorySpanExporter
) -> None:
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    await http.get("/api/knowledge-bases", headers=headers)
    (span,) = spans_named(spans, "GET /api/knowledge-bases")
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_the_sdk_is_not_loaded_while_traces_are_off() -> None:
    code = (
        "import sys, gristmill.app\n"
        "from gristmill.telemetry import traces\n"
        "with traces.span('x') as annotate: annotate({'a': 1})\n"
        "traces.record_past_span('y', 1.0)\n"
        "assert not any(name.startswith('opentelemetry.sdk') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
