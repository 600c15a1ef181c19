"""A base whose embedder changed, and how it recovers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

from gristmill import app
from gristmill.settings import Settings
from tests.api_calls import add_items, assert_healthy, make_base, search, wait_until_ended
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import wait_until


@asynccontextmanager
async def running_client(settings: Settings, embedder: HashedEmbedder) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a Gristmill with this embedder."""
    async with app.gristmill(settings, work=True, extra_embedders={"hashed": embedder}) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def test_a_failed_base_recovers_by_itself_once_its_embedder_is_right_again(settings: Settings) -> None:
    """The message says what to do, and the documents that failed meanwhile are indexed."""
    async with running_client(settings, HashedEmbedder()) as http:
        base = await make_base(http)
        (first,) = (await add_items(http, base, {"type": "note", "content": "Barley."}))["created"]
        await wait_until_ended(http, first["id"])
    async with running_client(settings, HashedEmbedder(dimensions=32)) as http:
        (second,) = (await add_items(http, base, {"type": "note", "content": "Rye."}))["created"]
        assert (await wait_until_ended(http, second["id"]))["error"]["code"] == "embedder_changed"
        base_json = (await http.get(f"/api/knowledge-bases/{base}")).json()
        assert (base_json["status"], base_json["error"]["code"]) == ("failed", "embedder_changed")
        assert "Restore its settings and restart" in base_json["error"]["message"]
        response = await http.post(
            f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "note", "content": "Oats."}]}
        )
        assert (response.status_code, response.json()["code"]) == (409, "base_failed")
        assert "Restore its settings and restart" in response.json()["detail"]
    async with running_client(settings, HashedEmbedder(dimensions=32)) as http:  # nothing has changed
        assert (await http.get(f"/api/knowledge-bases/{base}")).json()["status"] == "failed"
    async with running_client(settings, HashedEmbedder()) as http:
        base_json = (await http.get(f"/api/knowledge-bases/{base}")).json()
        assert (base_json["status"], base_json["error"]) == ("ready", None)

        async def is_indexed() -> bool:
            return (await http.get(f"/api/knowledge-items/{second['id']}")).json()["status"] == "completed"

        await wait_until(is_indexed)
        assert [hit["itemId"] for hit in await search(http, base, "rye", mode="text")] == [second["id"]]
        await assert_healthy(http)
