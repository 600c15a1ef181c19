"""What searches and answers cost is in the ledger, by base and person; a budget of money stops answers, and never searches."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.settings import Settings
from tests.answers.chat_endpoint import ChatEndpoint, serve_chat
from tests.embedding.hashed import HashedEmbedder
from tests.server.clients import client_with_key, new_key, new_organisation
from tests.usage.test_budgets import add_notes, create_base, set_limit, wait_until_completed
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def chat() -> Generator[ChatEndpoint]:
    with serve_chat() as endpoint:
        yield endpoint


@pytest.fixture
async def mill(settings: Settings, chat: ChatEndpoint) -> AsyncGenerator[app.Gristmill]:
    """A Gristmill with a chat model that has a price."""
    priced = {
        "chat_url": chat.url,
        "chat_model": "quern",
        "chat_input_price": 10.0,
        "chat_output_price": 30.0,
    }
    async with app.gristmill(
        settings.model_copy(update=priced), work=True, extra_embedders={"hashed": HashedEmbedder()}
    ) as running:
        yield running


async def usage_rows(http: httpx.AsyncClient, kind: str) -> list[dict[str, Any]]:
    return [row for row in (await http.get("/api/usage")).json()["items"] if row["kind"] == kind]


async def test_queries_are_counted_by_person_without_a_write_for_each(mill: app.Gristmill) -> None:
    """A query that was embedded a moment ago costs nothing."""
    org = await new_organisation(mill.db, "miller")
    async with (
        client_with_key(mill, (await new_key(mill.db, org, "admin"))[1]) as admin,
        client_with_key(mill, (await new_key(mill.db, org, "reader", email="ann@example.org"))[1]) as ann,
    ):
        created = await admin.post("/api/knowledge-bases", json={"name": "flour", "acl": ["org:*"]})
        base: str = created.json()["id"]
        await add_notes(admin, base, 0, 2)
        await wait_until_completed(admin, base, 2)
        await set_limit(admin, kind="budget", measure="chunks", amount=2, baseId=base)
        url = f"/api/knowledge-bases/{base}/search"
        for query in ("sack number one", "where is rye", "sack number one"):
            assert (await ann.post(url, json={"query": query})).status_code == 200

        async def counted() -> list[dict[str, Any]]:
            return await usage_rows(admin, "query")

        (row,) = await wait_until(counted)
        assert (row["caller"], row["texts"], row["tokens"]) == ("user_email:ann@example.org", 2, 6)
        assert (await admin.get("/api/usage")).json()["totals"]["texts"] == 2, "texts of documents"
        (limit,) = (await admin.get("/api/limits")).json()["items"]
        assert limit["used"] == 2


async def test_a_used_up_budget_of_money_stops_answers_and_not_searches(
    http: httpx.AsyncClient, chat: ChatEndpoint
) -> None:
    base = await create_base(http, "paid")
    await add_notes(http, base, 0, 2)
    await wait_until_completed(http, base, 2)
    budget = await set_limit(http, kind="budget", measure="money", amount=0.000001, baseId=base)
    question = {"question": "sack number 1", "baseIds": [base]}
    assert (await http.post("/api/ask", json=question)).status_code == 200
    (row,) = await usage_rows(http, "chat")
    assert row["cost"] > 0
    for path, body in (
        ("/api/ask", question),
        ("/api/ask", {**question, "stream": True}),
    ):
        refused = await http.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (429, "chat_budget_used_up")
        assert "Search works as before" in refused.json()["detail"]
    assert len(chat.requests) == 1
    found = await http.post(f"/api/knowledge-bases/{base}/search", json={"query": "sack number 1"})
    assert len(found.json()["hits"]) == 2
    await http.patch(f"/api/limits/{budget['id']}", json={"amount": 5})
    chat.streams, chat.refuses_usage = True, True  # a model that doesn't report tokens is counted by length
    assert (await http.post("/api/ask", json=question)).status_code == 200
    (row,) = await usage_rows(http, "chat")
    assert (row["texts"], len(chat.requests)) == (2, 3)
