"""`/api/sample-base` and `/api/capabilities`: something to play with, and what this installation can do."""

import asyncio

import httpx
import pytest

from gristmill import app, faults
from gristmill.identity import LOCAL_ORG
from gristmill.readers.format_families import FAMILIES, RECORDINGS
from gristmill.readers.formats import READERS
from tests.api_calls import search, wait_until_ended
from tests.server.clients import client_with_key, new_key

DOCUMENTS = 8
URL = "/api/sample-base"


async def items_of(http: httpx.AsyncClient, base: str) -> list[str]:
    items = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
    return sorted(item["title"] for item in items)


async def test_the_sample_base_is_made_once_and_answers_in_both_languages(http: httpx.AsyncClient) -> None:
    """Also by two requests at the same moment. What was deleted of it comes back, and it can be deleted as a whole."""
    responses = await asyncio.gather(*(http.post(URL) for _ in range(3)))
    assert {response.status_code for response in responses} == {201}, [each.text for each in responses]
    (base,) = {response.json()["id"] for response in responses}
    titles = await items_of(http, base)
    assert len(titles) == DOCUMENTS
    assert "石磨的保养.md" in titles
    items = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
    for item in items:
        assert (await wait_until_ended(http, item["id"]))["status"] == "completed"
    for query, title in (("larch buckets", "Repairing the water wheel.md"), ("退票", "参观须知.md")):
        hits = await search(http, base, query)
        assert hits[0]["title"] == title
    gone = next(item["id"] for item in items if item["title"] == "Flour types.csv")
    assert (await http.delete(f"/api/knowledge-items/{gone}")).status_code == 202
    again = await http.post(URL)
    assert again.status_code == 201, again.text
    assert again.json()["id"] == base
    assert await items_of(http, base) == titles
    assert (await http.delete(f"/api/knowledge-bases/{base}")).status_code == 202
    assert (await http.post(URL)).json()["id"] != base


async def test_a_base_of_that_name_which_is_not_the_sample_stays_as_it_is(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """Neither one that someone made, nor a sample that the caller can't see."""
    own = (await http.post("/api/knowledge-bases", json={"name": "sample"})).json()["id"]
    sample = (await http.post(URL)).json()
    assert sample["name"] == "Sample 2"
    assert await items_of(http, own) == []
    _, secret = await new_key(mill.db, LOCAL_ORG, "editor", "ada@example.org")
    async with client_with_key(mill, secret) as editor:
        theirs = (await editor.post(URL)).json()
        assert theirs["name"] == "Sample 3"
        assert theirs["acl"] == ["user_email:ada@example.org"]
        assert len(await items_of(editor, theirs["id"])) == DOCUMENTS


async def test_a_request_that_was_killed_after_the_base_was_created_is_completed_by_the_next(
    http: httpx.AsyncClient,
) -> None:
    with faults.watch("add.before_commit", hold=True) as point:
        request = asyncio.create_task(http.post(URL))
        await point.passed.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    base = (await http.get("/api/knowledge-bases", params={"name": "Sample"})).json()["items"][0]["id"]
    assert await items_of(http, base) == []
    assert (await http.post(URL)).json()["id"] == base
    assert len(await items_of(http, base)) == DOCUMENTS


async def test_capabilities_list_every_format_the_limits_and_the_languages(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    answer = (await http.get("/api/capabilities")).json()
    assert answer["chatModel"] is None
    assert answer["limits"]["documentBytes"] == mill.api.state.context.settings.max_document_mb * 2**20
    assert {"code": "zh", "name": "chinese"} in answer["languages"]
    names = [family["family"] for family in answer["formats"]]
    assert names == [family.name for family in FAMILIES]
    assert RECORDINGS.name not in names


def test_every_kind_of_document_belongs_to_one_family() -> None:
    """Except for those that are refused, or turn out to be another kind."""
    kinds = [kind for family in FAMILIES for kind in family.kinds]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == READERS.keys() - {"ole", "encrypted"}
