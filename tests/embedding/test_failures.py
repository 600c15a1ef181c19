"""Misbehaving endpoints behind a governor, on real PostgreSQL and over real HTTP."""

import asyncio
import random
import threading
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from gristmill.db import Database
from gristmill.embedding import BadAnswer, EmbedderPaused, Embedders, OpenAIEmbedder, TextRefused, embed_each
from gristmill.embedding.governor import Governor
from gristmill.embedding.pacing import ProviderLimits
from gristmill.errors import WorkError
from gristmill.settings import EmbedderSettings, Settings
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, hashed_vectors
from tests.embedding.hashed import HashedEmbedder

pytestmark = pytest.mark.slow

TEXTS = [f"text number {n}" for n in range(24)]
Make = Callable[..., OpenAIEmbedder]


@pytest.fixture
async def remote(endpoint: Endpoint, db: Database) -> AsyncGenerator[Make]:
    """Makes embedders that are governed, and wait little."""
    resources: list[OpenAIEmbedder | Governor] = []

    def make(patience: float = 0.6, **overrides: Any) -> OpenAIEmbedder:
        request = {"url": endpoint.url, "model": "hashed", "dimensions": 64, "batch_size": 4, **overrides}
        settings = EmbedderSettings.model_validate(request)
        limits = ProviderLimits(
            settings.requests_per_minute, settings.tokens_per_minute, settings.concurrency
        )
        governor = Governor(db, endpoint.url, limits, "The embedder", patience=timedelta(seconds=patience))
        embedder = OpenAIEmbedder("remote", settings, governor)
        resources.extend([embedder, governor])
        return embedder

    yield make
    for resource in resources:
        await resource.close()


async def expected_vectors(texts: list[str]) -> Any:
    return await HashedEmbedder().embed_documents(texts)


async def test_batches_go_out_side_by_side_and_come_back_in_order(endpoint: Endpoint, remote: Make) -> None:
    together = threading.Barrier(3)

    def answer(request: EmbeddingRequest) -> CannedResponse:
        together.wait(60)  # three requests have to be there at once
        return hashed_vectors(request)

    endpoint.respond = answer
    vectors = await remote(concurrency=4).embed_documents(TEXTS)
    np.testing.assert_allclose(vectors, await expected_vectors(TEXTS), atol=1e-6)


async def test_a_minute_of_429_is_reported_and_no_request_is_sent_meanwhile(
    endpoint: Endpoint, remote: Make
) -> None:
    endpoint.always_respond(429, {"error": {"message": "slow down"}}, Retry_After="60")
    embedder = remote(concurrency=1)
    for _ in range(20):
        with pytest.raises(EmbedderPaused) as pause:
            await embedder.embed_documents(TEXTS)
        assert timedelta(seconds=50) < pause.value.pause <= timedelta(seconds=60)
    assert len(endpoint.requests) == 1


async def test_errors_at_random_cost_time_and_nothing_else(endpoint: Endpoint, remote: Make) -> None:
    """Retries inside one call, or the next call after the pause: no text is ever lost."""
    dice = random.Random(7)

    def answer(request: EmbeddingRequest) -> CannedResponse:
        proper = hashed_vectors(request)
        match dice.randrange(6):
            case 0:
                return CannedResponse(500, b"oops")
            case 1:
                return CannedResponse(503, b"", {"Retry-After": "0"})
            case 2:
                return CannedResponse(200, proper.body, cut=100)
            case _:
                return proper

    endpoint.respond = answer
    embedder = remote(patience=30, batch_size=12, concurrency=2)
    vectors = await embedder.embed_documents(TEXTS)
    np.testing.assert_allclose(vectors, await expected_vectors(TEXTS), atol=1e-6)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (CannedResponse(500, b""), "embedder_unavailable"),
        (CannedResponse(200, b'{"data": [{"ind'), "embedder_unreadable_answer"),
        (CannedResponse(200, b'{"data": []}' * 50, cut=20), "embedder_unreachable"),
        (None, "embedder_timeout"),
    ],
)
async def test_a_transient_error_is_retried_then_raised_with_a_pause(
    endpoint: Endpoint, remote: Make, answer: CannedResponse | None, code: str
) -> None:
    endpoint.respond = lambda _: answer
    embedder = remote(timeout=timedelta(seconds=0.2)) if answer is None else remote()
    with pytest.raises(EmbedderPaused) as pause:
        await embedder.embed_documents(["one"])
    assert pause.value.code == code
    assert pause.value.pause == timedelta(seconds=1)
    assert "Next try in 1 s" in pause.value.message
    assert len(endpoint.requests) == 2


