"""Requests to the API of webhooks that several tests share."""

from typing import Any

import httpx

from tests.wait_until import wait_until


async def make(http: httpx.AsyncClient, url: str, **more: Any) -> dict[str, Any]:
    """Create a webhook; the response."""
    made = await http.post("/api/webhooks", json={"url": url, **more})
    assert made.status_code == 201, made.text
    return made.json()


async def show(http: httpx.AsyncClient, hook: dict[str, Any]) -> dict[str, Any]:
    """A webhook, as the API shows it."""
    return (await http.get(f"/api/webhooks/{hook['id']}")).json()


async def paused(http: httpx.AsyncClient, hook: dict[str, Any]) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        shown = await show(http, hook)
        return shown if shown["status"] == "paused" else None

    return await wait_until(look)
