"""What keeps a read cheap, and what it costs in exactness."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import httpx
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from gristmill import app, keys
from gristmill.doors.api.caller import Caller, Known, by_secret
from gristmill.organisation import LOCAL
from tests.doors.people import coming_in, new_key


def routes(given: Any) -> Iterator[APIRoute]:
    """Every route, of included routers too."""
    for route in given.routes:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from routes(route.original_router)


def below(dependant: Dependant) -> Iterator[Dependant]:
    for one in dependant.dependencies:
        yield one
        yield from below(one)


async def test_nothing_that_a_route_depends_on_goes_to_a_thread(mill: app.Gristmill) -> None:
    found = list(routes(mill.api))
    assert len(found) > 50
    for route in found:
        for one in below(route.dependant):
            assert inspect.iscoroutinefunction(one.call), f"{route.path}: {one.call}"


async def test_a_key_that_is_revoked_elsewhere_changes_nothing_from_then_on_and_reads_for_a_second(
    mill: app.Gristmill,
) -> None:
    key, secret = await new_key(mill.db, LOCAL, "editor")
    async with coming_in(mill, secret) as client:
        assert (await client.get("/api/knowledge-bases")).status_code == 200
        async with mill.db.transaction() as tx:
            assert await keys.delete(tx, LOCAL, key.id)
        assert (await client.get("/api/knowledge-bases")).status_code == 200  # known a moment ago
        assert (await client.post("/api/knowledge-bases", json={"name": "b"})).status_code == 401


async def test_a_change_makes_the_server_forget_whom_it_knows(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    key, secret = await new_key(mill.db, LOCAL, "reader")
    async with coming_in(mill, secret) as client:
        assert (await client.get("/api/knowledge-bases")).status_code == 200
        assert (await http.delete(f"/api/api-keys/{key.id}")).status_code == 204
        assert (await client.get("/api/knowledge-bases")).status_code == 401


async def test_those_who_come_together_are_looked_up_once(mill: app.Gristmill) -> None:
    _, secret = await new_key(mill.db, LOCAL, "reader")
    looked = 0
    known = Known()

    async def look() -> Caller:
        nonlocal looked
        looked += 1
        return await by_secret(mill.db, secret)

    found = await asyncio.gather(*(known.find(secret, look) for _ in range(50)))
    assert looked == 1
    assert len({id(one) for one in found}) == 1


async def test_what_is_looked_up_while_something_changes_is_not_kept(mill: app.Gristmill) -> None:
    _, secret = await new_key(mill.db, LOCAL, "reader")
    known, begun, go_on = Known(), asyncio.Event(), asyncio.Event()

    async def slowly() -> Caller:
        found = await by_secret(mill.db, secret)
        begun.set()
        await go_on.wait()
        return found

    waiting = asyncio.create_task(known.find(secret, slowly))
    await begun.wait()
    known.forget()
    go_on.set()
    await waiting
    looked = False

    async def again() -> Caller:
        nonlocal looked
        looked = True
        return await by_secret(mill.db, secret)

    await known.find(secret, again)
    assert looked
