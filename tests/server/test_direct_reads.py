"""Reads that bypass the framework: every response is the one that the route gives, byte for byte."""

from collections.abc import AsyncGenerator

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from gristmill import app
from gristmill.identity import LOCAL_ORG
from gristmill.server import api
from gristmill.server.api.direct_reads import DirectReads
from tests.api_calls import add_items, make_base, wait_until_ended
from tests.server.clients import new_key, new_organisation

UNKNOWN = "01234567-89ab-7def-8123-456789abcdef"


@pytest.fixture
async def routes(mill: app.Gristmill) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the same API without direct reads."""
    application = api.create(mill.context)
    application.user_middleware = [
        entry for entry in application.user_middleware if entry.cls is not DirectReads
    ]
    transport = httpx.ASGITransport(app=application, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def fill(http: httpx.AsyncClient) -> tuple[str, list[str]]:
    """A base that everyone sees, with notes in several states; one has an access list of its own."""
    base = await make_base(http, acl=["org:*"])
    notes = [
        {"type": "note", "content": f"rye {n}", "title": f"Brot № {n}", "metadata": {"é": [n, None, 1.5]}}
        for n in range(5)
    ]
    hidden = {"type": "note", "content": "secret", "acl": ["user_email:ada@example.com"]}
    added = await add_items(http, base, *notes, hidden)
    ids = [item["id"] for item in added["created"]]
    for item_id in ids:
        await wait_until_ended(http, item_id)
    return base, ids


def paths(base: str, ids: list[str]) -> list[str]:
    items = f"/api/knowledge-bases/{base}/items"
    queries = (
        "",
        "?limit=2",
        "?limit=500",
        f"?cursor={ids[2]}",
        f"?limit=2&cursor={ids[1]}",
        f"?cursor={ids[1]}&limit=2",
        f"?cursor={ids[-1]}",
        "?limit=0",
        "?limit=501",
        "?limit=two",
        "?limit=",
        "?cursor=",
        "?cursor=none",
        "?limit=2&limit=3",
        "?limit=2&",
        "?&limit=2",
        "?limit=2&status=completed",
        "?parentId=*&limit=3",
        "?q=Brot",
        "?unknown=1",
    )
    return [
        *(f"/api/knowledge-items/{item_id}" for item_id in (*ids, UNKNOWN, "none", ids[0].upper())),
        f"/api/knowledge-items/{ids[0]}?unknown=1",
        *(items + query for query in queries),
        f"/api/knowledge-bases/{UNKNOWN}/items",
        f"/api/knowledge-bases/{UNKNOWN}/items?limit=2",
        "/api/knowledge-bases/none/items",
    ]


@pytest.mark.parametrize("caller", ["local", "reader", "member", "stranger", "nobody"])
async def test_direct_reads_respond_as_the_routes_do(
    mill: app.Gristmill, http: httpx.AsyncClient, routes: httpx.AsyncClient, caller: str
) -> None:
    base, ids = await fill(http)
    headers: dict[str, str] = {}
    if caller in ("reader", "member", "stranger"):
        org = await new_organisation(mill.db, "other") if caller == "stranger" else LOCAL_ORG
        _, secret = await new_key(mill.db, org, "reader", "ada@example.com" if caller == "member" else None)
        headers["Authorization"] = f"Bearer {secret}"
    elif caller == "nobody":
        headers["X-Forwarded-For"] = "203.0.113.7"
    for path in paths(base, ids):
        for method in ("GET", "HEAD", "OPTIONS"):
            direct = await http.request(method, path, headers=headers)
            route = await routes.request(method, path, headers=headers)
            assert direct.status_code == route.status_code, path
            assert direct.content == route.content, path
            assert sorted(direct.headers.multi_items()) == sorted(route.headers.multi_items()), path


async def test_a_read_on_behalf_of_a_person_goes_to_the_route(http: httpx.AsyncClient) -> None:
    base, ids = await fill(http)
    headers = {"X-Gristmill-On-Behalf-Of": "email:bob@example.com"}
    visible = (await http.get(f"/api/knowledge-bases/{base}/items", headers=headers)).json()["items"]
    assert [item["id"] for item in visible] == ids[:5]
    assert (await http.get(f"/api/knowledge-items/{ids[5]}", headers=headers)).status_code == 404


async def test_plain_reads_do_not_reach_the_framework(http: httpx.AsyncClient, mill: app.Gristmill) -> None:
    base, ids = await fill(http)
    routed: list[str] = []
    router = mill.api.router

    async def record(scope: Scope, receive: Receive, send: Send) -> None:
        routed.append(scope["path"])
        await router(scope, receive, send)

    application = api.create(mill.context)
    application.router = record  # pyright: ignore[reportAttributeAccessIssue]
    transport = httpx.ASGITransport(app=application)
    _, secret = await new_key(mill.db, LOCAL_ORG, "reader")
    headers = {"Authorization": f"Bearer {secret}"}
    items = f"/api/knowledge-bases/{base}/items"
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        for path in (f"/api/knowledge-items/{ids[0]}", f"{items}?limit=2", f"{items}?cursor={ids[0]}"):
            assert (await client.get(path)).status_code == 200
        assert routed == []
        assert (await client.get(f"{items}?q=Brot")).status_code == 200
    assert routed == [items]


async def test_an_item_that_is_being_deleted_is_neither_read_nor_listed(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """S0-32."""
    base, ids = await fill(http)
    async with mill.db.transaction() as tx:
        await tx.execute("update item set status = 'deleting' where id = %s", [ids[0]])
    assert (await http.get(f"/api/knowledge-items/{ids[0]}")).status_code == 404
    listed = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
    assert [item["id"] for item in listed] == ids[1:]
