"""The embedder behind HTTP, against a real server on a loopback port."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from gristmill.embedding import BadAnswer, OpenAIEmbedder, TextRefused
from gristmill.errors import Permanent, SetupError, Transient, WorkError
from gristmill.settings import EmbedderSettings
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, hashed_vectors
from tests.embedding.hashed import HashedEmbedder

KEY = "sk-very-secret-0123456789"


def settings(endpoint: Endpoint, **overrides: Any) -> EmbedderSettings:
    request = {"url": endpoint.url, "model": "hashed", "dimensions": 64, "api_key": KEY, **overrides}
    return EmbedderSettings.model_validate(request)


@pytest.fixture
async def remote(endpoint: Endpoint) -> AsyncGenerator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder("remote", settings(endpoint))
    yield embedder
    await embedder.close()


async def call_error(embedder: OpenAIEmbedder) -> WorkError:
    """The error of the call, which must not contain the API key."""
    with pytest.raises(WorkError) as caught:
        await embedder.embed_documents(["one", "two"])
    assert KEY not in f"{caught.value!r} {caught.value.message}"
    return caught.value


def vectors(*rows: tuple[int, list[float]]) -> dict[str, Any]:
    return {"data": [{"index": index, "embedding": row} for index, row in rows]}


async def test_a_request_is_what_the_protocol_says(endpoint: Endpoint, remote: OpenAIEmbedder) -> None:
    await remote.embed_documents(["one", "two"])
    (request,) = endpoint.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body == {"model": "hashed", "input": ["one", "two"], "encoding_format": "float"}


async def test_dimensions_and_prefixes_are_sent_when_asked_for(endpoint: Endpoint) -> None:
    request = settings(endpoint, send_dimensions=True, document_prefix="passage: ", query_prefix="query: ")
    remote = OpenAIEmbedder("remote", request)
    await remote.embed_documents(["one"])
    vector = await remote.embed_query("two")
    await remote.close()
    assert [request.body["input"] for request in endpoint.requests] == [["passage: one"], ["query: two"]]
    assert endpoint.requests[0].body["dimensions"] == 64
    np.testing.assert_allclose(vector, HashedEmbedder().vector("query: two"), atol=1e-6)


async def test_texts_are_split_into_requests_of_the_batch_size(endpoint: Endpoint) -> None:
    remote = OpenAIEmbedder("remote", settings(endpoint, batch_size=4))
    texts = [f"text {n}" for n in range(10)]
    vectors_by_text = await remote.embed_documents(texts)
    await remote.close()
    assert [len(request.body["input"]) for request in endpoint.requests] == [4, 4, 2]
    np.testing.assert_allclose(vectors_by_text, await HashedEmbedder().embed_documents(texts), atol=1e-6)


async def test_no_key_sends_no_header(endpoint: Endpoint) -> None:
    remote = OpenAIEmbedder("remote", settings(endpoint, api_key=None))
    await remote.embed_query("one")
    await remote.close()
    assert "Authorization" not in endpoint.requests[0].headers


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry_After": "7"}, timedelta(seconds=7)),
        (
            {"Retry_After": "Wed, 21 Oct 2026 07:30:00 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            timedelta(minutes=2),
        ),
        (
            {"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT", "Date": "Wed, 21 Oct 2026 07:30:00 GMT"},
            timedelta(0),
        ),
        ({"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, timedelta(0)),
        ({"Retry_After": "9" * 30}, timedelta(days=1)),
        ({"Retry_After": "soon"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize(("status", "code"), [(429, "embedder_rate_limited"), (503, "embedder_unavailable")])
async def test_a_server_that_asks_for_time_gets_it(
    endpoint: Endpoint,
    remote: OpenAIEmbedder,
    status: int,
    code: str,
    headers: dict[str, str],
    wait: timedelta | None,
) -> None:
    endpoint.always_respond(status, {"error": {"message": "slow down"}}, **headers)
    error = await call_error(remote)
    assert isinstance(error, Transient)
    assert (error.code, error.retry_after) == (code, wait)
    assert "slow down" in error.message


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, TextRefused, "embedder_refused"),
        (401, Permanent, "embedder_unauthorized"),
        (403, Permanent, "embedder_unauthorized"),
        (404, Permanent, "embedder_unknown_model"),
        (413, TextRefused, "embedder_text_too_long"),
        (408, Transient, "embedder_unavailable"),
        (500, Transient, "embedder_unavailable"),
        (502, Transient, "embedder_unavailable"),
    ],
)
async def test_every_refusal_has_its_meaning(
    endpoint: Endpoint, remote: OpenAIEmbedder, status: int, kind: type[WorkError], code: str
) -> None:
    endpoint.always_respond(status, {"error": "the model said no"})
    error = await call_error(remote)
    assert isinstance(error, kind)
    assert error.code == code
    assert "the model said no" in error.message


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": f"Incorrect API key provided: {KEY}."}},
        {"error": f"Bearer {KEY} is unknown"},
        {"detail": [{"sent": {"authorization": f"Bearer {KEY}"}}]},
        f"<h1>who is {KEY}?</h1>".encode(),
        b"x" * 190 + KEY.encode(),
        KEY.encode() * 50_000,
    ],
)
async def test_a_key_that_the_server_echoes_is_removed(
    endpoint: Endpoint, remote: OpenAIEmbedder, body: Any
) -> None:
    endpoint.always_respond(401, body)
    error = await call_error(remote)
    assert KEY[:10] not in error.message
    assert len(error.message) < 350


async def test_credentials_in_the_url_are_used_and_not_shown(endpoint: Endpoint) -> None:
    url = endpoint.url.replace("http://", "http://mill:pass-word-1@")
    remote = OpenAIEmbedder("remote", settings(endpoint, url=url, api_key=None))
    endpoint.always_respond(403, b"no entry for pass-word-1")
    error = await call_error(remote)
    await remote.close()
    assert endpoint.requests[0].headers["Authorization"].startswith("Basic ")
    assert "pass-word-1" not in error.message + remote.identity


async def test_vectors_of_another_length_are_reported_with_both_lengths(
    endpoint: Endpoint, remote: OpenAIEmbedder
) -> None:
    endpoint.always_respond(200, vectors((0, [0.5] * 48), (1, [0.5] * 48)))
    error = await call_error(remote)
    assert (type(error), error.code) == (BadAnswer, "embedder_dimensions")
    assert "48" in error.message
    assert "64" in error.message


@pytest.mark.parametrize(
    "answer",
    [
        {"data": []},
        {"vectors": []},
        ["data"],
        vectors((0, [0.5] * 64)),
        vectors((0, [0.5] * 64), (0, [0.5] * 64)),
        vectors((0, [0.5] * 64), (2, [0.5] * 64)),
        vectors((0, [0.5] * 64), (1, [float("nan")] * 64)),
        vectors((0, [0.5] * 64), (1, [float("inf")] * 64)),
        vectors((0, [0.5] * 64), (1, [1e200] * 64)),
        vectors((0, [0.5] * 64), (1, [0.0] * 64)),
        {"data": [{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": 3}]},
    ],
)
async def test_a_wrong_answer_is_never_taken_for_vectors(
    endpoint: Endpoint, remote: OpenAIEmbedder, answer: Any
) -> None:
    endpoint.always_respond(200, answer)
    error = await call_error(remote)
    assert (type(error), error.code) == (BadAnswer, "embedder_bad_answer")


async def test_a_page_in_place_of_an_answer_may_be_an_accident(
    endpoint: Endpoint, remote: OpenAIEmbedder
) -> None:
    endpoint.always_respond(200, b"<html>Please log in to the hotel's network</html>")
    error = await call_error(remote)
    assert (type(error), error.code) == (Transient, "embedder_unreadable_answer")


async def test_an_endless_answer_is_cut_off(endpoint: Endpoint, remote: OpenAIEmbedder) -> None:
    endpoint.always_respond(200, b" " * (17 * 2**20))
    assert (await call_error(remote)).code == "response_too_large"


async def test_a_silent_server_is_given_up_on(endpoint: Endpoint) -> None:
    remote = OpenAIEmbedder("remote", settings(endpoint, timeout=timedelta(milliseconds=50)))
    endpoint.always_respond(200, b"", Content_Length="10")  # promises ten bytes, sends none
    error = await call_error(remote)
    await remote.close()
    assert (type(error), error.code) == (Transient, "embedder_timeout")


async def test_a_server_that_is_not_there_may_come_back(endpoint: Endpoint) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        remote = OpenAIEmbedder("remote", settings(endpoint, url=url))
        error = await call_error(remote)
        await remote.close()
    assert (type(error), error.code) == (Transient, "embedder_unreachable")


async def test_after_a_failure_the_next_call_goes_well(endpoint: Endpoint, remote: OpenAIEmbedder) -> None:
    endpoint.always_respond(500, b"")
    await call_error(remote)
    endpoint.respond = hashed_vectors
    assert (await remote.embed_query("again")).shape == (64,)


async def test_a_cancelled_call_sends_no_further_request(endpoint: Endpoint) -> None:
    remote = OpenAIEmbedder("remote", settings(endpoint, batch_size=1))
    loop, has_begun = asyncio.get_running_loop(), asyncio.Event()

    def answer(request: EmbeddingRequest) -> CannedResponse:
        loop.call_soon_threadsafe(has_begun.set)
        return hashed_vectors(request)

    endpoint.respond = answer
    task = asyncio.create_task(remote.embed_documents([f"text {n}" for n in range(500)]))
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    request_count = len(endpoint.requests)
    await remote.embed_query("afterwards")
    await remote.close()
    assert request_count < 500
    assert len(endpoint.requests) - request_count <= 2  # the query, and one that was on its way


async def test_after_closing_nothing_is_asked(endpoint: Endpoint, remote: OpenAIEmbedder) -> None:
    await remote.close()
    assert (await call_error(remote)).code == "embedder_closed"
    assert endpoint.requests == []


def test_identity_follows_what_makes_the_vectors(endpoint: Endpoint) -> None:
    def identity(**overrides: Any) -> str:
        return OpenAIEmbedder("remote", settings(endpoint, **overrides)).identity

    plain = identity()
    assert identity(url="https://elsewhere.example/v1", api_key=None, batch_size=1) == plain
    changes = ({"model": "b"}, {"dimensions": 32}, {"document_prefix": "p"}, {"query_prefix": "p"})
    assert len({plain, *(identity(**change) for change in changes)}) == 5
    assert KEY not in plain


def test_texts_are_kept_well_below_the_models_limit(endpoint: Endpoint) -> None:
    assert OpenAIEmbedder("remote", settings(endpoint, max_tokens=8000)).max_tokens == 6000
    prefixed_settings = settings(endpoint, max_tokens=512, document_prefix="passage: ")
    assert OpenAIEmbedder("remote", prefixed_settings).max_tokens == 384 - 9


@pytest.mark.parametrize("url", ["localhost:11434/v1", "ftp://host/v1", "http:///v1", "", "http://[::1/v1"])
def test_a_url_that_is_none_is_refused_at_once(endpoint: Endpoint, url: str) -> None:
    with pytest.raises(SetupError, match=r"embedders\.remote\.url"):
        OpenAIEmbedder("remote", settings(endpoint, url=url))
