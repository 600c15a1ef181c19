"""Rules and watches that items are added with."""

from pathlib import Path
from typing import Any

import httpx

from tests.api_calls import make_base


async def add(
    http: httpx.AsyncClient, base: str, *items: dict[str, Any], on_conflict: str = "rename"
) -> dict[str, Any]:
    body = {"items": items, "onConflict": on_conflict}
    response = await http.post(f"/api/knowledge-bases/{base}/items", json=body)
    assert response.status_code == 202, response.text
    return response.json()


async def freshness(http: httpx.AsyncClient, item: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The interval of an item, who set it, and what is wanted of its watch."""
    shown = (await http.get(f"/api/knowledge-items/{item['id']}")).json()
    watch = shown["freshness"]["watch"]
    rule = shown["refresh"]
    return rule and rule["every"], shown["freshness"]["refreshFrom"], watch and watch["wanted"]


async def test_items_have_the_rule_and_the_watch_that_they_are_added_with(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    base = await make_base(http, refresh={"every": "2w"})
    folder = {"type": "directory", "path": str(tmp_path)}
    page = {"type": "url", "url": "http://127.0.0.1:9/page"}
    sitemap = {"type": "sitemap", "url": "http://127.0.0.1:9/sitemap.xml"}
    response = await add(
        http,
        base,
        {**folder, "refresh": {"every": "1h"}, "watch": False},
        {**page, "refresh": {"every": "soon"}},
        {**page, "refresh": {"every": "3d"}},
        {**sitemap, "refresh": {"every": "never"}},
        {**page, "refresh": None},
        {"type": "note", "content": "rye", "refresh": {"every": "1d"}},
    )
    assert [(entry["index"], entry["error"]["code"]) for entry in response["failed"]] == [
        (1, "invalid_refresh"),
        (5, "invalid_request"),
    ]
    assert [item["refresh"] and item["refresh"]["every"] for item in response["created"]][:2] == ["1h", "3d"]
    assert [await freshness(http, item) for item in response["created"]] == [
        ("1h", "item", False),
        ("3d", "item", None),
        (None, "item", None),
        ("2w", "base", None),
    ]


async def test_a_folder_that_is_added_again_changes_its_rule_only_if_it_is_replaced(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """Without a rule and a choice, it keeps those that it has."""
    base = await make_base(http, refresh={"every": "2w"})
    folder = {"type": "directory", "path": str(tmp_path)}
    (item,) = (await add(http, base, {**folder, "refresh": {"every": "1h"}, "watch": False}))["created"]
    await add(http, base, {**folder, "refresh": {"every": "6h"}, "watch": True}, on_conflict="skip")
    assert await freshness(http, item) == ("1h", "item", False)
    await add(http, base, {**folder, "refresh": {"every": "6h"}, "watch": True}, on_conflict="replace")
    assert await freshness(http, item) == ("6h", "item", True)
    await add(http, base, folder, on_conflict="replace")
    assert await freshness(http, item) == ("6h", "item", True)
