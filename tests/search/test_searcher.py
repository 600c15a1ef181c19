"""Search results, through the API."""

import threading
from typing import Any
from uuid import UUID

import httpx
import numpy as np
import pytest

from gristmill import app, catalog
from gristmill.catalog import NewItem
from gristmill.search import (
    Chunk,
    HttpReranker,
    Searcher,
    SearchRequest,
    Target,
    searcher,
    segment_cache,
)
from gristmill.search.inverted_index import TermDictionary
from tests.embedding import endpoint
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest
from tests.embedding.hashed import HashedEmbedder
from tests.search.published_items import EMBEDDER, file_folder, file_note, new_base, publish_version, write


async def search_hits(http: httpx.AsyncClient, url: str, **body: Any) -> list[dict[str, Any]]:
    answer = await http.post(url, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["hits"]


async def test_a_hit_has_an_explanation_and_a_stable_citation(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    base = await new_base(mill.db)
    async with mill.db.transaction() as tx:
        item = await file_note(tx, base, "Stones", "The miller dresses the stones.", "A wheel turns.")
    url = f"/api/knowledge-bases/{base.id}/search"
    (hit, *_) = await search_hits(http, url, query="wheel turns", explain=True)
    assert hit["text"] == "A wheel turns."
    content = (await http.get(f"/api/knowledge-items/{item.id}/content")).text
    assert content[hit["source"]["start"] : hit["source"]["end"]] == hit["text"]
    assert hit["version"] == 1
    explanation = hit["explain"]
    assert {term["term"]: term["count"] for term in explanation["terms"]} == {"wheel": 1, "turn": 1}
    own_score = sum(term["score"] for term in explanation["terms"])
    assert 0.6 * own_score < explanation["textScore"] < own_score  # the base has this document alone
    assert explanation["vectorWeight"] == 0.6
    assert explanation["similarity"] == pytest.approx(1.0, abs=0.2)
    (plain, *_) = await search_hits(http, url, query="wheel turns")
    assert plain["explain"] is None


async def test_the_text_with_all_words_comes_first_where_nothing_else_fits(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """A sentence of a long chunk can be far from it by its vector, and a hundred rows of a sheet nearer."""
    base, query = await new_base(mill.db), "five barrels of the finest flour"
    near, far = EMBEDDER.vector(query).astype(np.float32), -EMBEDDER.vector(query).astype(np.float32)
    abbey = "The abbot pays them with five barrels of the finest flour."
    texts = [("Rows", "x", near), ("Abbey", abbey, far), ("Some", "The finest barrels.", far)]
    async with mill.db.transaction() as tx:
        for title, text, vector in texts:
            new = NewItem("note", title, title, body=text)
            (item,) = await catalog.insert_items(tx, base.id, None, [new])
            count = 30 if title == "Rows" else 1
            chunks = [Chunk(n, f"{text} {n}", n, n + 1, (), vector) for n in range(count)]
            await write(tx, base, [(item, 1, chunks)], content=text)
            await publish_version(tx, [item], 1, count)
    url = f"/api/knowledge-bases/{base.id}/search"
    for limit in (1, 10):
        response = (await http.post(url, json={"query": query, "limit": limit})).json()
        assert [hit["title"] for hit in response["hits"][:2]] == ["Abbey", "Rows"][:limit]
        assert [hit["fits"] for hit in response["hits"][:2]] == [True, False][:limit]
        assert response["fits"]
    found = await search_hits(http, url, query="barrels of something else", limit=10)
    assert [hit["title"] for hit in found] == ["Rows"] * 10  # not all words: the ranking stays


async def test_context_returns_the_neighbouring_chunks(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    base = await new_base(mill.db)
    async with mill.db.transaction() as tx:
        await file_note(tx, base, "n", "one", "two", "three", "four", "five")
    url = f"/api/knowledge-bases/{base.id}/search"
    (hit, *_) = await search_hits(http, url, query="four", mode="text", context=2)
    assert hit["context"] == {"before": ["two", "three"], "after": ["five"]}


async def test_a_search_leaves_the_event_loop_free(
    mill: app.Gristmill, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other requests don't wait while hits are highlighted, or while the words of a prefix are looked up."""
    threads: dict[str, set[int]] = {"highlight": set(), "look up": set()}
    highlight, look_up = searcher.highlight_ranges, TermDictionary.find

    def record_highlight(*arguments: Any) -> list[tuple[int, int]]:
        threads["highlight"].add(threading.get_ident())
        return highlight(*arguments)

    def record_look_up(*arguments: Any) -> tuple[int, int] | None:
        threads["look up"].add(threading.get_ident())
        return look_up(*arguments)

    monkeypatch.setattr(searcher, "highlight_ranges", record_highlight)
    monkeypatch.setattr(TermDictionary, "find", record_look_up)
    monkeypatch.setattr(segment_cache, "_MAX_LOOKUPS_ON_LOOP", 20)
    base = await new_base(mill.db)
    async with mill.db.transaction() as tx:
        await file_note(tx, base, "rye", " ".join(f"rye{number}" for number in range(40)))
    (hit,) = await search_hits(http, f"/api/knowledge-bases/{base.id}/search", query="rye*", mode="text")
    assert len(hit["highlights"]) == 40
    assert all(threads.values())
    assert threading.get_ident() not in threads["highlight"] | threads["look up"]


async def test_near_duplicate_hits_are_grouped_under_the_best(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    base = await new_base(mill.db)
    async with mill.db.transaction() as tx:
        for n in range(5):
            await file_note(tx, base, f"copy {n}", "the wheel of the mill turns by day and by night")
        await file_note(tx, base, "other", "a wheel lies broken in the yard")
    url = f"/api/knowledge-bases/{base.id}/search"
    assert len(await search_hits(http, url, query="wheel", mode="text")) == 6
    hits = await search_hits(http, url, query="wheel", mode="text", collapse=True)
    assert sorted(len(hit["duplicates"]) for hit in hits) == [0, 4]


async def test_bases_of_different_embedders_are_searched_together(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """C19: vectors of two spaces are never compared."""
    first = await new_base(mill.db, "one")
    async with mill.db.transaction() as tx:
        other = await catalog.insert_base(
            tx, name="two", embedder="granite-30m-en", embedder_identity="x", dimensions=384, chunking={}
        )
        assert other is not None
        await file_note(tx, first, "first", "a wheel of oak")
    hits = await search_hits(http, "/api/search", query="wheel of oak", mode="text")
    assert [hit["title"] for hit in hits] == ["first"]
    small = HashedEmbedder("small", dimensions=32)
    third = await _base_of(mill, "three", small)
    targets = [Target(first, HashedEmbedder()), Target(third, small)]
    async with mill.db.transaction() as tx:
        await _note_of(tx, third, small, "second", "a wheel of iron")
    hits = await mill.searcher.search(targets, SearchRequest("wheel of iron"))
    assert [hit.title for hit in hits] == ["second", "first"]
    response = await http.post("/api/search", json={"query": "x", "baseIds": [str(UUID(int=1))]})
    assert response.status_code == 404


async def _base_of(mill: app.Gristmill, name: str, embedder: HashedEmbedder) -> catalog.Base:
    async with mill.db.transaction() as tx:
        base = await catalog.insert_base(
            tx,
            name=name,
            embedder=embedder.name,
            embedder_identity=embedder.identity,
            dimensions=embedder.dimensions,
            chunking={},
        )
    assert base is not None
    return base


async def _note_of(tx: Any, base: catalog.Base, embedder: HashedEmbedder, title: str, text: str) -> None:
    (item,) = await catalog.insert_items(
        tx, base.id, None, [catalog.NewItem("note", title, title, body=text)]
    )
    chunk = Chunk(0, text, 0, len(text), (), embedder.vector(text))
    await write(tx, base, [(item, 1, [chunk])])
    await publish_version(tx, [item], 1, 1)


async def test_a_reranker_reorders_hits_and_a_failing_one_is_ignored(mill: app.Gristmill) -> None:
    base = await new_base(mill.db)
    async with mill.db.transaction() as tx:
        await file_note(tx, base, "often", "wheel wheel wheel")
        await file_note(tx, base, "best", "a wheel is what they asked for")

    def prefer_best(request: EmbeddingRequest) -> CannedResponse:
        scores = [0.9 if "best" in text else 0.1 for text in request.body["documents"]]
        results = [{"index": n, "relevance_score": score} for n, score in enumerate(scores)]
        return CannedResponse(200, {"results": results[::-1]})

    with endpoint.serve() as server:
        reranker = HttpReranker(f"{server.url}/rerank", "some-model", "key")
        searcher = Searcher(mill.db, cache_bytes=2**20, reranker=reranker)
        server.respond = prefer_best
        request = SearchRequest("wheel", mode="text")
        assert [hit.title for hit in await searcher.search([Target(base, None)], request)] == [
            "best",
            "often",
        ]
        assert server.requests[0].headers["Authorization"] == "Bearer key"
        broken: list[tuple[int, Any]] = [(500, "x"), (200, {"results": []}), (200, "nonsense")]
        for status, body in broken:
            server.always_respond(status, body)
            hits = await searcher.search([Target(base, None)], request)
            assert [hit.title for hit in hits] == ["often", "best"]
        await reranker.close()


async def test_a_repeated_query_is_embedded_once(mill: app.Gristmill) -> None:
    base = await new_base(mill.db)
    calls: list[str] = []

    class Counting(HashedEmbedder):
        async def embed_query(self, text: str) -> Any:
            calls.append(text)
            return await super().embed_query(text)

    for _ in range(3):
        await mill.searcher.search([Target(base, Counting())], SearchRequest("wheel"))
    assert calls.count("wheel") == 1  # the others measure the embedder, once


@pytest.mark.parametrize(
    ("title", "body", "headers", "codes"),
    [
        ("wheel", {"query": "wheel"}, {}, set[str]()),
        ("stone", {"query": "wheel", "mode": "text"}, {}, {"no_words"}),
        ("stone", {"query": "stone -mill", "mode": "text"}, {}, {"syntax"}),
        ("wheel", {"query": "wheel"}, {"X-Gristmill-On-Behalf-Of": "email:bob@x.org"}, {"acl"}),
        ("wheel", {"query": "wheel", "filters": {"types": ["url"]}}, {}, {"filter"}),
        ("folder", {"query": "wheel"}, {}, {"is_container"}),
        ("broken", {"query": "wheel"}, {}, {"never_extracted"}),
        ("empty", {"query": "wheel"}, {}, {"no_text"}),
    ],
)
async def test_why_not_explains_why_an_item_is_missing(
    mill: app.Gristmill,
    http: httpx.AsyncClient,
    title: str,
    body: dict[str, Any],
    headers: dict[str, str],
    codes: set[str],
) -> None:
    base = await new_base(mill.db, acl=["user_email:ann@x.org"])
    async with mill.db.transaction() as tx:
        items = {
            "wheel": await file_note(tx, base, "wheel", "a wheel of oak"),
            "stone": await file_note(tx, base, "stone", "a stone of the mill"),
            "folder": await file_folder(tx, base, "folder"),
            "empty": await file_note(tx, base, "empty"),
        }
        (broken,) = await catalog.insert_items(
            tx, base.id, None, [catalog.NewItem("note", "broken", "broken")]
        )
        await catalog.fail_version(tx, broken.id, 1, "no_text", "It has pages and no text.")
    item = items.get(title, broken)
    answer = await http.post(f"/api/knowledge-items/{item.id}/why-not", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert codes <= {reason["code"] for reason in body["reasons"]}
    assert (body["rank"] is None) is bool(codes)
    assert body["acl"] == ["user_email:ann@x.org"]
