"""Disabled chunks never answer, pinned ones come first where they fit; both survive a reindex of the same text."""

from typing import Any

import httpx

from gristmill import app
from tests.api_calls import add_items, assert_problem, make_base, search, wait_for_job, wait_until_ended
from tests.server.clients import client_with_key
from tests.server.test_keys import create_key

TEXTS = {"one": "rye and oats by the mill", "two": "rye in sacks", "three": "barley for the miller"}


async def marked(http: httpx.AsyncClient, item_id: str, mark: str | None) -> httpx.Response:
    """Mark the first chunk of an item."""
    url = f"/api/knowledge-items/{item_id}/chunks"
    (chunk, *_) = (await http.get(url)).json()["items"]
    return await http.patch(f"{url}/{chunk['id']}", json={"mark": mark})


async def test_a_mark_decides_who_answers_and_survives_a_reindex(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """In every mode, in contexts of neighbours and in why-not; an editor may set it, a reader may not."""
    base = await make_base(http, acl=["org:*"])
    notes = [{"type": "note", "title": title, "content": text} for title, text in TEXTS.items()]
    items: dict[str, Any] = {}
    for item in (await add_items(http, base, *notes))["created"]:
        items[item["title"]] = (await wait_until_ended(http, item["id"]))["id"]

    async def titles(query: str, **fields: Any) -> list[str]:
        return [hit["title"] for hit in await search(http, base, query, **fields)]

    first = (await titles("rye", mode="text"))[0]
    last = (await titles("rye", mode="text"))[-1]
    assert {first, last} == {"one", "two"}
    response = await marked(http, items[last], "pinned")
    assert (response.status_code, response.json()["mark"]) == (200, "pinned")
    hits = await search(http, base, "rye", mode="text")
    assert [(hit["title"], hit["pinned"]) for hit in hits] == [(last, True), (first, False)]
    assert (await titles("rye", mode="text", limit=1)) == [last]
    assert (await titles("barley miller"))[0] == "three", "what does not fit is not put first"
    assert (await marked(http, items[last], "disabled")).json()["mark"] == "disabled"
    for mode in ("text", "vector", "hybrid"):
        assert last not in await titles("rye", mode=mode)
    reindexed = (await http.post(f"/api/knowledge-items/{items[last]}/reprocess")).json()
    await wait_for_job(http, reindexed["jobId"])
    assert (await wait_until_ended(http, items[last]))["status"] == "completed"
    other = await make_base(http, "other", acl=["org:*"])
    moved = await http.post(
        f"/api/knowledge-bases/{base}/items/move", json={"itemIds": [items[last]], "toBaseId": other}
    )
    await wait_for_job(http, moved.json()["jobId"])
    assert await search(http, other, "rye") == []
    why = await http.post(f"/api/knowledge-items/{items[last]}/why-not", json={"query": "rye"})
    assert "disabled_chunks" in {reason["code"] for reason in why.json()["reasons"]}
    assert (await marked(http, items[last], None)).json()["mark"] is None
    assert [hit["title"] for hit in await search(http, other, "rye")] == [last]
    missing = f"/api/knowledge-items/{items[first]}/chunks/{items[first]}"
    assert_problem(await http.patch(missing, json={"mark": "pinned"}), 404, "chunk_not_found")
    for role, status in (("editor", 200), ("reader", 403)):
        async with client_with_key(mill, (await create_key(http, role=role))["key"]) as client:
            assert (await marked(client, items[first], "pinned")).status_code == status


async def test_chunking_is_previewed_without_changing_anything(http: httpx.AsyncClient) -> None:
    """Smaller chunks, as the base would have them; the document's own chunks and version stay."""
    base = await make_base(http)
    text = " ".join(f"sentence {n} about rye." for n in range(200))
    (item,) = (await add_items(http, base, {"type": "note", "content": text}))["created"]
    item = await wait_until_ended(http, item["id"])
    url = f"/api/knowledge-items/{item['id']}/chunks/preview"
    accepted = await http.post(url, json={"maxTokens": 64})
    assert accepted.status_code == 202, accepted.text
    preview = (await wait_for_job(http, accepted.json()["jobId"]))["result"]
    assert preview["total"] == len(preview["chunks"]) > item["chunkCount"]
    assert max(chunk["tokens"] for chunk in preview["chunks"]) <= 64
    assert (preview["isWhole"], preview["characters"]) == (True, len(text))
    assert (await http.get(f"/api/knowledge-items/{item['id']}")).json()["chunkCount"] == item["chunkCount"]
    assert_problem(await http.post(url, json={"maxTokens": 4000}), 422, "chunk_too_long")
    await http.patch(f"/api/knowledge-bases/{base}", json={"chunking": {"maxTokens": 32}})
    for body, size in (
        ({}, 32),
        ({"maxTokens": None}, 256),
    ):  # as in a change of the base: null is the default
        job = (await http.post(url, json=body)).json()["jobId"]
        assert (await wait_for_job(http, job))["result"]["maxTokens"] == size
