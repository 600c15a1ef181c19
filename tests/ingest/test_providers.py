"""A complete Gristmill with a misbehaving provider: transient errors cost time, permanent ones are shown on the item."""

import random
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from itertools import count
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.embedding import pacing
from gristmill.embedding.embedder import BAD_ANSWER_ATTEMPTS
from gristmill.embedding.governor import Governor
from gristmill.ingest import embed
from gristmill.settings import Settings
from tests.api_calls import add_items, make_base
from tests.database_clock import DatabaseClock
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, hashed_vectors
from tests.wait_until import LIMIT, wait_until

pytestmark = pytest.mark.slow

NOTES = 40
Answering = Callable[[EmbeddingRequest], CannedResponse | None]


@pytest.fixture
def settings(settings: Settings, endpoint: Endpoint, request: pytest.FixtureRequest) -> Settings:
    """The provider is the default embedder; one that hangs is given up soon."""
    provider: dict[str, Any] = {"url": endpoint.url, "model": "hashed", "dimensions": 64, "batch_size": 16}
    if "[hangs]" in request.node.name:  # in others, a busy machine would be taken for such a provider
        provider["timeout"] = 0.5
    return Settings.model_validate(
        {
            **settings.model_dump(exclude={"embedder", "embedders"}),
            "database_url": settings.database_url,
            "embedder": "provider",
            "embedders": {"provider": provider},
        }
    )


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses a tenth as long, and requests that are held back for a tenth as long."""
    defaults = Governor.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "patience", timedelta(seconds=0.4))
    monkeypatch.setitem(defaults, "query_patience", timedelta(seconds=0.2))
    monkeypatch.setattr(embed, "_PAUSES", (0.1, 0.2, 0.5, 1, 2, 6))
    monkeypatch.setattr(pacing, "_FIRST_PAUSE", 0.05)


@pytest.fixture
async def mill(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    async with app.gristmill(settings, work=True) as running:
        yield running


async def add_notes(http: httpx.AsyncClient, notes: int = NOTES, poison: int | None = None) -> str:
    base = await make_base(http)
    texts = ["poison" if n == poison else f"note number {n}" for n in range(notes)]
    await add_items(
        http,
        base,
        *({"type": "note", "title": f"n{n}", "content": text} for n, text in enumerate(texts)),
    )
    return base


async def at_rest(
    http: httpx.AsyncClient, base: str, notes: int = NOTES, limit: float = LIMIT
) -> dict[str, int]:
    async def counts_at_rest() -> dict[str, int] | None:
        counts = (await http.get(f"/api/knowledge-bases/{base}")).json()["itemCounts"]
        ended_count = counts.get("completed", 0) + counts.get("failed", 0)
        return counts if ended_count == notes else None

    return await wait_until(counts_at_rest, limit=limit)


async def errors(mill: app.Gristmill) -> list[tuple[Any, ...]]:
    """Each error that an item shows, and how many show it."""
    async with mill.db.connection() as tx:
        return await (
            await tx.execute(
                "select error_code, count(*)::int from item where error_code is not null group by 1 order by 1"
            )
        ).fetchall()


async def attempts(mill: app.Gristmill) -> list[tuple[Any, ...]]:
    """The attempts that jobs of documents took, and what went wrong in them."""
    async with mill.db.connection() as tx:
        return await (
            await tx.execute(
                "select distinct attempt, jsonb_array_length(errors) from job_history"
                " where kind = 'index_document' and outcome = 'done'"
            )
        ).fetchall()


# ── transient errors ──────────────────────────────────────────────────────────────────────────────────────────


def trouble_first(times: int, respond: Callable[[EmbeddingRequest], CannedResponse | None]) -> Answering:
    """Trouble for the first requests, proper answers from then on."""
    counter = count()
    return lambda request: respond(request) if next(counter) < times else hashed_vectors(request)


def random_errors(dice: random.Random) -> Answering:
    """A server error every third time; twice at first, so that there is one for certain."""
    counter = count()

    def answer(request: EmbeddingRequest) -> CannedResponse:
        return (
            CannedResponse(500, b"oops")
            if next(counter) < 2 or dice.random() < 1 / 3
            else hashed_vectors(request)
        )

    return answer


TROUBLE: dict[str, tuple[Callable[[], Answering], int]] = {
    # Longer than a request is held back for: the documents wait in the pipeline.
    "429": (lambda: trouble_first(1, lambda _: CannedResponse(429, b"slow", {"Retry-After": "1"})), 8),
    "429 now and then": (
        lambda: trouble_first(3, lambda _: CannedResponse(429, b"slow", {"Retry-After": "0"})),
        12,
    ),
    "500": (lambda: random_errors(random.Random(11)), 40),
    "hangs": (lambda: trouble_first(2, lambda _: None), 12),
    "cut short": (
        lambda: trouble_first(3, lambda request: CannedResponse(200, hashed_vectors(request).body, cut=50)),
        12,
    ),
}


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_a_transient_error_fails_no_item_and_costs_no_attempt(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint, trouble: str
) -> None:
    """S4-42, S4-44: documents wait, and the provider gets few requests meanwhile."""
    answering, max_requests = TROUBLE[trouble]
    endpoint.respond = answering()
    base = await add_notes(http)
    assert await at_rest(http, base) == {"completed": NOTES}
    assert await attempts(mill) == [(1, 0)]
    assert len(endpoint.requests) <= max_requests
    response = await http.post(f"/api/knowledge-bases/{base}/search", json={"query": "number 7"})
    assert response.json()["hits"]


async def test_a_pause_longer_than_documents_wait_in_the_pipeline_delays_their_jobs(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-42: the provider is not asked meanwhile."""
    monkeypatch.setattr(embed, "_PATIENCE", timedelta(seconds=2))
    endpoint.respond = trouble_first(1, lambda _: CannedResponse(429, b"slow", {"Retry-After": "4"}))
    base = await add_notes(http)

    async def jobs_are_delayed() -> bool:
        async with mill.db.connection() as tx:
            row = await (await tx.execute("select count(*) from job where state = 'delayed'")).fetchone()
        return row is not None and row[0] > 0

    await wait_until(jobs_are_delayed)
    assert len(endpoint.requests) <= 2  # batches that were sent at the same time
    assert await at_rest(http, base) == {"completed": NOTES}
    assert await attempts(mill) == [(1, 0)]
    assert len(endpoint.requests) <= 12


