"""What a search changes about a query that would find nothing, and how it says so."""

from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.catalog import Base
from gristmill.search.query_syntax import parse, relax_phrases, required_phrases
from gristmill.server.api.context import ON_BEHALF
from tests.search.published_items import file_note, new_base

NOTES = {
    "stones": ("The miller dresses the stones in spring.", "Afterwards the millstone runs true."),
    "wheel": ("The wheel drives the shaft of the mill.",),
    "office": ("Word processing and electronic mail.",),
    "chinese": ("磨坊主每年春天都会打磨石头。",),
    "code": ("Call parse_header or parseHeader2 with 10452 bytes.",),
}


def test_the_words_of_required_phrases_take_their_place() -> None:
    assert required_phrases('the "mill stone" -"no more" “石头”') == ["mill stone", "石头"]
    assert relax_phrases('the "mill stone" -"no more" whee* -oak “石头”') == (
        """the 'mill' 'stone' -"no more" whee* -oak '石头'"""
    )
    assert relax_phrases('"-oak gr*"') == "'-oak' 'gr*'"
    assert not parse(relax_phrases('"-oak gr*"'), []).excluded
    assert parse(relax_phrases('"mill stnes"'), []).plain_words == ()
    assert required_phrases("mill stone") == []


def test_only_plain_words_can_be_mistyped() -> None:
    parsed = parse(
        'Millr wheel "stnes" -oka parse_hedder parseHedder GPU x86 10453 gri* 磨坊 don’t', ["english"]
    )
    assert [word for _, word in parsed.plain_words] == ["Millr", "wheel"]


@pytest.fixture
async def base(mill: app.Gristmill) -> Base:
    base = await new_base(mill.db, acl=["org:*"])
    async with mill.db.transaction() as tx:
        for title, texts in NOTES.items():
            await file_note(tx, base, title, *texts)
        await file_note(tx, base, "secret", "The merger of the guilds.", acl=["team:8"])
    return base


async def answer(http: httpx.AsyncClient, base: Base, query: str, mode: str = "text", **headers: str) -> Any:
    body = {"query": query, "mode": mode}
    response = await http.post(f"/api/knowledge-bases/{base.id}/search", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


def titles(response: Any) -> set[str]:
    return {hit["title"] for hit in response["hits"]}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["text", "hybrid"])
async def test_a_phrase_that_nothing_contains_is_relaxed(
    http: httpx.AsyncClient, base: Base, mode: str
) -> None:
    response = await answer(http, base, '"stones of the wheel"', mode)
    assert response["relaxed"] == ["stones of the wheel"]
    assert {"stones", "wheel"} <= titles(response)
    response = await answer(http, base, '"word processing" "electronic mail," "virtual office"')
    assert response["relaxed"] == ["word processing", "electronic mail,", "virtual office"]
    assert titles(response) == {"office"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    ['"dresses the stones"', "wheel", '"word processing" "electronic mail"', '"春天"', '-"the wheel" stones'],
)
async def test_a_query_that_finds_something_is_left_as_it_is(
    http: httpx.AsyncClient, base: Base, query: str
) -> None:
    response = await answer(http, base, query)
    assert response["hits"]
    assert (response["relaxed"], response["corrected"]) == ([], [])


@pytest.mark.slow
async def test_a_phrase_of_unknown_words_finds_nothing_and_is_not_relaxed(
    http: httpx.AsyncClient, base: Base
) -> None:
    response = await answer(http, base, '"qqqq zzzz"')
    assert (response["hits"], response["relaxed"], response["corrected"]) == ([], [], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "word", "replacement", "title"),
    [
        ("procesing", "procesing", "processing", "office"),
        ("who dreses them", "dreses", "dresses", "stones"),
        ("Wheal", "Wheal", "wheel", "wheel"),
        ("electornic", "electornic", "electronic", "office"),
    ],
)
async def test_a_mistyped_word_finds_similar_words_and_says_so(
    http: httpx.AsyncClient, base: Base, query: str, word: str, replacement: str, title: str
) -> None:
    response = await answer(http, base, query)
    assert response["corrected"] == [{"word": word, "replacement": replacement}]
    best = response["hits"][0]
    assert best["title"] == title
    assert any(best["text"][start:end].lower() == replacement for start, end in best["highlights"])


@pytest.mark.slow
async def test_a_word_that_one_of_several_bases_has_is_not_called_unknown(
    mill: app.Gristmill, http: httpx.AsyncClient, base: Base
) -> None:
    """In the base that does not have it, similar words are found all the same."""
    other = await new_base(mill.db, "mine", acl=["org:*"])
    async with mill.db.transaction() as tx:
        await file_note(tx, other, "mine", "A wheal is a tin mine of the west.")
    body = {"query": "Wheal", "mode": "text", "baseIds": [str(base.id), str(other.id)]}
    response = (await http.post("/api/search", json=body)).json()
    assert titles(response) == {"wheel", "mine"}
    assert response["corrected"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", ['"procesing"', "parse_heade", "parseHeader3", "10453", "-wheal", "WHEAL", "mer"]
)
async def test_quoted_words_numbers_and_identifiers_are_not_corrected(
    http: httpx.AsyncClient, base: Base, query: str
) -> None:
    response = await answer(http, base, query)
    assert response["corrected"] == []


@pytest.mark.slow
async def test_words_that_are_corrected_reveal_nothing_of_hidden_documents(
    http: httpx.AsyncClient, base: Base
) -> None:
    """Neither is a hidden word proposed, nor does a word that only hidden documents have behave unlike an unknown one."""
    person = {ON_BEHALF: "team:7"}
    proposed = await answer(http, base, "mergre", **person)
    assert (proposed["hits"], proposed["corrected"]) == ([], [])
    assert (await answer(http, base, "mergre"))["corrected"] == [{"word": "mergre", "replacement": "merger"}]


@pytest.mark.slow
async def test_a_word_that_only_hidden_documents_have_is_corrected_like_an_unknown_one(
    mill: app.Gristmill, http: httpx.AsyncClient, base: Base
) -> None:
    async with mill.db.transaction() as tx:
        await file_note(tx, base, "hidden", "The millar knows nothing.", acl=["team:8"])
    response = await answer(http, base, "millar", **{ON_BEHALF: "team:7"})
    assert titles(response) == {"stones"}
    assert response["corrected"] == [{"word": "millar", "replacement": "miller"}]
    assert (await answer(http, base, "millar"))["corrected"] == []
