"""A base in OpenSearch through the API, while the engine lags, hangs, is down, or its worker stops: what the contract of all
indexes (`test_index_contract.py`) does not say."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from pydantic import SecretStr

from gristmill import app, catalog, faults
from gristmill.catalog import BaseId
from gristmill.catalog.access import member
from gristmill.ingest import remove
from gristmill.operations import bases
from gristmill.search import Chunk, SearchRequest, Target, publish
from gristmill.search.index.opensearch import OpenSearch
from gristmill.search.probe_texts import ENGLISH_PROBES
from gristmill.search.publish import VersionChunks
from gristmill.settings import Settings
from tests.api_calls import (
    add_items,
    assert_problem,
    make_base,
    search,
    wait_for_job,
    wait_until_ended,
)
from tests.embedding.hashed import HashedEmbedder
from tests.search.faulty_index import FaultyEngine
from tests.search.index_setup import PREFIX
from tests.search.index_setup import points as points_of
from tests.search.opensearch_cluster import Cluster
from tests.wait_until import reached, wait_until


class CountingEmbedder(HashedEmbedder):
    """Counts the texts of documents that it embeds."""

    embedded = 0

    async def embed_documents(self, texts: Any) -> Any:
        self.embedded += sum(text not in PROBES for text in texts)
        return await super().embed_documents(texts)


PROBES = {passage for _, passage in ENGLISH_PROBES}  # the first search measures the embedder with them

pytestmark = pytest.mark.slow

Points = Callable[[str], list[dict[str, Any]]]


def connect(cluster: Cluster) -> FaultyEngine:
    return FaultyEngine(OpenSearch(cluster.urls, prefix=PREFIX))


@pytest.fixture
def engine(opensearch: Cluster) -> FaultyEngine:
    return connect(opensearch)


@pytest.fixture
def points(opensearch: Cluster) -> Points:
    """What the engine has of a base."""
    return lambda base: points_of(opensearch, BaseId(UUID(base)))


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@asynccontextmanager
async def run(
    settings: Settings, engine: FaultyEngine, embedder: CountingEmbedder
) -> AsyncGenerator[app.Gristmill]:
    in_engine = settings.model_copy(update={"index_url": SecretStr("http://engine")})
    async with app.gristmill(
        in_engine, work=True, extra_embedders={"hashed": embedder}, engine=engine
    ) as running:
        yield running


@pytest.fixture
async def mill(
    settings: Settings, engine: FaultyEngine, embedder: CountingEmbedder
) -> AsyncGenerator[app.Gristmill]:
    async with run(settings, engine, embedder) as running:
        yield running


@asynccontextmanager
async def client(mill: app.Gristmill) -> AsyncGenerator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield http


def note(text: str, title: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "note", "title": title or text, "content": text, **fields}


async def add(http: httpx.AsyncClient, base: str, *items: dict[str, Any]) -> list[str]:
    """Add items and wait until they are completed; their ids."""
    ids = [item["id"] for item in (await add_items(http, base, *items))["created"]]
    for item_id in ids:
        assert (await wait_until_ended(http, item_id))["status"] == "completed"
    return ids


async def titles(http: httpx.AsyncClient, base: str, query: str, **fields: Any) -> list[str]:
    return [hit["title"] for hit in await search(http, base, query, **fields)]


async def titles_for(mill: app.Gristmill, base: str, email: str, query: str) -> list[str]:
    """The titles that a member finds."""
    async with mill.db.connection() as tx:
        row = await catalog.find_base(tx, BaseId(UUID(base)))
    assert row is not None
    target = Target(row, mill.embedders.default)
    hits = await mill.searcher.search([target], SearchRequest(query, viewer=member(email)))
    return [hit.title for hit in hits]


async def until_no_tasks(mill: app.Gristmill) -> None:
    async def is_empty() -> bool:
        async with mill.db.connection() as tx:
            row = await (await tx.execute("select count(*) from index_task where kind <> 'drop'")).fetchone()
        return row == (0,)

    await wait_until(is_empty)


async def test_a_long_document_is_published_when_the_engine_has_all_of_it(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: FaultyEngine, points: Points
) -> None:
    base = await make_base(http)
    text = "\n\n".join(f"Stone {n} of the mill turns slowly over grain{n} of the year." for n in range(2_000))
    [item] = await add(http, base, note(text, "book"))
    count = (await http.get(f"/api/knowledge-items/{item}")).json()["chunkCount"]
    assert len(points(base)) == count > 10
    assert await titles(http, base, "grain1234", mode="text", limit=1) == ["book"]


async def test_the_receipt_of_a_deletion_waits_until_the_engine_has_nothing_of_it(
    mill: app.Gristmill,
    http: httpx.AsyncClient,
    engine: FaultyEngine,
    points: Points,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remove, "ENGINE_RETRY_DELAY", timedelta(milliseconds=100))
    base = await make_base(http)
    kept, gone = await add(http, base, note("a wheel that stays"), note("a wheel that goes"))
    engine.is_down = True
    response = await http.delete(f"/api/knowledge-items/{gone}")
    assert response.status_code == 202, response.text
    job = response.json()["jobId"]

    async def waits_for_the_engine() -> bool:
        state = (await http.get(f"/api/jobs/{job}")).json()
        return state["state"] == "delayed"

    await wait_until(waits_for_the_engine)
    assert len(points(base)) == 2
    engine.is_down = False
    assert await titles(http, base, "wheel") == ["a wheel that stays"]
    ended = await wait_for_job(http, job)
    assert ended["state"] == "done"
    assert [point["item"] for point in points(base)] == [kept]


async def test_access_that_is_taken_away_is_gone_from_the_next_search_though_the_engine_is_not_told(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: FaultyEngine, points: Points
) -> None:
    base = await make_base(http, acl=["org:*"])
    [open_note, secret] = await add(http, base, note("a wheel"), note("a wheel of gold"))
    assert len(await titles_for(mill, base, "a@example.org", "wheel")) == 2
    with faults.watch("update_index.step", hold=True) as step:
        await http.patch(f"/api/knowledge-items/{secret}", json={"acl": ["group:smiths"]})
        assert await titles_for(mill, base, "a@example.org", "wheel") == ["a wheel"]
        await http.patch(f"/api/knowledge-items/{open_note}", json={"acl": ["user_email:b@example.org"]})
        assert await titles_for(mill, base, "b@example.org", "wheel") == ["a wheel"]
        assert await titles_for(mill, base, "a@example.org", "wheel") == []
        step.hold.set()
    await until_no_tasks(mill)
    labels = {point["item"]: point["principals"] for point in points(base)}
    assert labels == {open_note: ["user_email:b@example.org"], secret: ["group:smiths"]}


async def test_while_the_engine_is_down_items_wait_and_searches_say_so(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: FaultyEngine, embedder: CountingEmbedder
) -> None:
    base = await make_base(http)
    await add(http, base, note("a wheel"))
    engine.is_down = True
    (item,) = (await add_items(http, base, note("a second wheel")))["created"]

    async def reason() -> Any:
        return (await http.get(f"/api/knowledge-items/{item['id']}")).json()["waitingFor"]

    assert (await wait_until(reason))["code"] == "index_unavailable"
    for mode in ("hybrid", "vector", "text"):
        response = await http.post(
            f"/api/knowledge-bases/{base}/search", json={"query": "wheel", "mode": mode}
        )
        assert_problem(response, 503, "index_unavailable")
    embedded = embedder.embedded
    engine.is_down = False
    assert (await wait_until_ended(http, item["id"]))["status"] == "completed"
    assert embedder.embedded == embedded
    assert sorted(await titles(http, base, "wheel")) == ["a second wheel", "a wheel"]


async def test_a_put_that_was_not_marked_is_repeated_and_nothing_is_embedded_again(
    settings: Settings, opensearch: Cluster, points: Points, embedder: CountingEmbedder
) -> None:
    """Stopped between the engine's acknowledgement and the transaction that publishes."""
    text = "\n\n".join(f"Stone {n} of the mill turns slowly over grain{n} of the year." for n in range(400))
    with faults.watch("index.put", hold=True) as put:
        async with run(settings, connect(opensearch), embedder) as mill, client(mill) as http:
            base = await make_base(http)
            (item,) = (await add_items(http, base, note(text, "book")))["created"]
            await reached(put)
            embedded = embedder.embedded
    before = len(points(base))
    assert before > 0
    async with run(settings, connect(opensearch), embedder) as mill, client(mill) as http:
        ended = await wait_until_ended(http, item["id"])
        assert ended["status"] == "completed", ended
        assert embedder.embedded == embedded
        assert len(points(base)) == ended["chunkCount"] >= before
        assert await titles(http, base, "grain333", mode="text", limit=1) == ["book"]
        await until_no_tasks(mill)


