"""docs/api.md has a section for every route, and none for a route that isn't there."""

import json

import httpx
from starlette.routing import Route

from gristmill import app
from tests.docs.pages import blocks, headings, read

PAGE = "docs/api.md"


def documented() -> list[str]:
    titles = [title.strip("`") for title in headings(read(PAGE)) if title.startswith("`")]
    return sorted(titles)


async def test_every_route_is_documented_and_every_documented_route_exists(mill: app.Gristmill) -> None:
    paths = mill.api.openapi()["paths"]
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    for route in mill.api.routes:
        if isinstance(route, Route):
            served |= {f"{method} {route.path}" for method in route.methods or () if method != "HEAD"}
    assert documented() == sorted(served)


async def test_every_documented_get_without_a_parameter_answers(http: httpx.AsyncClient) -> None:
    for method, path in (entry.split() for entry in documented()):
        if method == "GET" and "{" not in path:
            assert (await http.get(path)).status_code == 200, path


def test_every_example_is_json() -> None:
    for block in blocks(read(PAGE)):
        if block.language == "json":
            json.loads(block.text)


async def test_the_example_requests_are_taken(http: httpx.AsyncClient) -> None:
    """What the page sends, sent: a base, then its items, then a search."""
    sent = [json.loads(block.text) for block in blocks(read(PAGE)) if block.language == "json"]
    new_base = next(body for body in sent if "name" in body and "id" not in body)
    items = next(body for body in sent if "content" in str(body.get("items")) and "nextCursor" not in body)
    question = next(body for body in sent if "query" in body)
    base = await http.post("/api/knowledge-bases", json={**new_base, "embedder": "hashed"})
    assert base.status_code == 201, base.text
    url = f"/api/knowledge-bases/{base.json()['id']}"
    assert (await http.post(f"{url}/items", json=items)).status_code == 202
    assert (await http.post(f"{url}/search", json=question)).status_code == 200
