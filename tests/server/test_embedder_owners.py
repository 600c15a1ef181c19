"""`/api/embedders`: who may see and use a stored embedder, and where its key goes."""

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.settings import Settings
from tests.api_calls import add_items, assert_problem, make_base, wait_until_ended
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, hashed_vectors, serve
from tests.server.clients import client_with_key, new_key, new_organisation
from tests.server.embedder_api import KEY, create_embedder, embedder_body

pytestmark = pytest.mark.slow


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with serve() as running:
        yield running


@pytest.fixture
def other_endpoint() -> Generator[Endpoint]:
    with serve() as running:
        yield running


@pytest.fixture
async def tenants(mill: app.Gristmill) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    """Admins of two organisations, and a reader of the first."""
    async with AsyncExitStack() as stack:
        clients: dict[str, httpx.AsyncClient] = {}
        for name in ("ours", "theirs"):
            org = await new_organisation(mill.db, name)
            _, secret = await new_key(mill.db, org, "admin")
            clients[name] = await stack.enter_async_context(client_with_key(mill, secret))
            if name == "ours":
                _, secret = await new_key(mill.db, org, "reader")
                clients["reader"] = await stack.enter_async_context(client_with_key(mill, secret))
        yield clients


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Tenants may name private addresses only where a test is about something else: the endpoints are on loopback."""
    return settings.model_copy(update={"allow_private_addresses": "tenants" in request.fixturenames})


def requires_key(key: str) -> Any:
    """What an endpoint answers that knows one key, and repeats what it was sent."""

    def respond(request: EmbeddingRequest) -> CannedResponse:
        sent = request.headers.get("Authorization", "")
        if sent == f"Bearer {key}":
            return hashed_vectors(request)
        return CannedResponse(401, {"error": {"message": f"wrong key: {sent}"}})

    return respond


async def test_the_key_is_in_no_response_log_or_row(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the endpoint repeats it, and in the response that is kept for an Idempotency-Key."""
    caplog.set_level(logging.DEBUG)
    once = {"Idempotency-Key": "create-quick"}
    endpoint.respond = requires_key("another key")
    refused = await http.post("/api/embedders", json=embedder_body(endpoint), headers=once)
    assert_problem(refused, 422, "embedder_not_measured")
    created = await http.post(
        "/api/embedders", json=embedder_body(endpoint, dimensions=64), headers={"Idempotency-Key": "again"}
    )
    responses = [
        refused,
        created,
        await http.get("/api/embedders"),
        await http.get("/api/embedders/quick"),
        await http.patch("/api/embedders/quick", json={"apiKey": KEY + "-rotated"}),
        await http.patch("/api/embedders/quick", json={"apiKey": KEY * 200}),
        await http.post("/api/embedders/quick/test"),
        await http.post("/api/embedders", json=embedder_body(endpoint, name="quick")),
        await http.post("/api/embedders", json={**embedder_body(endpoint), "dimensions": -1}),
        await http.get("/api/audit"),
        await http.get("/api/events"),
        await http.get("/metrics"),
    ]
    assert responses[6].json()["error"]["code"] == "embedder_unauthorized"
    assert "…" in responses[6].json()["error"]["message"], "the endpoint's message is shown without the key"
    for response in responses:
        assert KEY not in response.text, response.request.url
        assert KEY not in str(response.headers)
    for record in caplog.records:
        assert KEY not in str(vars(record))
    async with mill.db.connection() as tx:
        tables = await (
            await tx.execute("select table_name from information_schema.tables where table_schema = 'public'")
        ).fetchall()
        for (table,) in tables:
            rows = await (await tx.execute(f'select t::text from "{table}" t'.encode())).fetchall()
            assert KEY not in str(rows), table
            assert KEY.encode().hex() not in str(rows), table
        sealed = await (await tx.execute("select api_key from embedder")).fetchone()
    assert sealed is not None
    assert len(sealed[0]) > len(KEY)


async def test_two_organisations_with_one_model_keep_their_texts_and_keys_apart(
    tenants: dict[str, httpx.AsyncClient], endpoint: Endpoint, other_endpoint: Endpoint
) -> None:
    """The vectors have one identity, but texts of one organisation never go to the endpoint of the other."""
    endpoints = {"ours": endpoint, "theirs": other_endpoint}
    for name, running in endpoints.items():
        await create_embedder(tenants[name], running, apiKey=f"key-of-{name}")
        running.requests.clear()
    items: dict[str, str] = {}
    for name, client in tenants.items():
        if name in endpoints:
            base = await make_base(client, embedder="quick")
            added = await add_items(client, base, {"type": "note", "content": f"a secret of {name}"})
            items[name] = added["created"][0]["id"]
    for name, item in items.items():
        assert (await wait_until_ended(tenants[name], item))["status"] == "completed"
    for name, running in endpoints.items():
        texts = [text for request in running.requests for text in request.body["input"]]
        assert any(f"a secret of {name}" in text for text in texts)
        assert not any("a secret of" in text and name not in text for text in texts), texts
        assert {request.headers["Authorization"] for request in running.requests} == {f"Bearer key-of-{name}"}