async def test_an_engine_that_hangs_holds_up_no_base_in_the_embedded_index(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: FaultyEngine, points: Points
) -> None:
    """The same embedder, the same write stage, the same worker."""
    slow = await make_base(http, "slow")
    embedded = str((await bases.create(mill.db, "embedded", mill.embedders.default, {})).id)
    engine.answers.clear()
    await add_items(http, slow, *(note(f"slow wheel {n}") for n in range(100)))

    async def is_asked() -> bool:
        return engine.requests > 0

    await wait_until(is_asked)
    await add(http, embedded, *(note(f"quick wheel {n}") for n in range(100)))
    assert (await titles(http, embedded, "quick wheel 7", limit=1)) == ["quick wheel 7"]
    engine.answers.set()

    async def are_completed() -> bool:
        items = (await http.get(f"/api/knowledge-bases/{slow}/items", params={"limit": 200})).json()["items"]
        return all(item["status"] == "completed" for item in items)

    await wait_until(are_completed)
    assert len(points(slow)) == 100


async def test_chunks_that_are_added_to_a_live_version_are_found_before_and_after_the_engine_has_them(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: FaultyEngine, points: Points
) -> None:
    """As for the description of an image."""
    base = await make_base(http)
    [item] = await add(http, base, note("a wheel", "picture"))
    vector = HashedEmbedder().vector("the description of a millstone")
    chunk = Chunk(1, "the description of a millstone", 0, 0, (), vector)
    prepared = publish.prepare_write([VersionChunks(UUID(item), "picture", 1, [chunk])])
    engine.answers.clear()
    async with mill.db.transaction() as tx:
        row = await catalog.find_base(tx, BaseId(UUID(base)))
        assert row is not None
        await publish.write_unindexed(tx, row, prepared)
    for mode in ("text", "vector"):
        (hit, *_) = await search(http, base, "millstone description", mode=mode)
        assert hit["text"] == chunk.text
    engine.answers.set()
    await until_no_tasks(mill)
    assert [point["version"] for point in points(base)] == [1, 1]
    (hit,) = await search(http, base, "millstone", mode="text")
    assert hit["text"] == chunk.text


