"""Requests to the REST API that many tests share, each checked for success."""

from typing import Any

import httpx

from tests.wait_until import wait_until


async def make_base(http: httpx.AsyncClient, name: str = "notes", **fields: Any) -> str:
    """Create a base; returns its id."""
    response = await http.post("/api/knowledge-bases", json={"name": name, **fields})
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def add_items(http: httpx.AsyncClient, base: str, *items: dict[str, Any]) -> dict[str, Any]:
    """Add items to a base; returns the response."""
    response = await http.post(f"/api/knowledge-bases/{base}/items", json={"items": list(items)})
    assert response.status_code == 202, response.text
    return response.json()


async def wait_until_ended(http: httpx.AsyncClient, item_id: str) -> dict[str, Any]:
    """Wait until an item is completed or failed; returns it."""

    async def item_if_ended() -> dict[str, Any] | None:
        item = (await http.get(f"/api/knowledge-items/{item_id}")).json()
        return item if item["status"] in ("completed", "failed") else None

    return await wait_until(item_if_ended)


async def wait_for_job(http: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    """Wait until a job is done, dead or cancelled; returns it."""

    async def job_if_ended() -> dict[str, Any] | None:
        job = (await http.get(f"/api/jobs/{job_id}")).json()
        return job if job["state"] in ("done", "dead", "cancelled") else None

    return await wait_until(job_if_ended)


async def search(http: httpx.AsyncClient, base: str, query: str, **fields: Any) -> list[dict[str, Any]]:
    """Search a base; returns the hits."""
    response = await http.post(f"/api/knowledge-bases/{base}/search", json={"query": query, **fields})
    assert response.status_code == 200, response.text
    return response.json()["hits"]


async def item_titles(http: httpx.AsyncClient, base: str, **filters: Any) -> list[str]:
    """The sorted titles of a base's items that match `filters`."""
    response = await http.get(f"/api/knowledge-bases/{base}/items", params={"limit": 500, **filters})
    assert response.status_code == 200, response.text
    return sorted(item["title"] for item in response.json()["items"])


def assert_problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Assert that a response is this problem document; returns it."""
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (status, status, code), problem
    assert problem["detail"]
    return problem


async def assert_healthy(http: httpx.AsyncClient) -> None:
    """Assert that no invariant is broken."""
    assert (await http.get("/api/health/invariants")).json() == {"violations": []}