# ── permanent errors ────────────────────────────────────────────────────────────────────────────────────────


def with_vectors(vector: list[float]) -> Answering:
    """A server that gives every text this vector."""

    def answer(request: EmbeddingRequest) -> CannedResponse:
        entries = [{"index": index, "embedding": vector} for index in range(len(request.body["input"]))]
        return CannedResponse(200, {"data": entries})

    return answer


BAD_ANSWERS: dict[str, tuple[Answering, str]] = {
    "wrong dimensions": (with_vectors([1.0] * 32), "embedder_dimensions"),
    "not a number": (with_vectors([float("nan")] * 64), "embedder_bad_answer"),
    "no vectors": (lambda _: CannedResponse(200, {"data": []}), "embedder_bad_answer"),
}


@pytest.mark.parametrize("fault", BAD_ANSWERS)
async def test_a_bad_answer_is_asked_for_again_before_the_document_fails(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint, fault: str
) -> None:
    """S4-42, S4-44: one bad response fails no document, and a search that gets one may be retried."""
    answer, code = BAD_ANSWERS[fault]
    endpoint.respond = trouble_first(1, answer)
    base = await add_notes(http, notes=1)
    assert await at_rest(http, base, notes=1) == {"completed": 1}
    assert await attempts(mill) == [(2, 1)]
    url = f"/api/knowledge-bases/{base}/search"

    async def answers() -> bool:
        return (await http.post(url, json={"query": "anything", "mode": "vector"})).status_code == 200

    await wait_until(answers)  # the first search measures the embedder; on a slow machine that may pause it
    endpoint.respond = trouble_first(1, answer)
    query = {"query": "note", "mode": "vector"}
    rejection = await http.post(url, json=query)
    assert (rejection.status_code, rejection.json()["code"]) == (503, code)
    assert "retry-after" in rejection.headers
    assert (await http.post(url, json=query)).status_code == 200


