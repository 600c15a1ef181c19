"""Items and their chunks through the API: the routes, progress in lists, and what shows that an item is being deleted."""

from typing import Any
from uuid import UUID

import httpx

from gristmill import app, catalog, faults
from gristmill.catalog import BaseId, access
from gristmill.search import Searcher, SearchRequest, Target
from tests.api_calls import add_items, make_base, search, wait_until_ended
from tests.wait_until import reached, wait_until

ROUTES = {
    ("post", "/api/knowledge-bases/{base_id}/items"),
    ("get", "/api/knowledge-bases/{base_id}/items"),
    ("get", "/api/knowledge-items/{item_id}"),
    ("post", "/api/knowledge-items/{item_id}/reprocess"),
    ("get", "/api/knowledge-bases/{base_id}/queue"),
    ("post", "/api/knowledge-bases/{base_id}/queue/recover"),
}


async def operations(http: httpx.AsyncClient) -> set[tuple[str, str]]:
    """Every method and path of the API."""
    paths: dict[str, dict[str, Any]] = (await http.get("/openapi.json")).json()["paths"]
    return {(method, path) for path, methods in paths.items() for method in methods}


async def test_the_routes_of_items_and_queue_exist(http: httpx.AsyncClient) -> None:
    """S4-62."""
    assert await operations(http) >= ROUTES
    base = await make_base(http)
    (item,) = (await add_items(http, base, {"type": "note", "content": "rye"}))["created"]
    item = await wait_until_ended(http, item["id"])
    assert (await http.post(f"/api/knowledge-items/{item['id']}/reprocess")).status_code == 202
    assert (await http.get(f"/api/knowledge-bases/{base}/queue")).status_code == 200
    assert (await http.post(f"/api/knowledge-bases/{base}/queue/recover")).status_code == 200


async def test_chunks_are_replaced_with_their_document_and_never_deleted_alone(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """S0-20: no operation changes the text of a chunk, and a new version leaves none of the old one."""
    assert {method for method, path in await operations(http) if "chunk" in path} == {"get", "patch", "post"}
    base = await make_base(http)
    note = {"type": "note", "title": "n", "content": "rye"}
    (item,) = (await add_items(http, base, note))["created"]
    await wait_until_ended(http, item["id"])
    url = f"/api/knowledge-items/{item['id']}/chunks"
    (old,) = (await http.get(url)).json()["items"]
    for path in (url, f"{url}/{old['id']}", f"/api/chunks/{old['id']}"):
        assert (await http.delete(path)).status_code in (404, 405)
    response = await http.post(
        f"/api/knowledge-bases/{base}/items",
        json={"items": [{**note, "content": "oats"}], "onConflict": "replace"},
    )
    assert response.json()["created"][0]["id"] == item["id"]
    await wait_until_ended(http, item["id"])
    (new,) = (await http.get(url)).json()["items"]
    assert (new["text"], new["id"] == old["id"]) == ("oats", False)
    async with mill.db.connection() as tx:
        assert await (await tx.execute("select text from chunk")).fetchall() == [("oats",)]


async def test_lists_show_the_progress_of_what_is_being_indexed(http: httpx.AsyncClient) -> None:
    """S4-66, S4-36: without being asked for; 100 once it is completed."""
    base = await make_base(http)
    with faults.watch("index.embedded", hold=True) as fault:
        (item,) = (await add_items(http, base, {"type": "note", "content": "rye"}))["created"]
        assert item["progress"] == 0
        await reached(fault)

        async def has_progress() -> bool:
            (listed_item,) = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
            single = (await http.get(f"/api/knowledge-items/{item['id']}")).json()
            return listed_item["progress"] == single["progress"] == 60 and listed_item["phase"] == "embedding"

        await wait_until(has_progress)
    await wait_until_ended(http, item["id"])
    (listed_item,) = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
    assert (listed_item["progress"], listed_item["phase"]) == (100, "completed")


async def test_deleting_is_derived_from_the_stored_status(http: httpx.AsyncClient) -> None:
    """S4-65, S4-63, S4-39: false before; true from the request on, in every process; then the item is gone."""
    base = await make_base(http)
    (item,) = (await add_items(http, base, {"type": "note", "content": "rye"}))["created"]
    item = await wait_until_ended(http, item["id"])
    assert item["deleting"] is False
    url = f"/api/knowledge-bases/{base}/items"
    with faults.watch("remove.batch", hold=True), faults.watch("worker.claimed", hold=True):
        assert (await http.delete(f"/api/knowledge-items/{item['id']}")).status_code == 202
        assert (await http.get(url)).json()["items"] == []
        (deleting_item,) = (await http.get(url, params={"includeDeleting": True})).json()["items"]
        assert (deleting_item["deleting"], deleting_item["status"], deleting_item["phase"]) == (
            True,
            "deleting",
            "pending",
        )

    async def is_gone() -> bool:
        return (await http.get(url, params={"includeDeleting": True})).json()["items"] == []

    await wait_until(is_gone)


async def test_a_chunk_has_a_vector_and_words_and_the_access_list_of_its_document(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """S2-36, S2-29: all three are asked at query time, and the chunk goes with its document."""
    base = await make_base(http)
    note = {"type": "note", "title": "n", "content": "rye", "acl": ["team:millers"]}
    (item,) = (await add_items(http, base, note))["created"]
    await wait_until_ended(http, item["id"])
    async with mill.db.connection() as tx:
        cursor = await tx.execute(
            "select vector_dims(c.embedding), (select sum(s.chunks)::int from segment s) from chunk c"
        )
        assert await cursor.fetchall() == [(mill.embedders.default.dimensions, 1)]
    for mode in ("text", "vector", "hybrid"):
        assert [hit["text"] for hit in await search(http, base, "rye", mode=mode)] == ["rye"], mode
    searcher = Searcher(mill.db, cache_bytes=2**20)
    target = await _target(mill, base)
    for teams, texts in ((["millers"], ["rye"]), (["bakers"], list[str]())):
        request = SearchRequest("rye", limit=10, mode="text", viewer=access.member(teams=teams))
        assert [hit.text for hit in await searcher.search([target], request)] == texts
    assert (await http.delete(f"/api/knowledge-items/{item['id']}")).status_code == 202

    async def is_gone() -> bool:
        async with mill.db.connection() as tx:
            return await (await tx.execute("select 1 from chunk")).fetchall() == []

    await wait_until(is_gone)


async def _target(mill: app.Gristmill, base_id: str) -> Target:
    async with mill.db.connection() as tx:
        base = await catalog.find_base(tx, BaseId(UUID(base_id)))
    assert base is not None
    return Target(base, None)
