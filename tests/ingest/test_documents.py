"""Real documents through the whole mill: read in subprocesses, searchable by page, and a broken one fails alone."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from gristmill import app, search
from gristmill.catalog import ADMIN, access
from gristmill.identity import OrgId
from tests.readers import samples
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

FILES = {
    "two.pdf": samples.pdf(["The miller grinds rye.", "The baker buys oats."]),
    "memo.docx": samples.docx(samples.paragraph("Barley comes by boat.")),
    "mail.eml": samples.mail("Spelt on Tuesday.", {"list.txt": b"Emmer by the sack."}).as_bytes(),
    "page.html": b"<html><head><title>Quern lore</title><meta name='keywords' content='basalt'></head><body><h1>Stones</h1><p>Dress the millstone.</p></body></html>",
    "latin.txt": "Die Mühle mahlt Größeres als Körner, täglich außer für Gäste.".encode("latin-1"),
    "broken.pdf": b"%PDF-1.7\nnothing of it",
    "noise.bin": bytes(range(256)) * 8,
}


async def add_files(http: httpx.AsyncClient, base: str) -> dict[str, dict[str, object]]:
    form_files = [("files", (name, data)) for name, data in FILES.items()]
    answer = await http.post(f"/api/knowledge-bases/{base}/files", files=form_files)
    assert answer.status_code == 202, answer.text

    async def completed_items() -> dict[str, dict[str, object]] | None:
        items = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
        are_all_ended = all(item["status"] in ("completed", "failed") for item in items)
        return {item["title"]: item for item in items} if are_all_ended else None

    return await wait_until(completed_items, limit=60)


@pytest.fixture
async def base(http: httpx.AsyncClient) -> str:
    return (await http.post("/api/knowledge-bases", json={"name": "documents"})).json()["id"]


async def best_hit(http: httpx.AsyncClient, base: str, query: str) -> dict[str, object]:
    answer = await http.post(
        f"/api/knowledge-bases/{base}/search", json={"query": query, "mode": "text", "limit": 1}
    )
    (hit,) = answer.json()["hits"]
    return hit


async def test_documents_are_read_whatever_they_are_and_a_broken_one_costs_only_itself(
    http: httpx.AsyncClient, mill: app.Gristmill, base: str
) -> None:
    """S3-01, S4-41, C7. Hits on pages have rectangles, for those who can see the document."""
    items = await add_files(http, base)
    statuses = {name: item["status"] for name, item in items.items()}
    assert statuses.pop("broken.pdf") == "failed"
    assert statuses.pop("noise.bin") == "failed"
    assert set(statuses.values()) == {"completed"}
    assert items["broken.pdf"]["error"]["code"] == "corrupt"  # pyright: ignore[reportIndexIssue]
    assert items["noise.bin"]["error"]["code"] == "unsupported_type"  # pyright: ignore[reportIndexIssue]
    assert items["mail.eml"]["warnings"] == []
    assert (await best_hit(http, base, "barley"))["title"] == "memo.docx"
    assert (await best_hit(http, base, "spelt"))["title"] == "mail.eml"
    assert (await best_hit(http, base, "millstone"))["title"] == "page.html"
    assert (await best_hit(http, base, "basalt querns"))["title"] == "page.html"  # words of its head
    assert items["page.html"]["document"] == {"title": "Quern lore", "keywords": ["basalt"], "language": "en"}
    assert (await best_hit(http, base, "Körner"))["title"] == "latin.txt"
    oats = await best_hit(http, base, "oats")
    assert (oats["title"], oats["source"]["page"]) == ("two.pdf", 1)  # pyright: ignore[reportIndexIssue]
    boxes: Any = oats["boxes"]
    assert [box["page"] for box in boxes] == [1, 2]  # a line on each page
    assert all(0 < box["x0"] < box["x1"] < 1 and 0 < box["y0"] < box["y1"] < 0.2 for box in boxes)
    chunks_path = f"/api/knowledge-items/{items['two.pdf']['id']}/chunks"
    (chunk,) = (await http.get(chunks_path, params={"boxes": "true"})).json()["items"]
    assert chunk["boxes"] == boxes
    assert (await http.get(chunks_path)).json()["items"][0]["boxes"] is None
    assert (await best_hit(http, base, "barley"))["boxes"] == []
    stranger = access.member("eve@example.org", [], [], OrgId(uuid4()))
    async with mill.db.connection() as tx:
        listed = await search.list_chunks(tx, UUID(base), UUID(chunk["itemId"]), limit=5)
        assert [len(found) for found in await search.passage_boxes(tx, ADMIN, listed)] == [2]
        assert await search.passage_boxes(tx, stranger, listed) == [[]]


async def test_what_was_extracted_once_is_not_extracted_again(
    http: httpx.AsyncClient, mill: app.Gristmill, base: str
) -> None:
    """Promise 4: the same bytes in another base are read from what is kept; S3-10."""
    await add_files(http, base)
    async with mill.db.connection() as tx:
        await tx.execute("update content_part set text = replace(text, 'oats', 'millet')")
    other_base = (await http.post("/api/knowledge-bases", json={"name": "other"})).json()["id"]
    await add_files(http, other_base)
    assert (await best_hit(http, other_base, "millet"))["title"] == "two.pdf"
