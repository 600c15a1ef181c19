"""Rename, move, tag, sort and edit items through the API, and select them by a filter."""

from typing import Any

import httpx
import pytest

from gristmill import app, faults
from tests.api_calls import (
    add_items,
    assert_problem,
    item_titles,
    make_base,
    search,
    wait_for_job,
    wait_until_ended,
)
from tests.server.clients import client_with_key
from tests.server.test_keys import create_key
from tests.wait_until import reached, wait_until

ITEM = "/api/knowledge-items"


async def add_notes(
    http: httpx.AsyncClient, base: str, *titles: str, **fields: Any
) -> dict[str, dict[str, Any]]:
    """Add a note for each title, and wait until all are indexed; by title."""
    notes = [{"type": "note", "title": title, "content": f"text of {title}", **fields} for title in titles]
    created = (await add_items(http, base, *notes))["created"]
    return {item["title"]: await wait_until_ended(http, item["id"]) for item in created}


async def add_folder(http: httpx.AsyncClient, base: str, title: str, **fields: Any) -> str:
    """Add a folder, and wait until it is completed; its id."""
    (folder,) = (await add_items(http, base, {"type": "folder", "title": title, **fields}))["created"]
    assert folder["type"] == "directory"
    assert (await wait_until_ended(http, folder["id"]))["status"] == "completed"
    return folder["id"]


async def move(http: httpx.AsyncClient, base: str, *item_ids: str, **fields: Any) -> httpx.Response:
    """Move items."""
    return await http.post(f"/api/knowledge-bases/{base}/items/move", json={"itemIds": item_ids, **fields})


async def found_titles(http: httpx.AsyncClient, base: str, query: str) -> set[str]:
    """The titles of items that have a word."""
    return {hit["title"] for hit in await search(http, base, query, mode="text")}


async def test_a_renamed_item_is_found_by_its_new_title(http: httpx.AsyncClient) -> None:
    """Its chunks, version and vectors stay; the words of the old title are forgotten; of two renames the last counts."""
    base = await make_base(http)
    notes = await add_notes(http, base, "millstone", "granary")
    url = f"{ITEM}/{notes['millstone']['id']}"
    chunks = (await http.get(f"{url}/chunks")).json()["items"]
    for title in ("sluice", "waterwheel"):
        response = await http.patch(url, json={"title": title})
        assert (response.status_code, response.json()["title"]) == (200, title)

    async def is_indexed() -> bool:
        return await found_titles(http, base, "waterwheel") == {"waterwheel"}

    await wait_until(is_indexed)
    assert await found_titles(http, base, "sluice") == set()
    assert [c["id"] for c in (await http.get(f"{url}/chunks")).json()["items"]] == [c["id"] for c in chunks]
    assert (await http.get(url)).json()["version"] == notes["millstone"]["version"]
    assert_problem(await http.patch(url, json={"title": "granary"}), 409, "title_taken")
    tag = (await http.get(url)).headers["etag"]
    assert (await http.patch(url, json={"title": "dam"}, headers={"If-Match": tag})).status_code == 200
    assert_problem(
        await http.patch(url, json={"title": "weir"}, headers={"If-Match": tag}), 412, "changed_meanwhile"
    )


async def test_a_note_is_edited_as_a_new_version(http: httpx.AsyncClient) -> None:
    """The old text answers until the new one is indexed; of two people who edit the same text the second is told."""
    base = await make_base(http)
    note = (await add_notes(http, base, "log"))["log"]
    url = f"{ITEM}/{note['id']}"
    tag = (await http.get(url)).headers["etag"]
    with faults.watch("publish.before_commit", hold=True) as publication:
        response = await http.patch(url, json={"content": "barley"}, headers={"If-Match": tag})
        assert (response.status_code, response.json()["status"]) == (200, "processing")
        await reached(publication)
        assert [hit["text"] for hit in await search(http, base, "text", mode="text")] == ["text of log"]
    assert (await wait_until_ended(http, note["id"]))["version"] == 2
    assert [hit["text"] for hit in await search(http, base, "barley", mode="text")] == ["barley"]
    assert (await http.get(f"{url}/original")).text == "barley"
    refused = await http.patch(url, json={"content": "oats"}, headers={"If-Match": tag})
    assert_problem(refused, 412, "changed_meanwhile")
    folder = await add_folder(http, base, "shelf")
    assert_problem(await http.patch(f"{ITEM}/{folder}", json={"content": "x"}), 409, "not_a_note")


