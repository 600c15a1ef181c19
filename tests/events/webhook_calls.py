"""Requests to the API of webhooks that several tests share."""

from typing import Any

import httpx

from tests.wait_until import wait_until


async def create_webhook(http: httpx.AsyncClient, url: str, **more: Any) -> dict[str, Any]:
    """Create a webhook; the response."""
    response = await http.post("/api/webhooks", json={"url": url, **more})
    assert response.status_code == 201, response.text
    return response.json()


async def get_webhook(http: httpx.AsyncClient, hook: dict[str, Any]) -> dict[str, Any]:
    """A webhook, as the API returns it."""
    return (await http.get(f"/api/webhooks/{hook['id']}")).json()


async def wait_until_paused(http: httpx.AsyncClient, hook: dict[str, Any]) -> dict[str, Any]:
    async def paused_webhook() -> dict[str, Any] | None:
        webhook = await get_webhook(http, hook)
        return webhook if webhook["status"] == "paused" else None

    return await wait_until(paused_webhook)