def bad(text: str, vector: list[float]) -> Callable[[EmbeddingRequest], CannedResponse]:
    """A server that gives `what` as the vector of every text that holds `text`."""

    def answer(request: EmbeddingRequest) -> CannedResponse:
        proper = hashed_vectors(request)
        for entry in proper.body["data"]:
            if text in request.body["input"][entry["index"]]:
                entry["embedding"] = vector
        return proper

    return answer


def refuses(text: str, status: int, message: str) -> Callable[[EmbeddingRequest], CannedResponse]:
    """A server that refuses every request in which a text holds `text`."""

    def answer(request: EmbeddingRequest) -> CannedResponse:
        if any(text in text_in_request for text_in_request in request.body["input"]):
            return CannedResponse(status, {"error": {"message": message}})
        return hashed_vectors(request)

    return answer


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refuses("number 13", 400, "input contains an invalid token"), "embedder_refused"),
        (
            refuses("number 13", 400, "This model's maximum context length is 8192 tokens"),
            "embedder_text_too_long",
        ),
        (refuses("number 13", 413, "Payload Too Large"), "embedder_text_too_long"),
        (bad("number 13", [float("nan")] * 64), "embedder_bad_answer"),
        (bad("number 13", [0.0] * 64), "embedder_bad_answer"),
    ],
)
async def test_one_bad_text_is_found_and_the_others_are_embedded(
    endpoint: Endpoint, remote: Make, answer: Callable[[EmbeddingRequest], CannedResponse], code: str
) -> None:
    endpoint.respond = answer
    vectors = await embed_each(remote(batch_size=64), TEXTS)
    fault = vectors[13]
    assert isinstance(fault, BadAnswer if code == "embedder_bad_answer" else TextRefused)
    assert fault.code == code
    good_vectors = [vector for vector in vectors if not isinstance(vector, WorkError)]
    np.testing.assert_allclose(good_vectors, await expected_vectors([*TEXTS[:13], *TEXTS[14:]]), atol=1e-6)
    assert len(endpoint.requests) <= 11  # the batch, then both halves of each of five levels


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, {"error": "no"}, "embedder_unauthorized"),
        (403, {"error": "no"}, "embedder_unauthorized"),
        (404, {"error": "no"}, "embedder_unknown_model"),
        (200, {"data": [{"index": n, "embedding": [1.0] * 32} for n in range(24)]}, "embedder_dimensions"),
    ],
)
async def test_an_error_of_the_endpoint_takes_one_request_and_is_returned_for_each_text(
    endpoint: Endpoint, remote: Make, status: int, body: Any, code: str
) -> None:
    endpoint.always_respond(status, body)
    vectors = await embed_each(remote(batch_size=64), TEXTS)
    assert [error.code for error in vectors if isinstance(error, WorkError)] == [code] * 24
    assert len(endpoint.requests) == 1


async def test_a_transient_error_is_raised_for_the_whole_batch(endpoint: Endpoint, remote: Make) -> None:
    endpoint.always_respond(429, b"", Retry_After="60")
    with pytest.raises(EmbedderPaused):
        await embed_each(remote(), TEXTS)
    assert await embed_each(remote(), []) == []


@pytest.mark.parametrize("query", [False, True])
async def test_a_cancelled_call_hangs_up_at_once(endpoint: Endpoint, remote: Make, query: bool) -> None:
    loop, has_begun = asyncio.get_running_loop(), asyncio.Event()

    def answer(_: EmbeddingRequest) -> None:
        loop.call_soon_threadsafe(has_begun.set)

    endpoint.respond = answer
    embedder = remote(concurrency=1)
    task = asyncio.create_task(
        embedder.embed_query("a question") if query else embedder.embed_documents(TEXTS)
    )
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(endpoint.disconnects.acquire, timeout=60)
    assert len(endpoint.requests) == 1
    endpoint.respond = hashed_vectors
    assert (await embedder.embed_documents(TEXTS)).shape == (24, 64)


async def test_embedders_of_one_key_share_one_governor(
    endpoint: Endpoint, db: Database, tmp_path: Any
) -> None:
    settings = {
        "url": endpoint.url,
        "model": "a",
        "dimensions": 64,
        "api_key": "sk-1",
        "requests_per_minute": 600,
    }
    request = Settings.model_validate(
        {
            "data_dir": tmp_path,
            "embedders": {
                "a": settings,
                "b": {**settings, "model": "b", "concurrency": 2},
                "c": {**settings, "api_key": "sk-2"},
            },
        }
    )
    embedders = Embedders(request, tmp_path, db=db)
    for name in ("a", "b", "c"):
        await embedders.get(name).embed_query("one")
    await embedders.close()
    async with db.connection() as tx:
        rows = await (
            await tx.execute("select key, concurrency from provider order by concurrency")
        ).fetchall()
    assert [concurrency for _, concurrency in rows] == [2, 8]
    assert "sk-" not in str(rows)