async def test_items_move_between_folders(http: httpx.AsyncClient, tmp_path: Any) -> None:
    """Folders are made by people; what a source lists stays in its place, and a folder does not go into itself."""
    base = await make_base(http)
    outer, notes = await add_folder(http, base, "outer"), await add_notes(http, base, "one", "two")
    (inner,) = (await add_items(http, base, {"type": "folder", "title": "inner"}))["created"]
    response = await move(http, base, notes["one"]["id"], inner["id"], parentId=outer)
    assert (response.status_code, response.json()["jobId"]) == (202, None)
    assert await item_titles(http, base, parentId=outer) == ["inner", "one"]
    assert await item_titles(http, base) == ["outer", "two"]
    assert_problem(await move(http, base, outer, parentId=inner["id"]), 409, "move_into_itself")
    assert_problem(await move(http, base, outer, parentId=notes["one"]["id"]), 422, "not_a_container")
    await add_notes(http, base, "one")
    assert_problem(await move(http, base, notes["one"]["id"]), 409, "title_taken")
    (tmp_path / "a.txt").write_text("rye")
    (disk,) = (await add_items(http, base, {"type": "directory", "path": str(tmp_path)}))["created"]
    await wait_until_ended(http, disk["id"])
    (listed,) = (
        await http.get(f"/api/knowledge-bases/{base}/items", params={"parentId": disk["id"]})
    ).json()["items"]
    assert_problem(await move(http, base, listed["id"], parentId=outer), 409, "not_movable")
    assert (await move(http, base, disk["id"], parentId=outer)).status_code == 202
    assert await found_titles(http, base, "rye") == {"a.txt"}
    reindexed = await http.post(f"{ITEM}/{outer}/reprocess")
    assert reindexed.status_code == 202, reindexed.text
    await wait_for_job(http, reindexed.json()["jobId"])
    assert await item_titles(http, base, parentId=outer) == sorted(["inner", "one", disk["title"]])


async def test_items_move_to_another_base_without_being_embedded_again(
    http: httpx.AsyncClient,
) -> None:
    """They keep their ids and versions, and are in the one base or the other at every moment."""
    base, other = await make_base(http), await make_base(http, "archive")
    notes, folder = await add_notes(http, base, "one", "two"), await add_folder(http, base, "shelf")
    shelf = await add_folder(http, other, "top")
    await move(http, base, notes["one"]["id"], parentId=folder)
    with (
        faults.watch("swap.before_call") as embedding,
        faults.watch("move.before_switch", hold=True) as switch,
    ):
        response = await move(http, base, folder, toBaseId=other, parentId=shelf)
        assert response.status_code == 202, response.text
        await reached(switch)
        assert await found_titles(http, base, "text") == {"one", "two"}
        assert await found_titles(http, other, "text") == set()
        switch.hold.set()
        assert (await wait_for_job(http, response.json()["jobId"]))["state"] == "done"
        assert embedding.count == 0
    assert await found_titles(http, base, "text") == {"two"}
    assert await found_titles(http, other, "text") == {"one"}
    moved = (await http.get(f"{ITEM}/{notes['one']['id']}")).json()
    assert (moved["baseId"], moved["parentId"], moved["version"], moved["chunkCount"]) == (
        other,
        folder,
        1,
        1,
    )
    assert (await http.get(f"{ITEM}/{folder}")).json()["parentId"] == shelf
    assert (await http.get("/api/health/invariants")).json()["violations"] == []
    (reindexed,) = (await http.post(f"{ITEM}/{notes['one']['id']}/reprocess")).json()["rootIds"]
    assert (await wait_until_ended(http, reindexed))["status"] == "completed"
    types = {
        event["type"] for event in (await http.get("/api/events", params={"baseId": other})).json()["items"]
    }
    assert "ItemsMoved" in types


