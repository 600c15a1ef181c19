"""Searches while an embedder or a search engine is down: the other bases answer, and the response says what was skipped."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.embedding import openai
from gristmill.server.mcp import mount
from gristmill.settings import Settings
from tests.answers.chat_endpoint import serve_chat
from tests.api_calls import add_items, assert_problem, make_base, wait_until_ended
from tests.cli import conftest as cli_fixtures
from tests.cli.conftest import RunCommand
from tests.embedding.endpoint import Endpoint
from tests.embedding.hashed import HashedEmbedder
from tests.serve_api import serve_api
from tests.server.agents import agent, call_tool

pytestmark = pytest.mark.slow

env, run = cli_fixtures.env, cli_fixtures.run
WORDS_ONLY = "“remote” was searched by words only: "


@pytest.fixture
async def mill(settings: Settings, endpoint: Endpoint) -> AsyncGenerator[app.Gristmill]:
    """A Gristmill with a second embedder, behind an endpoint, and a chat model."""
    provider = {"url": endpoint.url, "model": "hashed", "dimensions": 64}
    with serve_chat() as chat:
        changes = {"embedders": {"provider": provider}, "chat_url": chat.url, "chat_model": "quern"}
        settings = Settings.model_validate({**settings.model_dump(), **changes})
        async with app.gristmill(
            settings, work=True, extra_embedders={"hashed": HashedEmbedder()}
        ) as running:
            yield running


async def make_filled_base(http: httpx.AsyncClient, name: str, text: str, **fields: Any) -> str:
    base = await make_base(http, name, **fields)
    added = await add_items(http, base, {"type": "note", "title": f"{name} note", "content": text})
    assert (await wait_until_ended(http, added["created"][0]["id"]))["status"] == "completed"
    return base


@pytest.fixture
async def bases(http: httpx.AsyncClient, endpoint: Endpoint) -> tuple[str, str]:
    """A base with the embedder of this process, and one with the endpoint's, which goes down after indexing."""
    local = await make_filled_base(http, "local", "The wheel of the mill turns.")
    remote = await make_filled_base(http, "remote", "The wheel of the wagon breaks.", embedder="provider")
    endpoint.always_respond(429, {"error": "slow down"}, Retry_After="600")
    return local, remote


async def find(http: httpx.AsyncClient, path: str = "/api/search", **fields: Any) -> Any:
    response = await http.post(path, json={"query": "the wheel breaks", **fields})
    assert response.status_code == 200, response.text
    return response.json()


def skipped_legs(answer: Any) -> list[tuple[str, str, str]]:
    """What an answer says was skipped, without the message: it counts the seconds until the next try."""
    return [(skipped["baseId"], skipped["leg"], skipped["error"]["code"]) for skipped in answer["skipped"]]


async def test_a_search_over_all_bases_answers_while_the_embedder_of_one_is_down(
    http: httpx.AsyncClient, bases: tuple[str, str]
) -> None:
    local, remote = bases
    for code in ("embedder_rate_limited", "embedder_paced"):  # it refuses, and then it is not even asked
        response = await find(http)
        assert {hit["baseId"] for hit in response["hits"]} == {local, remote}
        ranks = {hit["baseId"]: hit["ranks"] for hit in response["hits"]}
        assert ranks[remote] == {"vector": None, "text": 1}
        assert ranks[local]["vector"] == 1
        (skipped,) = response["skipped"]
        assert (skipped["baseId"], skipped["baseName"], skipped["leg"]) == (remote, "remote", "vector")
        assert skipped["error"]["code"] == code
        assert skipped["message"] == WORDS_ONLY + skipped["error"]["message"]

    alone = await find(http, f"/api/knowledge-bases/{remote}/search")
    assert ([hit["ranks"]["text"] for hit in alone["hits"]], alone["skipped"][0]["leg"]) == ([1], "vector")
    assert (await find(http, f"/api/knowledge-bases/{local}/search"))["skipped"] == []
    assert (await find(http, mode="text"))["skipped"] == []

    by_vector = await find(http, mode="vector")
    assert {hit["baseId"] for hit in by_vector["hits"]} == {local}
    assert [skipped["leg"] for skipped in by_vector["skipped"]] == ["both"]
    assert by_vector["skipped"][0]["message"].startswith("“remote” was not searched: ")
    query = {"query": "wheel", "mode": "vector"}
    rejection = await http.post(f"/api/knowledge-bases/{remote}/search", json=query)
    assert_problem(rejection, 503, "embedder_paced")
    assert "retry-after" in rejection.headers
    rejection = await http.post("/api/search", json={**query, "baseIds": [remote]})
    assert_problem(rejection, 503, "embedder_paced")


