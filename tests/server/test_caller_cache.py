"""The caller cache and async dependencies, which keep reads cheap."""

import asyncio
import inspect
from collections.abc import Iterator

import httpx
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from gristmill import app, identity
from gristmill.identity import LOCAL_ORG
from gristmill.server.api.caller import Caller, CallerCache, authenticate
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


async def test_a_key_revoked_by_another_process_can_read_for_a_second_and_change_nothing(
    mill: app.Gristmill,
) -> None:
    key, secret = await new_key(mill.db, LOCAL_ORG, "editor")
    async with client_with_key(mill, secret) as client:
        assert (await client.get("/api/knowledge-bases")).status_code == 200
        async with mill.db.transaction() as tx:
            assert await identity.delete_key(tx, LOCAL_ORG, key.id)
        assert (await client.get("/api/knowledge-bases")).status_code == 200  # still cached
        assert (await client.post("/api/knowledge-bases", json={"name": "b"})).status_code == 401


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
