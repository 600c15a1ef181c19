"""Words that mean the same in a base."""

import httpx
import pytest

from gristmill import app
from gristmill.search.query_syntax import Term, parse
from tests.search.published_items import file_note, new_base

GROUPS = (("mill", "grinder"), ("kb", "knowledge base"), ("电脑", "计算机", "computer"))


def terms(query: str) -> dict[tuple[str, ...], float]:
    return {term.names: term.weight for term in parse(query, ["english"], GROUPS).terms}


def test_a_word_is_searched_with_its_synonyms_of_less_weight() -> None:
    assert terms("the mills") == {("the",): 1, ("mill",): 1, ("grinder",): 0.5}
    assert terms("kb") == {("kb",): 1, ("knowledg",): 0.25, ("base",): 0.25}
    assert terms("base of knowledge") == {("base",): 1, ("of",): 1, ("knowledg",): 1, ("kb",): 0.5}
    assert terms("knowledge") == {("knowledg",): 1}
    assert terms("mill grinder") == {("mill",): 1, ("grinder",): 1}


def test_chinese_words_have_synonyms_within_a_clause() -> None:
    assert terms("我的电脑坏了")[("comput",)] == 0.5
    assert terms("我的電腦壞了")[("计算",)] == pytest.approx(0.1)


def test_quoted_excluded_and_begun_words_have_none() -> None:
    for query in ('"mill"', "-mill wheel", "mill*"):
        assert ("grinder",) not in terms(query)
    assert parse("mill", ["english"]).terms == (Term(("mill",)),)


@pytest.mark.slow
async def test_a_base_has_synonyms_as_a_setting(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    base = await new_base(mill.db)
    url = f"/api/knowledge-bases/{base.id}"
    async with mill.db.transaction() as tx:
        await file_note(tx, base, "grinder", "The grinder stands in the yard.")

    async def titles() -> list[str]:
        hits = (await http.post(f"{url}/search", json={"query": "mill", "mode": "text"})).json()["hits"]
        return [hit["title"] for hit in hits]

    assert await titles() == []
    changed = await http.patch(url, json={"settings": {"synonyms": [["mill", " grinder "]]}})
    assert changed.json()["settings"]["synonyms"] == [["mill", "grinder"]]
    assert await titles() == ["grinder"]
    changed = await http.patch(url, json={"settings": {"synonyms": []}})
    assert changed.json()["settings"]["synonyms"] == []
    assert await titles() == []
    for wrong in ([["alone"]], [["a", ""]], [["a", "b"]] * 501, "mill, grinder"):
        assert (await http.patch(url, json={"settings": {"synonyms": wrong}})).status_code == 422
