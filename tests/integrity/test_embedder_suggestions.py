"""A base whose texts its embedder does not know: another one is suggested, by the base itself and once by an event."""

from collections.abc import AsyncGenerator

import httpx
import pytest

from gristmill import app, events
from gristmill.settings import Settings
from tests.api_calls import add_items, assert_healthy, make_base, wait_for_job, wait_until_ended
from tests.embedding.hashed import HashedEmbedder

pytestmark = pytest.mark.slow

CHINESE = "石磨每年春天打磨一次，磨坊主人亲自动手，然后才开始磨面粉。"
ENGLISH = "The miller dresses the stones every spring, before the first harvest comes."


@pytest.fixture
async def mill(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    """A Gristmill whose default embedder knows English only."""
    embedder = HashedEmbedder()
    embedder.strengths = {"english": 1.0}
    async with app.gristmill(settings, work=True, extra_embedders={"hashed": embedder}) as running:
        yield running


async def add_note(http: httpx.AsyncClient, base: str, content: str) -> None:
    added = await add_items(http, base, {"type": "note", "content": content})
    assert (await wait_until_ended(http, added["created"][0]["id"]))["status"] == "completed"


async def suggestions(mill: app.Gristmill, http: httpx.AsyncClient) -> list[tuple[str, dict[str, str]]]:
    """Let the reconciler make a pass; the events that suggest an embedder."""
    await events.sequence_all(mill.db)
    job = await wait_for_job(http, (await http.post("/api/health/reconciler")).json()["jobId"])
    assert job["state"] == "done", job
    await events.sequence_all(mill.db)
    page = (await http.get("/api/events", params={"types": "BaseEmbedderSuggested"})).json()
    return [(event["baseId"], event["data"]) for event in page["items"]]


async def test_a_better_embedder_is_suggested_by_one_event(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    english, chinese = await make_base(http, "english"), await make_base(http, "chinese")
    await add_note(http, english, ENGLISH)
    await add_note(http, chinese, CHINESE)
    suggested = (await http.get(f"/api/knowledge-bases/{chinese}")).json()["suggestedEmbedder"]
    assert suggested is not None
    assert (await http.get(f"/api/knowledge-bases/{english}")).json()["suggestedEmbedder"] is None
    event = (chinese, {"embedder": suggested, "currentEmbedder": "hashed"})
    assert await suggestions(mill, http) == [event]
    await add_note(http, chinese, CHINESE + "面粉放在阴凉处。")
    assert await suggestions(mill, http) == [event], "it is suggested once"

    for number in range(12):
        await add_note(http, chinese, f"{ENGLISH} It is number {number}.")
    assert await suggestions(mill, http) == [event]
    async with mill.db.connection() as tx:
        rows = await (await tx.execute("select name, suggested_embedder from base order by name")).fetchall()
    assert rows == [("chinese", None), ("english", None)], (
        "most texts are English now: it may be suggested again"
    )
    await assert_healthy(http)
