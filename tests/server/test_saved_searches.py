"""`/api/saved-searches`: each caller stores searches of its own, and sees no others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG, Role
from gristmill.search import saved_searches
from tests.api_calls import assert_problem
from tests.server.clients import client_with_key, new_key

SEARCH: dict[str, Any] = {
    "query": "wheel",
    "mode": "text",
    "filters": {"types": ["note"], "and": [{"op": "in", "key": "team", "value": ["mill"]}]},
    "minScore": 0.4,
}
URL = "/api/saved-searches"


@pytest.fixture
async def callers(mill: app.Gristmill) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    """A key, an admin's key, and two keys of one person."""
    async with AsyncExitStack() as stack:
        clients: dict[str, httpx.AsyncClient] = {}
        keys: list[tuple[str, Role, str | None]] = [
            ("key", "reader", None),
            ("admin", "admin", None),
            ("laptop", "reader", "ada@example.org"),
            ("phone", "reader", "ada@example.org"),
        ]
        for name, role, email in keys:
            _, secret = await new_key(mill.db, LOCAL_ORG, role, email)
            clients[name] = await stack.enter_async_context(client_with_key(mill, secret))
        yield clients


async def names(http: httpx.AsyncClient) -> list[str]:
    return [saved["name"] for saved in (await http.get(URL)).json()["items"]]


async def test_a_search_is_stored_as_it_was_sent_and_can_be_run_changed_and_deleted(
    http: httpx.AsyncClient,
) -> None:
    created = await http.post(URL, json={"name": " Wheels ", "search": SEARCH})
    assert created.status_code == 201, created.text
    saved = created.json()
    assert (saved["name"], saved["search"]) == ("Wheels", SEARCH)
    assert (await http.post("/api/search", json=saved["search"])).status_code == 200
    one = f"{URL}/{saved['id']}"
    changed = await http.patch(one, json={"name": "Cogs"}, headers={"If-Match": created.headers["ETag"]})
    assert (changed.json()["name"], changed.json()["search"]) == ("Cogs", SEARCH)
    stale = await http.patch(one, json={"name": "Gears"}, headers={"If-Match": created.headers["ETag"]})
    assert_problem(stale, 412, "changed_meanwhile")
    changed = await http.patch(one, json={"search": {"query": "gear"}})
    assert (changed.json()["name"], changed.json()["search"]) == ("Cogs", {"query": "gear"})
    assert (await http.get(one)).json() == changed.json()
    assert (await http.delete(one)).status_code == 204
    assert_problem(await http.delete(one), 404, "saved_search_not_found")
    assert_problem(await http.get(f"{URL}/nothing"), 404, "saved_search_not_found")


async def test_names_are_unique_for_their_owner_and_ordered(http: httpx.AsyncClient) -> None:
    for name in ("b", "A", "c"):
        assert (await http.post(URL, json={"name": name, "search": {"query": "x"}})).status_code == 201
    twice = await http.post(URL, json={"name": "a", "search": {"query": "x"}})
    assert_problem(twice, 409, "saved_search_name_taken")
    first = (await http.get(URL, params={"limit": 2})).json()
    rest = (await http.get(URL, params={"limit": 2, "cursor": first["nextCursor"]})).json()
    assert [saved["name"] for saved in first["items"] + rest["items"]] == ["A", "b", "c"]
    renamed = await http.patch(f"{URL}/{first['items'][0]['id']}", json={"name": "B"})
    assert_problem(renamed, 409, "saved_search_name_taken")
    wrong = await http.post(URL, json={"name": "d", "search": {"query": " "}})
    assert wrong.status_code == 422


async def test_two_requests_at_the_same_moment_store_one_search_of_a_name(http: httpx.AsyncClient) -> None:
    body = {"name": "w", "search": {"query": "wheel"}}
    answers = await asyncio.gather(*(http.post(URL, json=body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert await names(http) == ["w"]


async def test_saved_searches_belong_to_a_person_or_else_to_the_key(
    http: httpx.AsyncClient, callers: dict[str, httpx.AsyncClient]
) -> None:
    """Of the same name for each. Admins don't see those of others. A key takes its own with it; a person has other keys."""
    ids: dict[str, str] = {}
    for name in ("key", "admin", "laptop"):
        response = await callers[name].post(URL, json={"name": "wheels", "search": {"query": name}})
        assert response.status_code == 201, response.text
        ids[name] = response.json()["id"]
    assert await names(http) == []
    assert (await callers["phone"].get(URL)).json()["items"][0]["search"] == {"query": "laptop"}
    for stranger in ("admin", "laptop"):
        one = f"{URL}/{ids['key']}"
        assert_problem(await callers[stranger].get(one), 404, "saved_search_not_found")
        assert_problem(await callers[stranger].patch(one, json={"name": "x"}), 404, "saved_search_not_found")
        assert_problem(await callers[stranger].delete(one), 404, "saved_search_not_found")
    on_behalf = await callers["admin"].get(URL, headers={"X-Gristmill-On-Behalf-Of": "email:ada@example.org"})
    assert_problem(on_behalf, 403, "not_on_behalf")
    for key in (await http.get("/api/api-keys")).json()["items"]:
        session = (await callers["phone"].get("/api/session")).json()
        if key["id"] != session["keyId"]:
            assert (await http.delete(f"/api/api-keys/{key['id']}")).status_code == 204
    assert await names(callers["phone"]) == ["wheels"]


async def test_an_owner_can_store_so_many(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_searches, "MAX_SAVED", 1)
    assert (await http.post(URL, json={"name": "a", "search": {"query": "x"}})).status_code == 201
    more = await http.post(URL, json={"name": "b", "search": {"query": "x"}})
    assert_problem(more, 409, "too_many_saved_searches")
