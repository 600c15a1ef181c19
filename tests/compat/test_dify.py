"""Dify's External Knowledge API, as Dify sends its requests."""

from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG
from tests.api_calls import add_items, make_base, wait_until_ended
from tests.server.clients import client_with_key, new_key

pytestmark = pytest.mark.slow

METADATA: dict[str, dict[str, Any]] = {
    "oak": {"year": 1786, "place": "Tilburg", "wood": True, "at": "2024-05-01"},
    "iron": {"year": 1900, "place": "Essen", "wood": False, "at": "2025-01-31"},
    "bare": {},
}
OPERATORS: list[tuple[str, Any, str, set[str]]] = [
    ("contains", "burg", "place", {"oak"}),
    ("not contains", "burg", "place", {"iron", "bare"}),
    ("start with", "Ess", "place", {"iron"}),
    ("end with", "burg", "place", {"oak"}),
    ("is", "Essen", "place", {"iron"}),
    ("is", "1786", "year", {"oak"}),
    ("is", "true", "wood", {"oak"}),
    ("is not", "Essen", "place", {"oak", "bare"}),
    ("in", ["Essen", "Tilburg"], "place", {"oak", "iron"}),
    ("in", "Essen, Ghent", "place", {"iron"}),
    ("not in", ["Essen"], "place", {"oak", "bare"}),
    ("empty", None, "place", {"bare"}),
    ("not empty", None, "place", {"oak", "iron"}),
    ("=", 1900, "year", {"iron"}),
    ("=", "1900", "year", {"iron"}),
    ("≠", "1900", "year", {"oak", "bare"}),
    (">", "1786", "year", {"iron"}),
    ("<", 1900, "year", {"oak"}),
    ("≥", "1786", "year", {"oak", "iron"}),
    ("≤", "1786", "year", {"oak"}),
    ("before", "2024-12-31", "at", {"oak"}),
    ("after", "2024-12-31", "at", {"iron"}),
]


@pytest.fixture
async def base(http: httpx.AsyncClient) -> str:
    """A base with a document for each metadata."""
    base_id = await make_base(http, "wheels")
    notes = [
        {"type": "note", "title": name, "content": f"a wheel called {name}", "metadata": metadata}
        for name, metadata in METADATA.items()
    ]
    for item in (await add_items(http, base_id, *notes))["created"]:
        await wait_until_ended(http, item["id"])
    return base_id


async def titles(http: httpx.AsyncClient, **fields: Any) -> set[str]:
    body = {"query": "wheel", "retrieval_setting": {"top_k": 5, "score_threshold": 0.0}, **fields}
    response = await http.post("/dify/retrieval", json=body, headers={"Authorization": "Bearer local"})
    assert response.status_code == 200, response.text
    return {record["title"] for record in response.json()["records"]}


async def test_every_operator_selects_with_both_forms_of_the_name(http: httpx.AsyncClient, base: str) -> None:
    for operator, value, name, expected in OPERATORS:
        for form in (name, [name]):
            condition = {"name": form, "comparison_operator": operator, "value": value}
            condition_group = {"logical_operator": "and", "conditions": [condition]}
            selected = await titles(http, knowledge_id=base, metadata_condition=condition_group)
            assert selected == expected, (operator, value, form)


async def test_conditions_are_combined_and_none_means_all(http: httpx.AsyncClient, base: str) -> None:
    oak = {"name": "place", "comparison_operator": "is", "value": "Tilburg"}
    iron = {"name": ["name", "place"], "comparison_operator": "is", "value": "Essen"}
    for operator, expected in (("and", set[str]()), ("or", {"oak", "iron"})):
        group = {"logical_operator": operator, "conditions": [oak, iron]}
        assert await titles(http, knowledge_id=base, metadata_condition=group) == expected
    assert await titles(http, knowledge_id=base, metadata_condition=None) == set(METADATA)
    assert await titles(http, knowledge_id="wheels") == set(METADATA)
    assert await titles(http, knowledge_id=f"vs_{base.replace('-', '')}") == set(METADATA)


async def test_a_record_has_score_and_metadata_and_the_threshold_holds(
    http: httpx.AsyncClient, base: str
) -> None:
    body: dict[str, Any] = {
        "knowledge_id": base,
        "query": "wheel called iron",
        "retrieval_setting": {"top_k": 2, "score_threshold": 0.0},
    }
    records = (await http.post("/dify/retrieval", json=body)).json()["records"]
    assert len(records) == 2
    assert records[0]["title"] == "iron"
    assert records[0]["content"] == "a wheel called iron"
    assert records[0]["metadata"]["year"] == 1900
    assert records[0]["metadata"]["itemId"]
    assert all(0 <= record["score"] <= 1 and isinstance(record["metadata"], dict) for record in records)
    threshold = records[0]["score"]
    body["retrieval_setting"]["score_threshold"] = threshold
    strict = (await http.post("/dify/retrieval", json=body)).json()["records"]
    assert all(record["score"] >= threshold for record in strict)
    empty = await make_base(http, "empty")
    response = await http.post("/dify/retrieval", json={**body, "knowledge_id": empty})
    assert (response.status_code, response.json()) == (200, {"records": []})


async def test_errors_are_shown_in_words(mill: app.Gristmill, http: httpx.AsyncClient, base: str) -> None:
    unknown = await http.post("/dify/retrieval", json={"knowledge_id": "none", "query": "wheel"})
    assert (unknown.status_code, unknown.json()["error_code"]) == (404, 2001)
    assert "none" in unknown.json()["error_msg"]
    condition = {"name": "a", "comparison_operator": "like", "value": "b"}
    bad = await http.post(
        "/dify/retrieval",
        json={"knowledge_id": base, "query": "wheel", "metadata_condition": {"conditions": [condition]}},
    )
    assert bad.status_code == 422
    assert "comparison_operator" in bad.json()["error_msg"]
    refused = await http.post(
        "/dify/retrieval",
        json={"knowledge_id": base, "query": "wheel"},
        headers={"Authorization": "Bearer gm_no"},
    )
    assert (refused.status_code, refused.json()["error_code"]) == (401, 1002)
    secret = (await new_key(mill.db, LOCAL_ORG, "reader", email="bob@example.org"))[1]
    async with client_with_key(mill, secret) as bob:
        hidden = await bob.post("/dify/retrieval", json={"knowledge_id": base, "query": "wheel"})
    assert (hidden.status_code, hidden.json()["error_code"]) == (404, 2001)
