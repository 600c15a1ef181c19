"""The caller cache and async dependencies, which keep reads cheap."""

import asyncio
import inspect
from collections.abc import Iterator
from datetime import timedelta

import httpx
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from gristmill import app, identity
from gristmill.identity import LOCAL_ORG, NewApiKey
from gristmill.jobs import store
from gristmill.server.api.caller import Caller, CallerCache, authenticate
from tests.api_calls import add_items, assert_problem, make_base
from tests.database_clock import DatabaseClock
from tests.server.clients import client_with_key, new_key


def all_dependencies(dependant: Dependant) -> Iterator[Dependant]:
    for dependency in dependant.dependencies:
        yield dependency
        yield from all_dependencies(dependency)


async def test_no_dependency_of_a_route_runs_in_a_thread(mill: app.Gristmill) -> None:
    api_routes = [route for route in mill.api.routes if isinstance(route, APIRoute)]
    assert len(api_routes) > 50
    for route in api_routes:
        for dependency in all_dependencies(route.dependant):
            assert inspect.iscoroutinefunction(dependency.call), f"{route.path}: {dependency.call}"


READS = ("/api/knowledge-bases", "/api/knowledge-items/{item}", "/api/knowledge-bases/{base}/items")


async def item_in_a_base(http: httpx.AsyncClient) -> dict[str, str]:
    """A base that everyone sees, and an item of it that only the team `millers` sees."""
    base = await make_base(http, acl=["org:*"])
    note = {"type": "note", "content": "rye", "acl": ["team:millers"]}
    (item,) = (await add_items(http, base, note))["created"]
    return {"base": base, "item": item["id"]}


async def test_a_key_revoked_by_another_process_reads_nothing_from_that_moment_on(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    ids = await item_in_a_base(http)
    for path in READS:
        key, secret = await new_key(mill.db, LOCAL_ORG, "editor", teams=("millers",))
        async with client_with_key(mill, secret) as client:
            assert (await client.get(path.format(**ids))).status_code == 200
            async with mill.db.transaction() as tx:
                assert await identity.delete_key(tx, LOCAL_ORG, key.id)
            assert_problem(await client.get(path.format(**ids)), 401, "bad_key")
            assert (await client.post("/api/knowledge-bases", json={"name": "b"})).status_code == 401


async def test_a_key_changed_by_another_process_sees_what_it_may_from_that_moment_on(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    ids = await item_in_a_base(http)
    item, items = (path.format(**ids) for path in READS[1:])
    key, secret = await new_key(mill.db, LOCAL_ORG, "reader", teams=("millers",))
    async with client_with_key(mill, secret) as client:
        assert (await client.get(item)).status_code == 200
        assert len((await client.get(items)).json()["items"]) == 1
        async with mill.db.transaction() as tx:
            await identity.change_key(tx, LOCAL_ORG, key.id, NewApiKey("without a team", "reader"))
        assert_problem(await client.get(item), 404, "item_not_found")
        assert (await client.get(items)).json()["items"] == []
        async with mill.db.transaction() as tx:
            await identity.change_key(tx, LOCAL_ORG, key.id, NewApiKey("back", "reader", teams=("millers",)))
        assert (await client.get(item)).status_code == 200


async def test_a_key_follows_the_groups_of_tools_from_one_request_to_the_next(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """Another process writes the members: nothing of an earlier request is reused."""
    ids = await item_in_a_base(http)
    async with mill.db.transaction() as tx:
        row = await (
            await tx.execute(
                "with tool as (insert into connector (name, type, config, credentials, schedule, acl_schedule)"
                "   values ('t', 'x', '{}', '', '', '') returning id, org_id)"
                " insert into connector_group (org_id, connector_id, key, name, complete)"
                "   select org_id, id, 'g', 'g', true from tool returning id"
            )
        ).fetchone()
    assert row is not None
    changed = await http.patch(f"/api/knowledge-items/{ids['item']}", json={"acl": [f"tool_group:{row[0]}"]})
    assert changed.status_code == 200, changed.text
    _, secret = await new_key(mill.db, LOCAL_ORG, "reader", "Ann@example.org")
    item, items = (path.format(**ids) for path in READS[1:])
    async with client_with_key(mill, secret) as client:
        for statement, status, count in (
            ("insert into connector_group_member (group_id, email) values (%s, 'ann@example.org')", 200, 1),
            ("update connector_group set complete = false where id = %s", 404, 0),
            ("update connector_group set complete = true where id = %s", 200, 1),
            ("delete from connector_group_member where group_id = %s", 404, 0),
        ):
            async with mill.db.transaction() as tx:
                await tx.execute(statement.encode(), [row[0]])
            assert (await client.get(item)).status_code == status, statement
            assert len((await client.get(items)).json()["items"]) == count, statement


async def test_a_key_that_expires_reads_nothing_from_that_moment_on(
    mill: app.Gristmill, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    ids = await item_in_a_base(http)
    async with mill.db.transaction() as tx:
        expires_at = await store.now(tx) + timedelta(minutes=5)
        new = NewApiKey("short", "reader", teams=("millers",), expires_at=expires_at)
        _, secret = await identity.insert_key(tx, LOCAL_ORG, new)
    async with client_with_key(mill, secret) as client:
        for path in READS:
            assert (await client.get(path.format(**ids))).status_code == 200
        await clock.advance(timedelta(minutes=6))
        for path in READS:
            assert_problem(await client.get(path.format(**ids)), 401, "bad_key")


async def test_a_change_clears_the_caller_cache(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    key, secret = await new_key(mill.db, LOCAL_ORG, "reader")
    async with client_with_key(mill, secret) as client:
        assert (await client.get("/api/knowledge-bases")).status_code == 200
        assert (await http.delete(f"/api/api-keys/{key.id}")).status_code == 204
        assert (await client.get("/api/knowledge-bases")).status_code == 401


async def test_concurrent_requests_share_one_lookup(mill: app.Gristmill) -> None:
    _, secret = await new_key(mill.db, LOCAL_ORG, "reader")
    lookups = 0
    cache = CallerCache()

    async def load() -> Caller:
        nonlocal lookups
        lookups += 1
        return await authenticate(mill.db, secret)

    callers = await asyncio.gather(*(cache.get(secret, load) for _ in range(50)))
    assert lookups == 1
    assert len({id(caller) for caller in callers}) == 1


async def test_a_lookup_that_overlaps_a_change_is_not_cached(mill: app.Gristmill) -> None:
    _, secret = await new_key(mill.db, LOCAL_ORG, "reader")
    cache, is_loading, go_on = CallerCache(), asyncio.Event(), asyncio.Event()

    async def load_slowly() -> Caller:
        caller = await authenticate(mill.db, secret)
        is_loading.set()
        await go_on.wait()
        return caller

    waiting = asyncio.create_task(cache.get(secret, load_slowly))
    await is_loading.wait()
    cache.clear()
    go_on.set()
    await waiting
    was_loaded = False

    async def load_again() -> Caller:
        nonlocal was_loaded
        was_loaded = True
        return await authenticate(mill.db, secret)

    await cache.get(secret, load_again)
    assert was_loaded