@asynccontextmanager
async def during_search(
    http: httpx.AsyncClient, engine: FaultyEngine, base: str, query: str, mode: str
) -> AsyncGenerator[asyncio.Task[list[dict[str, Any]]]]:
    """A search to which the engine has responded, and whose response arrives after the block."""
    engine.may_return.clear()
    engine.has_read.clear()
    running = asyncio.create_task(search(http, base, query, mode=mode))
    await asyncio.wait_for(engine.has_read.wait(), 30)
    yield running
    engine.may_return.set()
    await running


@pytest.mark.parametrize("mode", ["text", "vector"])
async def test_what_the_engine_learns_while_it_responds_is_found(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: FaultyEngine, mode: str
) -> None:
    """It was not in the response, and has no open task any more."""
    base = await make_base(http)
    item, _ = await add(http, base, note("a drawing", "picture"), note("a wheel"))
    vector = HashedEmbedder().vector("a millstone")
    prepared = publish.prepare_write(
        [VersionChunks(UUID(item), "picture", 1, [Chunk(1, "a millstone", 0, 0, (), vector)])]
    )
    engine.answers.clear()
    async with mill.db.transaction() as tx:
        row = await catalog.find_base(tx, BaseId(UUID(base)))
        assert row is not None
        await publish.write_unindexed(tx, row, prepared)
    async with during_search(http, engine, base, "millstone", mode) as running:
        engine.answers.set()
        await until_no_tasks(mill)
    assert running.result()[0]["text"] == "a millstone"


@pytest.mark.parametrize("mode", ["text", "vector"])
async def test_an_item_is_found_whose_next_version_is_published_while_the_engine_responds(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: FaultyEngine, mode: str
) -> None:
    """What the engine has returned of it is no longer live: it is found by the new version."""
    base = await make_base(http)
    [item] = await add(http, base, note("a wheel", "the wheel"))
    async with during_search(http, engine, base, "wheel", mode) as running:
        response = await http.patch(f"/api/knowledge-items/{item}", json={"content": "a wheel of oak"})
        assert response.status_code < 300, response.text
        assert (await wait_until_ended(http, item))["status"] == "completed"
        await until_no_tasks(mill)
    assert [hit["text"] for hit in running.result()] == ["a wheel of oak"]


async def test_readiness_shows_the_engine(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: FaultyEngine
) -> None:
    async def is_ready() -> bool:
        checks = (await http.get("/readyz")).json()["checks"]
        return next(check["ok"] for check in checks if check["name"] == "index")

    assert await is_ready()
    engine.is_down = True
    assert not await is_ready()
