"""What keeps a read cheap, and what it costs in exactness."""

import inspect
from collections.abc import Iterator
from typing import Any

import httpx
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from gristmill import app, keys
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
