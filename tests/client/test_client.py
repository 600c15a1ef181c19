"""The client against a real server: retries do not repeat a change, and rejections are raised."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.client import AsyncClient, Client, Refused
from tests.serve_api import serve_api

pytestmark = pytest.mark.slow


class LossyTransport(httpx.AsyncBaseTransport):
    """A network that delivers every request and loses the first responses."""

    def __init__(self, losses: int) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self.remaining_losses, self.request_count = losses, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        self.request_count += 1
        if self.remaining_losses:
            self.remaining_losses -= 1
            await answer.aread()
            raise httpx.ReadError("the answer was lost")
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_a_change_whose_response_was_lost_is_retried_and_executed_once(mill: app.Gristmill) -> None:
    async with serve_api(mill) as url:
        network = LossyTransport(2)
        async with AsyncClient(url, transport=network) as client:
            base = await client.create_base("one")
            assert network.request_count == 3
            assert [known_base["id"] for known_base in await client.bases()] == [base["id"]]
            with pytest.raises(Refused) as error:
                await client.create_base("one")
    assert (error.value.code, error.value.status) == ("base_name_taken", 409)


async def test_upload_wait_search_and_delete(mill: app.Gristmill, tmp_path: Path) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    paths[0].write_text("the mill wheel turns " * 20_000)
    paths[1].write_text("the river flows")
    progress_calls: list[tuple[int, int]] = []
    async with serve_api(mill) as url, AsyncClient(url) as client:
        base = await client.base_named("notes", create=True)
        result = await client.upload(
            base["id"], paths, progress=lambda sent, total: progress_calls.append((sent, total))
        )
        ids = [item["id"] for item in result["created"]]
        statuses = await client.wait(base["id"], ids)
        assert {item["status"] for item in statuses.values()} == {"completed"}
        answer = await client.search("river", [base["id"]], mode="text")
        assert [hit["itemId"] for hit in answer["hits"]] == [ids[1]]
        assert await client.content(ids[1]) == "the river flows"
        assert (await client.delete(base["id"], [ids[1]]))["rootIds"] == [ids[1]]
        assert [item["id"] for item in await client.items(base["id"])] == [ids[0]]
    total = sum(path.stat().st_size for path in paths)
    assert progress_calls[-1] == (total, total)
    assert progress_calls == sorted(progress_calls)
    assert len(progress_calls) > 3


async def test_the_sync_client_needs_no_event_loop(mill: app.Gristmill) -> None:
    def use(url: str) -> Any:
        with Client(url) as client:
            base = client.base_named("sync", create=True)
            result = client.add(base["id"], [{"type": "note", "content": "a wheel"}])
            client.wait(base["id"], [item["id"] for item in result["created"]])
            return client.search("wheel", [base["id"]])["hits"]

    async with serve_api(mill) as url:
        assert len(await asyncio.to_thread(use, url)) == 1


async def test_an_unreachable_server_is_reported_after_the_retries() -> None:
    async with AsyncClient("http://127.0.0.1:9", retries=1) as client:
        with pytest.raises(Refused) as error:
            await client.bases()
    assert error.value.code == "no_answer"
