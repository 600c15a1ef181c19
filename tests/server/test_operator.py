"""What operators look at: the room that bases take, and the audit log by filters."""

import httpx

from gristmill import __version__, app
from tests.api_calls import add_items, assert_problem, make_base, wait_until_ended
from tests.server.clients import client_with_key
from tests.server.test_keys import create_key


async def test_storage_and_audit_are_shown_to_those_who_run_it(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """Bases with their sizes, embedder and index; refused requests apart; workers with their version."""
    base = await make_base(http)
    folder = {"type": "folder", "title": "shelf"}  # it is no document, and counted nowhere
    item, _ = (await add_items(http, base, {"type": "note", "content": "rye"}, folder))["created"]
    await wait_until_ended(http, item["id"])
    storage = (await http.get("/api/storage")).json()
    assert storage["version"] == __version__
    assert storage["databaseBytes"] > storage["chunkBytes"] > 0
    (shown,) = storage["bases"]
    assert (shown["id"], shown["items"], shown["chunks"], shown["indexKind"]) == (base, 1, 1, "embedded")
    assert shown["indexBytes"] > 0
    assert {worker["version"] for worker in (await http.get("/api/workers")).json()["items"]} == {__version__}
    await http.delete("/api/knowledge-bases/nothing")
    refused = (await http.get("/api/audit", params={"failed": True})).json()["items"]
    assert [(entry["method"], entry["status"]) for entry in refused] == [("DELETE", 404)]
    added = (await http.get("/api/audit", params={"path": "/ITEMS", "method": "POST"})).json()["items"]
    assert [entry["path"] for entry in added] == [f"/api/knowledge-bases/{base}/items"]
    assert (await http.get("/api/audit", params={"actor": "no one"})).json()["items"] == []
    async with client_with_key(mill, (await create_key(http, role="editor"))["key"]) as editor:
        for path in ("/api/storage", "/api/audit"):
            response = await editor.get(path)
            assert_problem(response, 403, response.json()["code"])
