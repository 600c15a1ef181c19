"""Explanations of hits: their numbers are those of what the viewer sees."""

from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.catalog import Base
from gristmill.server.api.context import ON_BEHALF
from tests.search.published_items import file_note, new_base

pytestmark = pytest.mark.slow

VISIBLE = (
    "The miller dresses the stones.",
    "A wheel turns the millstone slowly, and the miller waits.",
    "Grain and flour.",
)
HIDDEN = (
    "The merger of the mills is secret.",
    "Merger, merging, merged: the miller knows nothing.",
    "Wheel wheel wheel: millrace and millpond.",
    "Acquisition of the grain company by the miller.",
)
QUERIES = ["miller", "wheel merger", "mer*", "mill* grain", '"the stones" miller', "miller -merger"]
PERSON = {ON_BEHALF: "team:7"}


async def explanations(http: httpx.AsyncClient, base: Base, query: str, **headers: str) -> list[Any]:
    body = {"query": query, "mode": "text", "explain": True, "collapse": False}
    answer = await http.post(f"/api/knowledge-bases/{base.id}/search", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    hits = answer.json()["hits"]
    return sorted(
        (hit["text"], hit["explain"]["textScore"], [list(term.values()) for term in hit["explain"]["terms"]])
        for hit in hits
    )


@pytest.fixture
async def bases(mill: app.Gristmill) -> tuple[Base, Base]:
    """Two bases that look the same to a person: only the first holds items that they can't see."""
    mixed_base, plain = [await new_base(mill.db, name, acl=["org:*"]) for name in ("mixed", "plain")]
    async with mill.db.transaction() as tx:
        for base in (mixed_base, plain):
            for number, text in enumerate(VISIBLE):
                await file_note(tx, base, f"note {number}", text, acl=["team:7"])
        for number, text in enumerate(HIDDEN):
            await file_note(tx, mixed_base, f"hidden {number}", text, acl=["team:8"])
    return mixed_base, plain


@pytest.mark.parametrize("query", QUERIES)
async def test_explanations_are_the_same_whether_or_not_there_are_hidden_items(
    bases: tuple[Base, Base], http: httpx.AsyncClient, query: str
) -> None:
    """No count, frequency or score reveals which words hidden items contain, neither by word nor by prefix."""
    mixed_base, plain = bases
    explanation = await explanations(http, mixed_base, query, **PERSON)
    assert explanation == await explanations(http, plain, query, **PERSON)
    assert explanation or query == "mer*"


async def test_an_admin_is_shown_the_numbers_of_the_whole_base(
    bases: tuple[Base, Base], http: httpx.AsyncClient
) -> None:
    ((*_, terms), *_) = await explanations(http, bases[0], "miller")
    assert terms[0][:3] == ["miller", 1, 4]
    ((*_, terms), *_) = await explanations(http, bases[0], "miller", **PERSON)
    assert terms[0][:3] == ["miller", 1, 2]