@pytest.mark.parametrize("fault", BAD_ANSWERS)
async def test_an_endpoint_that_always_answers_badly_fails_the_document_after_some_attempts(
    clock: DatabaseClock, mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint, fault: str
) -> None:
    endpoint.respond, code = BAD_ANSWERS[fault]
    base = await add_notes(http, notes=1)

    async def has_failed() -> bool:
        await clock.advance(timedelta(seconds=2))
        return (await http.get(f"/api/knowledge-bases/{base}")).json()["itemCounts"] == {"failed": 1}

    await wait_until(has_failed)
    assert await errors(mill) == [(code, 1)]
    assert len(endpoint.requests) == BAD_ANSWER_ATTEMPTS


async def test_a_search_that_the_endpoint_rejects_for_its_settings_is_no_fault_of_the_query(
    http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    base = await add_notes(http, notes=1)
    assert await at_rest(http, base, notes=1) == {"completed": 1}
    endpoint.respond = lambda _: CannedResponse(401, {"error": "no"})
    rejection = await http.post(f"/api/knowledge-bases/{base}/search", json={"query": "x", "mode": "vector"})
    assert (rejection.status_code, rejection.json()["code"]) == (503, "embedder_unauthorized")


FAULTS: dict[str, tuple[Answering, str]] = {
    "401": (lambda _: CannedResponse(401, {"error": "no"}), "embedder_unauthorized"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_permanent_error_is_shown_on_each_item(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint, fault: str
) -> None:
    """S4-41: at once, with a code and in words, and not again and again; S4-30."""
    endpoint.respond, code = FAULTS[fault]
    base = await add_notes(http, notes=8)
    assert await at_rest(http, base, notes=8) == {"failed": 8}
    assert await errors(mill) == [(code, 8)]
    assert (
        len(endpoint.requests) <= 4 * 8
    )  # a batch that is refused is sent again in halves, down to each text


async def test_a_text_that_is_refused_fails_its_own_item_alone(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    """S4-47."""

    def answer(request: EmbeddingRequest) -> CannedResponse:
        if any("poison" in text for text in request.body["input"]):
            return CannedResponse(400, {"error": {"message": "invalid input"}})
        return hashed_vectors(request)

    endpoint.respond = answer
    base = await add_notes(http, poison=17)
    assert await at_rest(http, base) == {"completed": NOTES - 1, "failed": 1}
    assert await errors(mill) == [("embedder_refused", 1)]
    failed = await http.get(f"/api/knowledge-bases/{base}/items", params={"status": "failed"})
    (item,) = failed.json()["items"]
    assert item["title"] == "n17"
    assert "invalid input" in item["error"]["message"]
    assert len(endpoint.requests) <= 30


async def test_a_text_that_always_fails_costs_attempts_also_when_it_is_alone(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    """No document waits forever: an attempt is counted, and the item shows what it waits for."""

    def answer(request: EmbeddingRequest) -> CannedResponse:
        is_poisoned = any("poison" in text for text in request.body["input"])
        return CannedResponse(500, b"oops") if is_poisoned else hashed_vectors(request)

    endpoint.respond = answer
    base = await add_notes(http, notes=1, poison=0)

    async def waiting_for() -> dict[str, Any] | None:
        (item,) = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
        return item["waitingFor"]

    waiting = await wait_until(waiting_for)
    assert "500" in waiting["message"]
    assert waiting["code"].startswith("embedder_")
    assert (waiting["attempt"], waiting["maxAttempts"]) == (1, 10)

    async def job_errors() -> list[Any] | None:
        async with mill.db.connection() as tx:
            row = await (await tx.execute("select errors from job where kind = 'index_document'")).fetchone()
        return row[0] if row and row[0] else None

    assert (await wait_until(job_errors))[0]["code"].startswith("embedder_")