async def test_every_door_says_what_was_skipped(
    mill: app.Gristmill, http: httpx.AsyncClient, bases: tuple[str, str], run: RunCommand
) -> None:
    _, remote = bases
    store = await find(http, f"/v1/vector_stores/{remote}/search", query="wheel breaks")
    assert store["data"][0]["content"][0]["text"] == "The wheel of the wagon breaks."
    assert store["skipped"][0]["message"].startswith(WORDS_ONLY)
    body = {
        "knowledge_id": remote,
        "query": "wheel breaks",
        "retrieval_setting": {"top_k": 2, "score_threshold": 0},
    }
    dify = (await http.post("/dify/retrieval", json=body)).json()
    assert (len(dify["records"]), dify["skipped"][0].startswith(WORDS_ONLY)) == (1, True)

    question = "Which wheel breaks?"
    answer = (await http.post("/api/ask", json={"question": question})).json()
    assert (answer["answered"], [skipped["baseId"] for skipped in answer["skipped"]]) == (True, [remote])
    streamed = await http.post("/api/ask", json={"question": question, "stream": True})
    frames = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: ")]
    assert frames[0]["skipped"] == frames[-1]["skipped"]
    assert skipped_legs(frames[0]) == skipped_legs(answer)
    chat = {"model": "gristmill", "messages": [{"role": "user", "content": question}]}
    completion = (await http.post("/v1/chat/completions", json=chat)).json()
    assert WORDS_ONLY in completion["choices"][0]["message"]["content"]
    assert skipped_legs(completion) == skipped_legs(answer)
    streamed = await http.post("/v1/chat/completions", json={**chat, "stream": True})
    assert WORDS_ONLY in streamed.text

    async with mount(mill.api), serve_api(mill) as url:
        async with agent(url) as session:
            result = await call_tool(session, "search", query="wheel breaks")
            assert result["skipped"][0]["message"].startswith(WORDS_ONLY)
        for command in (("search", "remote", "wheel breaks"), ("ask", "remote", question)):
            outcome = await asyncio.to_thread(run, *command, "--url", url)
            assert outcome.code == 0
            assert WORDS_ONLY in outcome.stdout


async def test_a_base_whose_embedder_changed_or_is_gone_is_searched_by_words(
    mill: app.Gristmill, http: httpx.AsyncClient, bases: tuple[str, str]
) -> None:
    _, remote = bases
    async with mill.db.transaction() as tx:
        await tx.execute("update base set embedder_identity = 'another' where id = %s", [remote])
    for code in ("embedder_changed", "unknown_embedder"):
        response = await find(http)
        assert len(response["hits"]) == 2
        assert [skipped["error"]["code"] for skipped in response["skipped"]] == [code]
        rejection = await http.post(
            f"/api/knowledge-bases/{remote}/search", json={"query": "wheel", "mode": "vector"}
        )
        assert_problem(rejection, 422, code)
        async with mill.db.transaction() as tx:
            await tx.execute("update base set embedder = 'gone' where id = %s", [remote])


async def test_a_base_in_a_search_engine_that_does_not_answer_is_skipped(
    mill: app.Gristmill, http: httpx.AsyncClient, bases: tuple[str, str]
) -> None:
    local, remote = bases
    async with mill.db.transaction() as tx:  # this process knows no engine
        await tx.execute("update base set index_kind = 'opensearch' where id = %s", [remote])
    for mode in ("hybrid", "text"):
        response = await find(http, mode=mode)
        assert [hit["baseId"] for hit in response["hits"]] == [local]
        (skipped,) = response["skipped"]
        assert (skipped["leg"], skipped["error"]["code"]) == ("both", "index_unavailable")
        rejection = await http.post(
            f"/api/knowledge-bases/{remote}/search", json={"query": "wheel", "mode": mode}
        )
        assert_problem(rejection, 503, "index_unavailable")


async def test_a_query_that_timed_out_is_not_sent_again(
    http: httpx.AsyncClient, bases: tuple[str, str], endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that hangs holds up a search over all bases for one time-out, not for several."""
    monkeypatch.setattr(openai, "_QUERY_TIMEOUT", timedelta(seconds=0.2))
    endpoint.requests.clear()
    endpoint.respond = lambda _: None
    response = await find(http)
    assert [skipped["error"]["code"] for skipped in response["skipped"]] == ["embedder_timeout"]
    assert len(endpoint.requests) == 1
