"""`/api/embedders`: stored embedders from their creation to their deletion, and the bases that use them."""

import asyncio
from collections.abc import Generator
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.settings import EmbedderSettings, Settings
from tests.api_calls import add_items, assert_problem, make_base, search, wait_until_ended
from tests.embedding.endpoint import CannedResponse, Endpoint, serve
from tests.embedding.hashed import HashedEmbedder
from tests.operations.interleave import pause_at
from tests.server.embedder_api import KEY, create_embedder, embedder_body
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

EVERY_FIELD: dict[str, Any] = {
    "model": "hashed",
    "dimensions": 64,
    "maxTokens": 1024,
    "batchSize": 7,
    "sendDimensions": True,
    "queryPrefix": "query: ",
    "documentPrefix": "passage: ",
    "timeoutSeconds": 9.5,
    "requestsPerMinute": 600,
    "tokensPerMinute": 90_000,
    "concurrency": 3,
    "languages": ["chinese", "english"],
    "pricePerMillionTokens": 0.13,
}


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with serve() as running:
        yield running


@pytest.fixture
def other_endpoint() -> Generator[Endpoint]:
    with serve() as running:
        yield running


async def test_an_embedder_is_created_shown_changed_tested_and_deleted(
    http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    """The dimensions are asked from the endpoint, which gets the key."""
    created = await http.post("/api/embedders", json=embedder_body(endpoint, languages=["zh-TW", "en"]))
    assert created.status_code == 201, created.text
    assert created.json()["dimensions"] == 64
    assert created.json()["languages"] == ["chinese", "english"]
    assert created.json()["hasKey"] is True
    assert endpoint.requests[0].headers["Authorization"] == f"Bearer {KEY}"

    origins = {each["name"]: each["origin"] for each in (await http.get("/api/embedders")).json()["items"]}
    assert origins == {
        "granite-30m-en": "builtin",
        "hashed": "builtin",
        "quick": "stored",
        "use-multilingual": "builtin",
    }
    shown = await http.get("/api/embedders/quick")
    assert shown.json() == created.json()
    changed = await http.patch(
        "/api/embedders/quick", json={"concurrency": 2}, headers={"If-Match": shown.headers["ETag"]}
    )
    assert changed.json()["concurrency"] == 2
    assert_problem(
        await http.patch(
            "/api/embedders/quick", json={"concurrency": 3}, headers={"If-Match": shown.headers["ETag"]}
        ),
        412,
        "changed_meanwhile",
    )
    for path, request in (("/api/embedders/quick/test", None), ("/api/embedders/test", {"name": "quick"})):
        test = (await http.post(path, json=request)).json()
        assert (test["ok"], test["dimensions"], test["error"]) == (True, 64, None)
    assert (await http.delete("/api/embedders/quick")).status_code == 204
    assert_problem(await http.get("/api/embedders/quick"), 404, "embedder_not_found")
    assert_problem(await http.delete("/api/embedders/quick"), 404, "embedder_not_found")


async def test_a_row_offers_whatever_the_settings_offer(http: httpx.AsyncClient, endpoint: Endpoint) -> None:
    created = await create_embedder(http, endpoint, **EVERY_FIELD)
    assert {name: created[name] for name in EVERY_FIELD} == EVERY_FIELD
    offered = {*EVERY_FIELD, "url", "apiKey"}
    names = {"timeout": "timeoutSeconds"}
    for name in EmbedderSettings.model_fields:
        head, *rest = name.split("_")
        assert names.get(name, head + "".join(map(str.title, rest))) in offered, name
    changed = await http.patch(
        "/api/embedders/quick",
        json={
            "apiKey": None,
            "requestsPerMinute": None,
            "tokensPerMinute": None,
            "pricePerMillionTokens": None,
        },
    )
    removed = ("requestsPerMinute", "tokensPerMinute", "pricePerMillionTokens")
    assert {name: changed.json()[name] for name in removed} == dict.fromkeys(removed)
    assert changed.json()["hasKey"] is False
    kept = EVERY_FIELD.keys() - set(removed)
    assert {name: changed.json()[name] for name in kept} == {name: EVERY_FIELD[name] for name in kept}


async def test_a_base_uses_a_stored_embedder(http: httpx.AsyncClient, endpoint: Endpoint) -> None:
    await create_embedder(http, endpoint, **EVERY_FIELD)
    base = await make_base(http, embedder="quick")
    (item,) = (await add_items(http, base, {"type": "note", "content": "the miller grinds rye"}))["created"]
    assert (await wait_until_ended(http, item["id"]))["status"] == "completed"
    await search(http, base, "anything", mode="vector")  # measures the embedder
    endpoint.requests.clear()
    hits = await search(http, base, "who grinds rye", mode="vector")
    assert [hit["itemId"] for hit in hits] == [item["id"]]
    (request,) = endpoint.requests
    assert request.body["input"] == ["query: who grinds rye"]
    assert request.body["dimensions"] == 64


async def test_one_that_a_base_uses_keeps_its_vectors_and_is_not_deleted(
    http: httpx.AsyncClient, endpoint: Endpoint, other_endpoint: Endpoint
) -> None:
    await create_embedder(http, endpoint)
    await create_embedder(http, endpoint, name="free")
    base = await make_base(http, "field notes", embedder="quick")
    for change in (
        {"model": "better", "dimensions": 64},
        {"dimensions": 32},
        {"queryPrefix": "q: "},
        {"documentPrefix": "d: "},
        {"sendDimensions": True},
    ):
        refused = await http.patch("/api/embedders/quick", json=change)
        problem = assert_problem(refused, 409, "embedder_vectors_in_use")
        assert "'field notes'" in problem["detail"]
        assert problem["errors"] == [{"field": base, "message": "field notes"}]
        assert (await http.patch("/api/embedders/free", json=change)).status_code == 200
    problem = assert_problem(await http.delete("/api/embedders/quick"), 409, "embedder_in_use")
    assert problem["errors"] == [{"field": base, "message": "field notes"}]
    for change in (
        {"url": other_endpoint.url, "apiKey": "sk-new"},
        {"apiKey": "sk-newer"},
        {"maxTokens": 2048, "batchSize": 3, "concurrency": 1, "languages": ["en"]},
    ):
        assert (await http.patch("/api/embedders/quick", json=change)).status_code == 200
    await search(http, base, "rye", mode="vector")
    assert other_endpoint.requests[-1].headers["Authorization"] == "Bearer sk-newer"

    assert (await http.delete(f"/api/knowledge-bases/{base}")).status_code == 202
    assert (await http.delete("/api/embedders/quick")).status_code == 204


async def test_one_that_a_base_is_changed_to_or_can_go_back_to_is_in_use(
    http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    """Vectors that are being made, and old ones that are kept, need their embedder as it is."""
    await create_embedder(http, endpoint)
    await create_embedder(http, endpoint, name="other", model="other", dimensions=64)
    base = await make_base(http, embedder="quick")
    (item,) = (await add_items(http, base, {"type": "note", "content": "the miller grinds rye"}))["created"]
    await wait_until_ended(http, item["id"])
    path = f"/api/knowledge-bases/{base}/embedder"
    assert (await http.post(path, json={"embedder": "other", "gate": "ask"})).status_code == 202
    assert_problem(await http.delete("/api/embedders/other"), 409, "embedder_in_use")
    changed = await http.patch("/api/embedders/other", json={"queryPrefix": "q: "})
    assert_problem(changed, 409, "embedder_vectors_in_use")

    async def swap_state() -> str:
        return (await http.get(path)).json()["state"]

    async def is_waiting() -> bool:
        return await swap_state() == "waiting"

    async def is_switched() -> bool:
        return await swap_state() == "switched"

    await wait_until(is_waiting)
    await http.post(f"{path}/approve")
    await wait_until(is_switched)
    assert (await http.get(f"/api/knowledge-bases/{base}")).json()["embedder"] == "other"
    for name in ("quick", "other"):
        assert_problem(await http.delete(f"/api/embedders/{name}"), 409, "embedder_in_use")
    assert [hit["itemId"] for hit in await search(http, base, "rye", mode="vector")] == [item["id"]]


async def test_another_model_has_its_own_dimensions(http: httpx.AsyncClient, endpoint: Endpoint) -> None:
    await create_embedder(http, endpoint)
    wide = HashedEmbedder(dimensions=96)
    endpoint.respond = lambda request: CannedResponse(
        200, {"data": [{"index": 0, "embedding": wide.vector(request.body["input"][0]).tolist()}]}
    )
    changed = await http.patch("/api/embedders/quick", json={"model": "wide"})
    assert (changed.json()["model"], changed.json()["dimensions"]) == ("wide", 96)
    assert endpoint.requests[-1].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"name": "with space"}, "name"),
        ({"name": "-option"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "https://user:pass@example.org/v1"}, "url"),
        ({"url": "https://example.org/v1?key=1"}, "url"),
        ({"model": " "}, "model"),
        ({"kind": "magic"}, "kind"),
        ({"dimensions": 0}, "dimensions"),
        ({"pricePerMillionTokens": -1}, "pricePerMillionTokens"),
        ({"timeoutSeconds": 0}, "timeoutSeconds"),
        ({"sendDimensions": True}, "dimensions"),
    ],
)
async def test_invalid_fields_are_named(
    http: httpx.AsyncClient, endpoint: Endpoint, fields: dict[str, Any], where: str
) -> None:
    problem = assert_problem(
        await http.post("/api/embedders", json=embedder_body(endpoint, **fields)), 422, "invalid_request"
    )
    assert [error["field"] for error in problem["errors"]] == [where]
    assert endpoint.requests == []


