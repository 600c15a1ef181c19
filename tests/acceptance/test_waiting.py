"""An item that waits shows why, since when, at which attempt, and when the next attempt is due."""

from collections.abc import Generator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.settings import Settings
from tests.api_calls import add_items, assert_healthy, make_base
from tests.database_clock import DatabaseClock
from tests.free_port import free_port
from tests.sources.site import Site, SiteResponse, serve
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"allow_private_addresses": True})


@pytest.fixture
def site() -> Generator[Site]:
    with serve() as server:
        yield server


async def wait_for_note(http: httpx.AsyncClient, item_id: str) -> dict[str, Any]:
    """Wait until an item's next attempt is delayed; what it waits for."""

    async def note() -> dict[str, Any] | None:
        waiting = (await http.get(f"/api/knowledge-items/{item_id}")).json()["waitingFor"]
        return waiting if waiting and waiting["nextAttemptAt"] else None

    return await wait_until(note)


async def wait_until_failed(http: httpx.AsyncClient, clock: DatabaseClock, item_id: str) -> dict[str, Any]:
    """Let time pass until an item has failed."""

    async def failed_item() -> dict[str, Any] | None:
        await clock.advance(timedelta(seconds=5))
        item = (await http.get(f"/api/knowledge-items/{item_id}")).json()
        return item if item["status"] == "failed" else None

    return await wait_until(failed_item)


async def test_a_host_that_does_not_exist_is_named_and_given_up_early(
    clock: DatabaseClock, mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """S4-41, S4-46."""
    base = await make_base(http)
    url = "http://no-such-host.invalid/page"
    (item,) = (await add_items(http, base, {"type": "url", "url": url}))["created"]
    waiting = await wait_for_note(http, item["id"])
    assert waiting["code"] == "host_unknown"
    assert "no-such-host.invalid" in waiting["message"]
    assert (waiting["attempt"], waiting["maxAttempts"]) == (1, 6)
    since, due = (datetime.fromisoformat(waiting[name]) for name in ("since", "nextAttemptAt"))
    assert since <= due <= since + timedelta(seconds=2)
    item = await wait_until_failed(http, clock, item["id"])
    assert (item["error"]["code"], item["waitingFor"]) == ("host_unknown", None)
    assert "no-such-host.invalid" in item["error"]["message"]
    (job,) = (await http.get("/api/jobs", params={"itemId": item["id"]})).json()["items"]
    assert (job["state"], job["attempt"]) == ("dead", 6)
    await assert_healthy(http)


async def test_an_unreachable_server_and_one_that_fails_keep_all_attempts_and_show_the_last_error(
    clock: DatabaseClock, mill: app.Gristmill, http: httpx.AsyncClient, site: Site
) -> None:
    """S4-42: also a sitemap."""
    site.pages["/broken"] = lambda _request: SiteResponse(500)
    base = await make_base(http)
    result = await add_items(
        http,
        base,
        {"type": "url", "url": f"{site.url}/broken"},
        {"type": "url", "url": f"http://127.0.0.1:{free_port()}/"},
        {"type": "sitemap", "url": f"{site.url}/broken"},
    )
    codes = ["source_unavailable", "source_unreachable", "source_unavailable"]
    limits = [10, 10, 5]
    for item, code, limit in zip(result["created"], codes, limits, strict=True):
        waiting = await wait_for_note(http, item["id"])
        assert (waiting["code"], waiting["attempt"], waiting["maxAttempts"]) == (code, 1, limit)
    first = result["created"][0]["id"]
    since = (await wait_for_note(http, first))["since"]

    async def second_attempt() -> dict[str, Any] | None:
        await clock.advance(timedelta(seconds=1))
        waiting = (await http.get(f"/api/knowledge-items/{first}")).json()["waitingFor"]
        return waiting if waiting and waiting["attempt"] > 1 and waiting["nextAttemptAt"] else None

    assert (await wait_until(second_attempt))["since"] == since
    site.pages["/broken"] = lambda _request: SiteResponse(200, b"Rye.", {"Content-Type": "text/plain"})

    async def completed_item() -> dict[str, Any] | None:
        await clock.advance(timedelta(seconds=5))
        item = (await http.get(f"/api/knowledge-items/{first}")).json()
        return item if item["status"] == "completed" else None

    assert (await wait_until(completed_item))["waitingFor"] is None


async def test_an_item_of_a_paused_base_says_so(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    await http.post(f"/api/knowledge-bases/{base}/queue/pause")
    (item,) = (await add_items(http, base, {"type": "note", "content": "Rye."}))["created"]
    waiting = (await http.get(f"/api/knowledge-items/{item['id']}")).json()["waitingFor"]
    assert (waiting["code"], waiting["attempt"], waiting["nextAttemptAt"]) == ("paused", 0, None)
    await http.post(f"/api/knowledge-bases/{base}/queue/resume")

    async def completed_item() -> dict[str, Any] | None:
        item_now = (await http.get(f"/api/knowledge-items/{item['id']}")).json()
        return item_now if item_now["status"] == "completed" else None

    assert (await wait_until(completed_item))["waitingFor"] is None