async def test_who_is_no_admin_does_not_change_access_by_moving(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """An editor must see all of both bases, and the lists that apply must be the same."""
    base = await make_base(http, acl=["org:*"])
    hidden = await make_base(http, "hidden", acl=["group:owners"])
    same = await make_base(http, "same", acl=["org:*"])
    narrow = await add_folder(http, base, "narrow", acl=["org:*", "group:owners"])
    note = (await add_notes(http, base, "one"))["one"]["id"]
    async with client_with_key(mill, (await create_key(http, role="editor"))["key"]) as editor:
        assert_problem(await move(editor, base, note, parentId=narrow), 403, "access_would_change")
        assert_problem(await move(editor, base, note, toBaseId=hidden), 404, "base_not_found")
        assert (await move(editor, base, note, toBaseId=same)).status_code == 202


async def test_tags_are_added_removed_and_filtered(http: httpx.AsyncClient) -> None:
    """Other metadata stays; searches, lists and the tree filter by them; a filter selects what they are added to."""
    base = await make_base(http)
    notes = await add_notes(http, base, "one", "two", "three", metadata={"team": "mill"})
    url = f"/api/knowledge-bases/{base}/items/tag"
    ids = [notes["one"]["id"], notes["two"]["id"]]
    response = await http.post(url, json={"itemIds": ids, "add": ["draft", "2026"]})
    assert set(response.json()["itemIds"]) == set(ids)
    assert (await http.post(url, json={"itemIds": ids, "add": ["draft"]})).json()["itemIds"] == []
    await http.post(url, json={"filter": {"q": "two"}, "remove": ["draft"]})
    assert (await http.get(f"{ITEM}/{ids[0]}")).json()["metadata"] == {
        "team": "mill",
        "tags": ["draft", "2026"],
    }
    assert (await http.get(f"/api/knowledge-bases/{base}/tags")).json()["items"] == [
        {"tag": "2026", "items": 2},
        {"tag": "draft", "items": 1},
    ]
    assert await item_titles(http, base, tag="2026") == ["one", "two"]
    tree = await http.get(f"/api/knowledge-bases/{base}/tree", params={"tag": "draft"})
    assert [row["title"] for row in tree.json()["items"]] == ["one"]
    hits = await search(http, base, "text", filters={"metadata": {"tags": ["2026"]}})
    assert {hit["title"] for hit in hits} == {"one", "two"}
    full = await http.post(url, json={"itemIds": ids[:1], "add": [f"tag {n}" for n in range(49)]})
    assert_problem(full, 409, "too_many_tags")


@pytest.mark.parametrize("descending", [False, True])
async def test_lists_are_sorted_by_any_column_page_by_page(http: httpx.AsyncClient, descending: bool) -> None:
    """A page goes on where the one before ended, also when items come in between."""
    base = await make_base(http)
    await add_items(
        http, base, *({"type": "note", "title": title, "content": title * 3} for title in ("b", "A", "cc"))
    )
    await add_folder(http, base, "d")
    orders = {"title": ["A", "b", "cc", "d"], "size": ["b", "A", "cc", "d"], "type": ["d", "b", "A", "cc"]}
    if descending:
        orders = {
            "title": ["d", "cc", "b", "A"],
            "size": ["cc", "b", "A", "d"],
            "type": ["b", "A", "cc", "d"],
        }
    for sort, titles in orders.items():
        params: dict[str, Any] = {"sort": sort, "descending": descending}
        tree = (await http.get(f"/api/knowledge-bases/{base}/tree", params=params)).json()
        assert [row["title"] for row in tree["items"]] == titles
        listed: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = {**params, "limit": 2} | ({"cursor": cursor} if cursor else {})
            body = (await http.get(f"/api/knowledge-bases/{base}/items", params=page)).json()
            listed += [item["title"] for item in body["items"]]
            cursor = body["nextCursor"]
        assert listed == titles
    bad = await http.get(f"/api/knowledge-bases/{base}/items", params={"sort": "title", "cursor": "x"})
    assert_problem(bad, 422, "invalid_request")


async def test_a_filter_selects_thousands_to_delete_and_reindex(http: httpx.AsyncClient) -> None:
    """What does not match stays; a request without ids and filter, or with both, is refused."""
    base = await make_base(http)
    notes = [{"type": "note", "title": f"log {n}", "content": f"rye {n}"} for n in range(30)]
    created = (await add_items(http, base, *notes, {"type": "note", "title": "plan", "content": "oats"}))[
        "created"
    ]
    for item in created:
        await wait_until_ended(http, item["id"])
    url = f"/api/knowledge-bases/{base}/items"
    reindexed = await http.post(f"{url}/reindex", json={"filter": {"q": "log"}})
    assert len(reindexed.json()["rootIds"]) == 30
    await wait_for_job(http, reindexed.json()["jobId"])
    deleted = await http.post(f"{url}/delete", json={"filter": {"q": "log"}})
    assert len(deleted.json()["rootIds"]) == 30
    assert await item_titles(http, base) == ["plan"]
    bodies: list[dict[str, Any]] = [{}, {"itemIds": [], "filter": {}}]
    for body in bodies:
        assert_problem(await http.post(f"{url}/delete", json=body), 422, "invalid_request")


async def test_a_deletion_wins_over_a_move_to_another_base(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """What is deleted while its chunks are built elsewhere is gone from both; what is moved twice belongs to the first target."""
    base, other, third = [await make_base(http, name) for name in ("from", "to", "third")]
    notes = await add_notes(http, base, "one", "two")
    with faults.watch("move.built", hold=True) as built:
        ids = [note["id"] for note in notes.values()]
        moves = [await move(http, base, *ids, toBaseId=target) for target in (other, third)]
        await reached(built)
        deleted = await http.delete(f"{ITEM}/{notes['one']['id']}")
        built.hold.set()
        for job in [deleted, *moves]:
            assert (await wait_for_job(http, job.json()["jobId"]))["state"] == "done"
    owner = (await http.get(f"{ITEM}/{notes['two']['id']}")).json()["baseId"]
    assert owner in (other, third)
    assert [await item_titles(http, each) for each in (base, owner)] == [[], ["two"]]
    back = await move(http, owner, notes["two"]["id"], toBaseId=base)
    assert (await wait_for_job(http, back.json()["jobId"]))["state"] == "done"
    assert await found_titles(http, base, "text") == {"two"}
    async with mill.db.connection() as tx:
        left = await (
            await tx.execute(
                "select count(*) from chunk c join item i on i.id = c.item_id join chunk_set s on s.id = c.set_id "
                "where s.base_id <> i.base_id"
            )
        ).fetchone()
    assert left == (0,)
