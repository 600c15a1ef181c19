"""Windows of a base's tree, and the counts of a base."""

from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.wait_until import wait_until


async def _create_base(http: httpx.AsyncClient, name: str, **more: Any) -> str:
    return (await http.post("/api/knowledge-bases", json={"name": name, **more})).json()["id"]


async def _add(http: httpx.AsyncClient, base: str, *items: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await http.post(f"/api/knowledge-bases/{base}/items", json={"items": items})
    assert answer.status_code == 202, answer.text
    return answer.json()["created"]


async def _fetch_tree(http: httpx.AsyncClient, base: str, **params: Any) -> dict[str, Any]:
    answer = await http.get(f"/api/knowledge-bases/{base}/tree", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _titles(rows: dict[str, Any]) -> list[str]:
    return [item["title"] for item in rows["items"]]


async def _wait_until_idle(http: httpx.AsyncClient, base: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        base_json = (await http.get(f"/api/knowledge-bases/{base}")).json()
        active = {"preparing", "processing", "reading", "embedding"}
        return None if active & set(base_json["itemCounts"]) else base_json

    return await wait_until(look)


async def test_a_window_can_start_at_any_row_and_shows_the_total(http: httpx.AsyncClient) -> None:
    base = await _create_base(http, "windows")
    await _add(http, base, *({"type": "note", "title": f"n{n}", "content": f"note {n}"} for n in range(7)))
    rows = await _fetch_tree(http, base, offset=2, limit=3)
    assert (_titles(rows), rows["offset"], rows["total"]) == (["n2", "n3", "n4"], 2, 7)
    assert _titles(await _fetch_tree(http, base, offset=6, limit=3)) == ["n6"]
    beyond = await _fetch_tree(http, base, offset=50)
    assert (beyond["items"], beyond["total"]) == ([], 7)


async def test_children_have_their_own_window_and_the_path_of_their_ancestors(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "grain" / "inner").mkdir(parents=True)
    (tmp_path / "grain" / "inner" / "rye.md").write_text("rye")
    (tmp_path / "grain" / "oats.md").write_text("oats")
    base = await _create_base(http, "levels")
    (root,) = await _add(http, base, {"type": "directory", "path": str(tmp_path / "grain"), "title": "Grain"})
    await _wait_until_idle(http, base)
    (shown,) = (await _fetch_tree(http, base))["items"]
    assert (shown["title"], shown["childCount"], shown["path"]) == ("Grain", 2, [])
    children = await _fetch_tree(http, base, parentId=root["id"])
    assert set(_titles(children)) == {"inner", "oats.md"}
    flat = await _fetch_tree(http, base, q="RYE")
    assert [(item["title"], item["path"]) for item in flat["items"]] == [("rye.md", ["Grain", "inner"])]
    assert set(_titles(await _fetch_tree(http, base, leaves=True))) == {"rye.md", "oats.md"}


async def test_several_statuses_and_ids_choose_from_the_whole_base(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "broken.docx").write_bytes(b"PK\x03\x04" + bytes(200))
    base = await _create_base(http, "choices")
    note, broken = await _add(
        http,
        base,
        {"type": "note", "title": "good", "content": "good"},
        {"type": "file", "path": str(tmp_path / "broken.docx")},
    )
    figures = await _wait_until_idle(http, base)
    assert figures["leafCounts"] == {"completed": 1, "failed": 1}
    assert (figures["progress"], figures["chunkCount"]) == (100.0, 1)
    assert figures["changedAt"] >= figures["createdAt"]
    assert _titles(await _fetch_tree(http, base, status="failed")) == ["broken.docx"]
    assert set(_titles(await _fetch_tree(http, base, status=["failed", "completed"]))) == {
        "good",
        "broken.docx",
    }
    assert _titles(await _fetch_tree(http, base, ids=[note["id"]])) == ["good"]
    await http.delete(f"/api/knowledge-items/{broken['id']}")
    assert _titles(await _fetch_tree(http, base, ids=[note["id"], broken["id"]])) == ["good"]


async def test_hidden_items_are_in_no_window_count_or_path(http: httpx.AsyncClient, tmp_path: Path) -> None:
    """Access lists apply to windows as to lists: ids, counts and the titles of ancestors are hidden too."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "seen.md").write_text("seen")
    (folder / "hidden.md").write_text("hidden")
    base = await _create_base(http, "eyes")
    (root,) = await _add(http, base, {"type": "directory", "path": str(folder), "title": "Secret folder"})
    await _wait_until_idle(http, base)
    children = (await _fetch_tree(http, base, parentId=root["id"]))["items"]
    seen = next(item for item in children if item["title"] == "seen.md")
    await http.patch(f"/api/knowledge-items/{seen['id']}", json={"acl": ["user_email:ann@example.org"]})
    http.headers["X-Gristmill-On-Behalf-Of"] = "email:ann@example.org"
    assert (await _fetch_tree(http, base))["total"] == 0
    rows = await _fetch_tree(http, base, leaves=True)
    assert [(item["title"], item["path"]) for item in rows["items"]] == [("seen.md", [])]
    assert (await _fetch_tree(http, base, parentId=root["id"]))["total"] == 1
    figures = (await http.get(f"/api/knowledge-bases/{base}")).json()
    assert figures["leafCounts"] == {"completed": 1}


async def test_a_waiting_item_counts_as_no_progress(http: httpx.AsyncClient, database_url: str) -> None:
    """An item whose job has not started counts 0, a failed one counts as done."""
    base = await _create_base(http, "share")
    rows = [("completed", 1), ("failed", None), ("processing", None), ("processing", None)]
    with psycopg.connect(database_url, autocommit=True) as database:
        for n, (status, live) in enumerate(rows):
            database.execute(
                "insert into item (base_id, type, title, status, source_key, live_version) values (%s, 'note', %s, %s, %s, %s)",
                (base, str(n), status, str(n), live),
            )
    assert (await http.get(f"/api/knowledge-bases/{base}")).json()["progress"] == 50.0