async def test_an_organisation_sees_nothing_of_anothers_embedders(
    tenants: dict[str, httpx.AsyncClient], http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    await create_embedder(tenants["ours"], endpoint, name="only-ours")
    for stranger in (tenants["theirs"], http):
        assert "only-ours" not in (await stranger.get("/api/embedders")).text
        assert_problem(await stranger.get("/api/embedders/only-ours"), 404, "embedder_not_found")
        refused = await stranger.post("/api/knowledge-bases", json={"name": "b", "embedder": "only-ours"})
        assert "only-ours," not in assert_problem(refused, 422, "unknown_embedder")["detail"]
        await create_embedder(stranger, endpoint, name="only-ours")  # the name is free elsewhere
    reader = {each["name"]: each for each in (await tenants["reader"].get("/api/embedders")).json()["items"]}
    assert reader["only-ours"]["model"] == "hashed"
    assert reader["only-ours"]["url"] is None, "an address is for admins"
    assert_problem(
        await tenants["reader"].post("/api/embedders", json=embedder_body(endpoint, name="x")),
        403,
        "role_too_low",
    )


async def test_a_key_is_not_sent_to_a_host_that_it_was_not_entered_for(
    http: httpx.AsyncClient, endpoint: Endpoint, other_endpoint: Endpoint
) -> None:
    """An admin who can't read the key could otherwise have it sent to a server of their own."""
    await create_embedder(http, endpoint)
    refused = await http.patch("/api/embedders/quick", json={"url": other_endpoint.url})
    assert_problem(refused, 422, "embedder_key_required")
    assert other_endpoint.requests == []
    same_host = await http.patch("/api/embedders/quick", json={"url": endpoint.url + "/v2"})
    assert same_host.status_code == 200


async def test_a_key_that_no_header_can_carry_is_refused(http: httpx.AsyncClient, endpoint: Endpoint) -> None:
    body = {"name": "quick", "url": endpoint.url, "model": "hashed", "dimensions": 64, "apiKey": "sk…"}
    response = await http.post("/api/embedders", json=body)
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "apiKey")
    assert "sk…" not in response.text


async def test_private_addresses_are_for_the_local_user(
    mill: app.Gristmill, http: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    """An address that comes with a key is as little trusted as that of a webhook."""
    _, secret = await new_key(mill.db, await new_organisation(mill.db, "ours"), "admin")
    async with client_with_key(mill, secret) as admin:
        for dimensions in (None, 64):
            refused = await admin.post("/api/embedders", json=embedder_body(endpoint, dimensions=dimensions))
            assert_problem(refused, 422, "private_address")
        metadata = embedder_body(endpoint, url="http://169.254.169.254/latest", dimensions=64)
        assert_problem(await admin.post("/api/embedders", json=metadata), 422, "private_address")
        public = embedder_body(endpoint, url="https://example.org/v1", dimensions=64)
        assert (await admin.post("/api/embedders", json=public)).status_code == 201
        change = {"url": endpoint.url, "apiKey": KEY}
        assert_problem(await admin.patch("/api/embedders/quick", json=change), 422, "private_address")
    assert endpoint.requests == []
    await create_embedder(http, endpoint, name="local")
    assert (await http.post("/api/embedders/local/test")).json()["ok"] is True


async def test_an_organisation_chooses_the_embedder_of_its_new_bases(
    tenants: dict[str, httpx.AsyncClient], endpoint: Endpoint
) -> None:
    """A stored one, until it is reset or deleted; other organisations keep the one of the settings."""
    ours, theirs = tenants["ours"], tenants["theirs"]

    async def embedder_of_new_base(client: httpx.AsyncClient, name: str) -> str:
        return (await client.post("/api/knowledge-bases", json={"name": name})).json()["embedder"]

    before = await embedder_of_new_base(ours, "before")
    await create_embedder(ours, endpoint, name="mine", dimensions=64)
    assert (await ours.put("/api/embedders/mine/default")).status_code == 204
    assert_problem(await theirs.put("/api/embedders/mine/default"), 404, "embedder_not_found")
    assert (await tenants["reader"].put("/api/embedders/mine/default")).status_code == 403
    listed = (await ours.get("/api/embedders")).json()["items"]
    assert [each["name"] for each in listed if each["isDefault"]] == ["mine"]
    assert await embedder_of_new_base(theirs, "theirs") == before
    assert await embedder_of_new_base(ours, "with") == "mine"
    assert (await ours.delete("/api/embedders/mine/default")).status_code == 204
    assert await embedder_of_new_base(ours, "after") == before
    await ours.put("/api/embedders/mine/default")
    (base,) = (await ours.get("/api/knowledge-bases", params={"name": "with"})).json()["items"]
    await ours.delete(f"/api/knowledge-bases/{base['id']}")
    assert (await ours.delete("/api/embedders/mine")).status_code == 204
    assert (await ours.get(f"/api/embedders/{before}")).json()["isDefault"]
    assert await embedder_of_new_base(ours, "last") == before
