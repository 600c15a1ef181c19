"""`/api/knowledge-bases/{id}/embedder`: what the requests answer."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.settings import Settings
from tests.api_calls import add_items, make_base, search, wait_until_ended
from tests.embedding.hashed import HashedEmbedder
from tests.ingest.swap_setup import bad_embedder, text_of
from tests.wait_until import wait_until


@pytest.fixture
async def mill(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    """A Gristmill with three embedders."""
    other = HashedEmbedder("other", dimensions=96)
    embedders = {"hashed": HashedEmbedder(), "other": other, "bad": bad_embedder()}
    async with app.gristmill(settings, work=True, extra_embedders=embedders) as running:
        yield running


@pytest.fixture
async def base(http: httpx.AsyncClient) -> str:
    """A base with a dozen notes."""
    base = await make_base(http)
    notes = [{"type": "note", "title": f"note-{n}", "content": text_of(n)} for n in range(12)]
    for item in (await add_items(http, base, *notes))["created"]:
        await wait_until_ended(http, item["id"])
    return base


async def until_state(http: httpx.AsyncClient, base: str, state: str) -> dict[str, Any]:
    """Wait until the swap has a state."""

    async def swap() -> dict[str, Any] | None:
        answer = (await http.get(f"/api/knowledge-bases/{base}/embedder")).json()
        return answer if answer["state"] == state else None

    return await wait_until(swap)


async def test_an_embedder_is_changed_and_changed_back_by_one_call_each(
    http: httpx.AsyncClient, base: str
) -> None:
    """The report says how both compare; the base shows its embedder, and searches use it."""
    url = f"/api/knowledge-bases/{base}/embedder"
    assert (await http.get(url)).json()["code"] == "swap_not_found"
    none = await http.get(url, params={"required": False})
    assert (none.status_code, none.json()) == (200, None)
    response = await http.post(url, json={"embedder": "other"})
    assert (response.status_code, response.json()["state"]) == (202, "building")
    assert {"id", "progress", "report"} <= response.json().keys()
    swap = await until_state(http, base, "switched")
    assert (swap["id"], swap["progress"], swap["canRevert"]) == (response.json()["id"], 100, True)
    report = swap["report"]
    assert report["verdict"] in ("better", "as_good")
    assert report["questions"] >= 8
    assert set(report["new"]) == set(report["old"]) == set(report["overlap"]) == {"vector", "hybrid"}
    assert set(report["new"]["vector"]) == {"ndcg", "mrr", "medianMs"}
    assert report["cost"]["texts"] == swap["embeddedTexts"]
    shown = (await http.get(f"/api/knowledge-bases/{base}")).json()
    assert (shown["embedder"], shown["dimensions"]) == ("other", 96)
    assert await search(http, base, "rye flour")
    reverted = await http.post(f"{url}/revert")
    assert (reverted.status_code, reverted.json()["state"]) == (202, "switched")
    assert (await http.get(f"/api/knowledge-bases/{base}")).json()["embedder"] == "hashed"


async def test_a_bad_model_is_refused_with_a_report(http: httpx.AsyncClient, base: str) -> None:
    """Random vectors; the base stays as it is, and the owner may cancel."""
    url = f"/api/knowledge-bases/{base}/embedder"
    await http.post(url, json={"embedder": "bad", "gate": "auto"})
    swap = await until_state(http, base, "refused")
    assert swap["report"]["verdict"] == "no_better_than_chance"
    assert (await http.get(f"/api/knowledge-bases/{base}")).json()["embedder"] == "hashed"
    assert (await http.post(f"{url}/cancel")).json()["state"] == "cancelled"
    assert (await http.post(f"{url}/revert")).json()["code"] == "nothing_to_revert"


async def test_who_is_asked_approves(http: httpx.AsyncClient, base: str) -> None:
    """With another chunking, and no embedder named: what of the chunking is not named stays."""
    url = f"/api/knowledge-bases/{base}/embedder"
    await http.patch(f"/api/knowledge-bases/{base}", json={"chunking": {"maxTokens": 64, "overlapTokens": 8}})
    await http.post(url, json={"chunking": {"maxTokens": 32}, "gate": "ask"})
    await until_state(http, base, "waiting")
    second = await http.post(url, json={"embedder": "bad"})
    assert (second.status_code, second.json()["code"]) == (409, "swap_under_way")
    assert (await http.post(f"{url}/approve")).status_code == 202
    await until_state(http, base, "switched")
    shown = (await http.get(f"/api/knowledge-bases/{base}")).json()
    assert shown["chunking"] == {"maxTokens": 32, "overlapTokens": 8}, "the field that was omitted stays"
    reset = await http.patch(f"/api/knowledge-bases/{base}", json={"chunking": {"overlapTokens": None}})
    assert reset.json()["chunking"] == {"maxTokens": 32}, "null means the default"


async def test_a_request_that_changes_nothing_is_refused(http: httpx.AsyncClient, base: str) -> None:
    """Neither an embedder nor a chunking, the one that the base has, and one that does not exist."""
    url = f"/api/knowledge-bases/{base}/embedder"
    assert (await http.post(url, json={})).status_code == 422
    assert (await http.post(url, json={"embedder": "hashed"})).json()["code"] == "swap_unchanged"
    assert (await http.post(url, json={"embedder": "none"})).json()["code"] == "unknown_embedder"
    assert (await http.post(url, json={"embedder": "other", "gate": "maybe"})).status_code == 422
    long = await http.post(url, json={"embedder": "other", "chunking": {"maxTokens": 8192}})
    assert long.json()["code"] == "chunk_too_long"
