"""What a document says of itself becomes the item's `document`: shown, filtered by, apart from the metadata that people set."""

import json
from typing import Any

import httpx

from gristmill import app
from gristmill.catalog import index_title
from gristmill.ingest.findings import text_language
from tests.api_calls import add_items, make_base, search, wait_until_ended


def test_a_language_is_detected_only_if_it_is_certain() -> None:
    assert text_language("The stone is dressed by the miller, and that takes a day.") == "en"
    assert text_language("Der Stein wird geschärft, und das dauert einen Tag für die Mühle.") == "de"
    assert text_language("石磨每週打磨一次") == "zh"
    assert text_language("8231 xkcd qwrt 77") is None
    assert text_language("") is None


STONES = "---\ntitle: On Querns\nauthor: Ada Lovelace\ndate: 2024-03-01\ntags: [basalt]\n---\nThe wheel is round.\n"


async def test_an_item_shows_what_its_document_says_and_searches_filter_by_it(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    base = await make_base(http)
    note = {"type": "note", "title": "stones", "content": STONES, "metadata": {"year": 1900}}
    other = {
        "type": "note",
        "title": "wheels",
        "content": "Das Rad ist rund, und die Mühle steht nicht still für uns.",
    }
    created = (await add_items(http, base, note, other))["created"]
    stones, wheels = [await wait_until_ended(http, item["id"]) for item in created]
    fields = {
        "title": "On Querns",
        "authors": ["Ada Lovelace"],
        "created": "2024-03-01",
        "keywords": ["basalt"],
    }
    assert stones["document"] == {**fields, "language": "en"}
    assert (stones["metadata"], wheels["document"]) == ({"year": 1900}, {"language": "de"})
    async with mill.db.connection() as tx:
        row = await (
            await tx.execute("select index_title from item where id = %s", (stones["id"],))
        ).fetchone()
    assert row is not None
    assert (
        row[0] == index_title("stones", stones["document"]) == 'stones On Querns ["Ada Lovelace"] ["basalt"]'
    )
    many = {"title": "Stones", "authors": ["Jörg 知"] * 50, "keywords": ['a "b" \\ c'] * 50}
    async with mill.db.connection() as tx:
        changed = "update item set document = %s where id = %s returning index_title"
        row = await (await tx.execute(changed, (json.dumps(many), stones["id"]))).fetchone()
        assert row is not None
        assert row[0] == index_title("stones", many)
        assert len(row[0]) == 308
        await tx.execute(changed, (json.dumps(stones["document"]), stones["id"]))

    async def titles(**filters: Any) -> set[str]:
        return {hit["title"] for hit in await search(http, base, "wheel Rad", filters=filters)}

    assert await titles() == {"stones", "wheels"}
    assert await titles(op="gte", key="document.created", value=2024) == {"stones"}
    assert await titles(op="eq", key="document.authors", value="Ada Lovelace") == {"stones"}
    assert await titles(op="ne", key="document.language", value="en") == {"wheels"}
    assert await titles(metadata={"document": {"language": "de"}}) == {"wheels"}
    assert await titles(metadata={"year": 1900, "document": {"keywords": ["basalt"]}}) == {"stones"}

    # What people set wins, and stays when the document changes.
    patch = {"metadata": {"document": {"authors": ["Bob"]}}}
    shown = (await http.patch(f"/api/knowledge-items/{stones['id']}", json=patch)).json()
    assert (shown["metadata"], shown["document"]) == (patch["metadata"], stones["document"])
    assert await titles(op="eq", key="document.authors", value="Ada Lovelace") == set()
    assert await titles(op="eq", key="document.authors", value="Bob") == {"stones"}
    assert await titles(op="eq", key="document.title", value="On Querns") == {"stones"}
    body = {"items": [note | {"content": "The wheel is wooden.", "metadata": {}}], "onConflict": "replace"}
    await http.post(f"/api/knowledge-bases/{base}/items", json=body)
    replaced = await wait_until_ended(http, stones["id"])
    assert (replaced["document"], replaced["metadata"]) == ({"language": "en"}, patch["metadata"])
    assert await titles(op="eq", key="document.title", value="On Querns") == set()
    assert await titles(op="eq", key="document.authors", value="Bob") == {"stones"}
