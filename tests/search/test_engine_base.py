"""A base in a search engine, from adding items to deleting them. The engine is in memory; `test_engine_cluster.py` has a
real one."""

from collections.abc import AsyncGenerator
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
from gristmill.search import SearchRequest, Target
from gristmill.settings import Settings
from tests.api_calls import (
    add_items,
    assert_healthy,
    assert_problem,
    make_base,
    search,
    wait_for_job,
    wait_until_ended,
)
from tests.embedding.hashed import HashedEmbedder
from tests.search.memory_index import MemoryEngine
from tests.wait_until import wait_until


class CountingEmbedder(HashedEmbedder):
    """Counts the texts that it embeds."""

    embedded = 0

    async def embed_documents(self, texts: Any) -> Any:
        self.embedded += len(texts)
        return await super().embed_documents(texts)


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
async def mill(
    settings: Settings, engine: MemoryEngine, embedder: CountingEmbedder
) -> AsyncGenerator[app.Gristmill]:
    in_engine = settings.model_copy(update={"index_url": SecretStr("http://memory")})
    async with app.gristmill(
        in_engine, work=True, extra_embedders={"hashed": embedder}, engine=engine
    ) as running:
        yield running


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


def points(engine: MemoryEngine, base: str) -> list[Any]:
    return engine.points(BaseId(UUID(base)))


async def until_no_tasks(mill: app.Gristmill) -> None:
    async def is_empty() -> bool:
        async with mill.db.connection() as tx:
            row = await (await tx.execute("select count(*) from index_task where kind <> 'drop'")).fetchone()
        return row == (0,)

    await wait_until(is_empty)


async def test_what_is_added_is_found_by_words_and_by_vector(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: MemoryEngine
) -> None:
    base = await make_base(http)
    await add(http, base, note("The water wheel turns"), note("The miller grinds wheat"))
    assert len(points(engine, base)) == 2
    for mode in ("hybrid", "vector", "text"):
        assert (await titles(http, base, "water wheel", mode=mode))[0] == "The water wheel turns"
    async with mill.db.connection() as tx:
        rows = await (await tx.execute("select count(*) from segment")).fetchone()
    assert rows == (0,)
    await until_no_tasks(mill)
    await assert_healthy(http)


async def test_a_long_document_is_published_when_the_engine_has_all_of_it(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: MemoryEngine
) -> None:
    base = await make_base(http)
    text = "\n\n".join(f"Stone {n} of the mill turns slowly over grain{n} of the year." for n in range(2_000))
    [item] = await add(http, base, note(text, "book"))
    count = (await http.get(f"/api/knowledge-items/{item}")).json()["chunkCount"]
    assert len(points(engine, base)) == count > 10
    assert await titles(http, base, "grain1234", mode="text", limit=1) == ["book"]


async def test_a_new_version_takes_the_place_of_the_old_one(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: MemoryEngine
) -> None:
    base = await make_base(http)
    await add(http, base, note("rye bread", "recipe"))
    before = {point.no for point in points(engine, base)}
    response = await http.post(
        f"/api/knowledge-bases/{base}/items",
        json={"items": [note("spelt bread", "recipe")], "onConflict": "replace"},
    )
    assert response.status_code == 202, response.text
    await wait_until_ended(http, response.json()["created"][0]["id"])
    assert [hit["text"] for hit in await search(http, base, "bread", mode="text")] == ["spelt bread"]
    await until_no_tasks(mill)
    assert not before & {point.no for point in points(engine, base)}
    assert len(points(engine, base)) == 1


async def test_the_receipt_of_a_deletion_waits_until_the_engine_has_nothing_of_it(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
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
    assert len(points(engine, base)) == 2
    engine.is_down = False
    assert await titles(http, base, "wheel") == ["a wheel that stays"]
    ended = await wait_for_job(http, job)
    assert ended["state"] == "done"
    assert [str(point.item) for point in points(engine, base)] == [kept]


async def test_access_that_is_taken_away_is_gone_from_the_next_search_though_the_engine_is_not_told(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: MemoryEngine
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
    labels = {str(point.item): point.labels.principals for point in points(engine, base)}
    assert labels == {open_note: ("user_email:b@example.org",), secret: ("group:smiths",)}


async def test_while_the_engine_is_down_items_wait_and_searches_say_so(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: MemoryEngine, embedder: CountingEmbedder
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


async def test_a_base_is_removed_from_the_engine(
    mill: app.Gristmill, http: httpx.AsyncClient, engine: MemoryEngine
) -> None:
    base, other = await make_base(http), await make_base(http, "other")
    await add(http, base, note("a wheel"))
    await add(http, other, note("a wheel"))
    response = await http.delete(f"/api/knowledge-bases/{base}")
    ended = await wait_for_job(http, response.json()["jobId"])
    assert ended["state"] == "done", ended
    assert points(engine, base) == []
    assert len(points(engine, other)) == 1


async def test_hits_are_explained(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    await add(http, base, note("the water wheel turns"), note("wheat"))
    (hit, *_) = await search(http, base, "wheel turns", explain=True)
    explanation = hit["explain"]
    assert {term["term"]: term["chunks"] for term in explanation["terms"]} == {"wheel": 1, "turn": 1}
    assert sum(term["score"] for term in explanation["terms"]) == pytest.approx(
        explanation["textScore"], rel=0.02
    )