async def test_names_are_taken_once_in_any_case(http: httpx.AsyncClient, endpoint: Endpoint) -> None:
    await create_embedder(http, endpoint)
    for name in ("quick", "QUICK", "Granite-30m-en"):
        refused = await http.post("/api/embedders", json=embedder_body(endpoint, name=name))
        assert_problem(refused, 409, "embedder_name_taken")
    assert_problem(
        await http.post("/api/embedders", json=embedder_body(endpoint, name="x", languages=["xx"])),
        422,
        "unknown_language",
    )
    assert_problem(await http.patch("/api/embedders/hashed", json={}), 409, "embedder_not_stored")
    assert_problem(await http.delete("/api/embedders/granite-30m-en"), 409, "embedder_not_stored")


async def test_a_base_that_is_created_while_its_embedder_is_deleted_is_refused(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    await create_embedder(http, endpoint)
    async with pause_at("embedder.before_commit", http.delete("/api/embedders/quick")) as deletion:
        request = http.post("/api/knowledge-bases", json={"name": "late", "embedder": "quick"})
        creation = asyncio.create_task(request)

        async def is_blocked() -> bool:
            async with mill.db.connection() as tx:
                waiting = await tx.execute(
                    "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
                )
                return waiting.rowcount > 0

        await wait_until(is_blocked)
        assert not creation.done()
    assert (await deletion).status_code == 204
    assert_problem(await creation, 409, "embedder_changed")
    assert (await http.get("/api/knowledge-bases")).json()["items"] == []


async def test_a_base_that_lost_its_embedder_goes_on_once_it_is_stored(
    settings: Settings, endpoint: Endpoint
) -> None:
    """An embedder moves from the settings to the database: same name, same vectors."""
    configured = {"url": endpoint.url, "model": "hashed", "dimensions": 64}
    before = settings.model_copy(update={"embedders": {"quick": EmbedderSettings.model_validate(configured)}})
    hashed = {"hashed": HashedEmbedder()}
    async with app.gristmill(before, work=True, extra_embedders=hashed) as mill, client(mill) as http:
        shown = (await http.get("/api/embedders/quick")).json()
        assert (shown["origin"], shown["model"], shown["url"]) == ("settings", "hashed", None)
        assert_problem(
            await http.post("/api/embedders", json=embedder_body(endpoint)), 409, "embedder_name_taken"
        )
        base = await make_base(http, embedder="quick")
    async with app.gristmill(settings, work=True, extra_embedders=hashed) as mill, client(mill) as http:
        (item,) = (await add_items(http, base, {"type": "note", "content": "rye"}))["created"]
        assert (await wait_until_ended(http, item["id"]))["error"]["code"] == "embedder_changed"
        other = await http.post("/api/embedders", json=embedder_body(endpoint, model="other", dimensions=64))
        assert_problem(other, 409, "embedder_vectors_in_use")
        await create_embedder(http, endpoint)
        assert (await http.get(f"/api/knowledge-bases/{base}")).json()["status"] == "ready"

        async def is_completed() -> bool:
            return (await http.get(f"/api/knowledge-items/{item['id']}")).json()["status"] == "completed"

        await wait_until(is_completed)


async def test_an_organisation_has_a_hundred_at_most(http: httpx.AsyncClient, endpoint: Endpoint) -> None:
    for number in range(100):
        await create_embedder(http, endpoint, name=f"model-{number}", dimensions=64)
    refused = await http.post("/api/embedders", json=embedder_body(endpoint, dimensions=64))
    assert_problem(refused, 409, "too_many_embedders")
    assert len((await http.get("/api/embedders")).json()["items"]) == 103


def client(mill: app.Gristmill) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")
