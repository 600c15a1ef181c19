"""What people search a base for: kept only if its owner wants that, shown, deleted, and used to compare embedders."""

from collections.abc import AsyncGenerator
from datetime import timedelta

import httpx
import pytest

from gristmill import app, search
from gristmill.identity import LOCAL_ORG
from gristmill.search import asked_questions
from gristmill.settings import Settings
from tests.api_calls import add_items, assert_healthy, make_base, wait_until_ended
from tests.embedding.hashed import HashedEmbedder
from tests.ingest.swap_setup import text_of
from tests.server.clients import client_with_key, new_key
from tests.wait_until import wait_until

QUESTIONS = [f"what does mill number{number} grind" for number in range(9)]


@pytest.fixture
async def mill(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    """A Gristmill with two embedders."""
    embedders = {"hashed": HashedEmbedder(), "other": HashedEmbedder("other", dimensions=96)}
    async with app.gristmill(settings, work=True, extra_embedders=embedders) as running:
        yield running


async def kept(http: httpx.AsyncClient, base: str) -> list[tuple[str, int]]:
    """The questions that are kept, and how often each was asked."""
    page = (await http.get(f"/api/knowledge-bases/{base}/questions")).json()
    return [(asked["question"], asked["times"]) for asked in page["items"]]


async def ask(http: httpx.AsyncClient, base: str, query: str) -> None:
    """Search a base."""
    response = await http.post(f"/api/knowledge-bases/{base}/search", json={"query": query})
    assert response.status_code == 200, response.text


async def test_questions_are_kept_if_the_owner_wants_it_and_are_used_by_the_gate(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """Off by default; kept without names, the latest first; deleted by a call, by `off`, and with time."""
    base = await make_base(http)
    url = f"/api/knowledge-bases/{base}"
    notes = [{"type": "note", "title": f"note-{n}", "content": text_of(n)} for n in range(12)]
    for item in (await add_items(http, base, *notes))["created"]:
        await wait_until_ended(http, item["id"])
    await ask(http, base, "not kept")
    assert await kept(http, base) == []
    await http.patch(url, json={"settings": {"questions": "keep"}})
    for query in QUESTIONS:
        await ask(http, base, query)
    await ask(http, base, f"  {QUESTIONS[0].upper()} ")
    await ask(http, base, "x" * 501)
    assert await kept(http, base) == [(QUESTIONS[0], 2), *((text, 1) for text in reversed(QUESTIONS[1:]))]
    page = (await http.get(f"{url}/questions", params={"limit": 4})).json()
    following = (
        await http.get(f"{url}/questions", params={"limit": 10, "cursor": page["nextCursor"]})
    ).json()
    assert [len(page["items"]), len(following["items"])] == [4, 5]

    await http.post(f"{url}/embedder", json={"embedder": "other", "gate": "ask"})

    async def report() -> dict[str, object] | None:
        return (await http.get(f"{url}/embedder")).json()["report"]

    compared = await wait_until(report)
    assert compared["sources"]["asked"] == 9  # type: ignore[index]
    assert compared["asked"]["questions"] == 9  # type: ignore[index]
    await http.post(f"{url}/embedder/cancel")

    assert (await http.delete(f"{url}/questions")).json() == {"deleted": 9}
    await ask(http, base, QUESTIONS[1])
    assert await kept(http, base) == [(QUESTIONS[1], 1)]
    async with mill.db.connection() as tx:
        assert await search.delete_old_questions(tx, timedelta(days=1)) == 0
        assert await search.delete_old_questions(tx, timedelta(0)) == 1
    await ask(http, base, QUESTIONS[2])
    assert (await http.patch(url, json={"settings": {"questions": "off"}})).json()["settings"][
        "questions"
    ] == "off"
    await ask(http, base, QUESTIONS[3])
    assert await kept(http, base) == []
    await assert_healthy(http)


async def test_a_base_keeps_the_latest_questions_alone(
    http: httpx.AsyncClient, mill: app.Gristmill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of too many the oldest go, and an old one that is asked again is new."""
    monkeypatch.setattr(asked_questions, "MAX_QUESTIONS", 3)
    base = await make_base(http, settings={"questions": "keep"})
    for query in (*QUESTIONS[:3], QUESTIONS[0], QUESTIONS[4]):
        await ask(http, base, query)
    assert await kept(http, base) == [(QUESTIONS[4], 1), (QUESTIONS[0], 2), (QUESTIONS[2], 1)]


async def test_only_admins_see_what_people_search_for(http: httpx.AsyncClient, mill: app.Gristmill) -> None:
    """An editor of the base does not."""
    base = await make_base(http, acl=["org:*"], settings={"questions": "keep"})
    _, secret = await new_key(mill.db, LOCAL_ORG, "editor")
    async with client_with_key(mill, secret) as editor:
        response = await editor.get(f"/api/knowledge-bases/{base}/questions")
        assert response.status_code == 403, response.text
        assert (await editor.delete(f"/api/knowledge-bases/{base}/questions")).status_code == 403
