"""Conditions on metadata: every operator, missing keys, types, lists, nesting, in our own API (S1-05)."""

import json
from typing import Any

import httpx
import pytest

from gristmill.db import Database
from gristmill.search.conditions import Comparison, ConditionGroup, Operator, to_jsonpath
from tests.api_calls import add_items, assert_problem, make_base, search, wait_until_ended

METADATA: dict[str, dict[str, Any]] = {
    "oak": {"wood": True, "year": 1786, "place": "Tilburg", "tags": ["old", "wind"], "at": "2024-05-01"},
    "iron": {"wood": False, "year": 1900.5, "place": "Essen", "tags": ["steam"], "at": "2025-01-31"},
    "bare": {},
    "odd": {"year": "1900", "place": 'a "q" \\ $ % . end', "wood": None, "nested": {"year": 1}},
}
EQUAL: list[tuple[str, Operator, Any, set[str]]] = [
    ("place", "eq", "Essen", {"iron"}),
    ("place", "eq", "essen", set()),
    ("wood", "eq", True, {"oak"}),
    ("year", "eq", 1786, {"oak"}),
    ("year", "eq", 1786.0, {"oak"}),
    ("year", "eq", "1900", {"odd"}),
    ("tags", "eq", "wind", {"oak"}),
    ("place", "eq", 'a "q" \\ $ % . end', {"odd"}),
    ("year", "ne", 1786, {"iron", "bare", "odd"}),
    ("tags", "ne", "wind", {"iron", "bare", "odd"}),
    ("none", "ne", 1, set(METADATA)),
    ("none", "eq", 1, set()),
    ('x" == 1 || "a', "eq", 1, set()),
]
ORDERED: list[tuple[str, Operator, Any, set[str]]] = [
    ("year", "gt", 1786, {"iron"}),
    ("year", "gte", 1786, {"oak", "iron"}),
    ("year", "lt", 1900.5, {"oak"}),
    ("year", "lte", 1900.5, {"oak", "iron"}),
    ("year", "gt", -5, {"oak", "iron"}),
    ("year", "gt", "1", {"odd"}),
    ("at", "gte", "2025-01-01", {"iron"}),
    ("none", "lt", 1e9, set()),
]
LISTED: list[tuple[str, Operator, Any, set[str]]] = [
    ("place", "in", ("Essen", "Tilburg"), {"oak", "iron"}),
    ("year", "in", (1786, "1900"), {"oak", "odd"}),
    ("tags", "in", ("steam", "water"), {"iron"}),
    ("place", "in", (), set()),
    ("place", "nin", ("Essen",), {"oak", "bare", "odd"}),
    ("place", "nin", (), set(METADATA)),
]
TEXT: list[tuple[str, Operator, Any, set[str]]] = [
    ("place", "contains", "bur", {"oak"}),
    ("place", "contains", "$ %", {"odd"}),
    ("place", "contains", "", {"oak", "iron", "odd"}),
    ("place", "contains", ".*", set()),
    ("place", "not_contains", "ss", {"oak", "bare", "odd"}),
    ("place", "starts_with", "Til", {"oak"}),
    ("place", "ends_with", "sen", {"iron"}),
    ("place", "ends_with", ". end", {"odd"}),
    ("place", "ends_with", "e.d", set()),
    ("wood", "is_empty", (), {"bare", "odd"}),
    ("wood", "not_empty", (), {"oak", "iron"}),
]


async def matching(db: Database, path: str) -> set[str]:
    async with db.connection() as tx:
        rows = await tx.execute(
            "select m.key from jsonb_each(%s::jsonb) m where m.value @@ %s::jsonpath",
            (json.dumps(METADATA), path),
        )
        return {row[0] for row in await rows.fetchall()}


@pytest.mark.parametrize(("key", "operator", "value", "expected"), [*EQUAL, *ORDERED, *LISTED, *TEXT])
async def test_an_operator_selects(
    db: Database, key: str, operator: Operator, value: Any, expected: set[str]
) -> None:
    assert await matching(db, to_jsonpath(Comparison(key, operator, value))) == expected


async def test_groups_nest_and_empty_groups_are_all_or_nothing(db: Database) -> None:
    oak, iron = Comparison("place", "eq", "Tilburg"), Comparison("year", "gt", 1800)
    wooden = Comparison("wood", "eq", True)
    either = ConditionGroup("or", (oak, iron))
    assert await matching(db, to_jsonpath(either)) == {"oak", "iron"}
    assert await matching(db, to_jsonpath(ConditionGroup("and", (either, wooden)))) == {"oak"}
    assert await matching(db, to_jsonpath(ConditionGroup("and", ()))) == set(METADATA)
    assert await matching(db, to_jsonpath(ConditionGroup("or", ()))) == set()


async def test_a_search_filters_by_conditions_and_says_which_one_excludes(http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    notes = [
        {"type": "note", "title": name, "content": f"a wheel called {name}", "metadata": metadata}
        for name, metadata in METADATA.items()
    ]
    added = await add_items(http, base, *notes)
    items = {item["title"]: item["id"] for item in added["created"]}
    for item in items.values():
        await wait_until_ended(http, item)

    async def titles(filters: dict[str, Any]) -> set[str]:
        return {hit["title"] for hit in await search(http, base, "wheel", filters=filters)}

    is_old = {"op": "lt", "key": "year", "value": 1800}
    is_new = {"op": "gt", "key": "year", "value": 1800}
    assert await titles(is_old) == {"oak"}
    assert await titles({"or": [is_old, is_new]}) == {"oak", "iron"}
    assert await titles({"and": [{"or": [is_old, is_new]}, {"op": "eq", "key": "wood", "value": False}]}) == {
        "iron"
    }
    assert await titles({"types": ["note"], "metadata": {"wood": True}, **is_old}) == {"oak"}
    assert await titles({"types": ["file"], **is_old}) == set()
    reply = await http.post(
        f"/api/knowledge-items/{items['bare']}/why-not", json={"query": "wheel", "filters": is_old}
    )
    assert [reason["code"] for reason in reply.json()["reasons"]][:1] == ["filter"]


def nested_groups(depth: int) -> dict[str, Any]:
    return {"and": [nested_groups(depth - 1)] if depth else []}


INVALID: list[dict[str, Any]] = [
    {"op": "eq", "key": "a"},
    {"op": "in", "key": "a", "value": "b"},
    {"op": "eq", "key": "a", "value": ["b"]},
    {"op": "gt", "key": "a", "value": True},
    {"op": "like", "key": "a", "value": "b"},
    {"op": "eq", "key": "", "value": 1},
    {"op": "eq", "key": "a", "value": {"b": 1}},
    {"and": [{}]},
    {"and": [{"op": "eq", "key": "a", "value": 1}] * 101},
    nested_groups(11),
]


@pytest.mark.parametrize("filters", INVALID)
async def test_a_condition_that_can_not_be_read_is_refused(
    http: httpx.AsyncClient, filters: dict[str, Any]
) -> None:
    base = await make_base(http)
    reply = await http.post(
        f"/api/knowledge-bases/{base}/search", json={"query": "wheel", "filters": filters}
    )
    assert_problem(reply, 422, "invalid_request")
