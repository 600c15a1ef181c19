"""Lexemes that a mistyped word may mean."""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.search.inverted_index import TermDictionary
from gristmill.search.spelling import count_near, edit_distance, nearest


def similar_lexemes(dictionaries: Sequence[TermDictionary], word: str) -> list[str]:
    counts = {word: Counter[str]()}
    count_near(dictionaries, counts)
    return nearest(word, counts[word])


def dictionary(**chunks: int) -> TermDictionary:
    names = sorted(chunks)
    return TermDictionary.from_names(names, np.cumsum([chunks[name] for name in names]))


@pytest.mark.parametrize(
    ("word", "other", "distance"),
    [
        ("mill", "mill", 0),
        ("mil", "mill", 1),
        ("mlil", "mill", 1),
        ("mall", "mill", 1),
        ("mills", "milk", 2),
        ("", "ab", 2),
    ],
)
def test_a_mistake_is_a_letter_too_many_too_few_wrong_or_exchanged(
    word: str, other: str, distance: int
) -> None:
    assert edit_distance(word, other) == distance
    assert edit_distance(other, word) == distance


def test_the_nearest_lexemes_are_found_and_the_more_frequent_first() -> None:
    lexemes = dictionary(miller=9, milled=2, millet=5, million=70, miner=3, stone=8)
    assert similar_lexemes([lexemes], "millr") == ["miller"]
    assert similar_lexemes([lexemes], "millex") == ["miller", "millet", "milled"]
    assert similar_lexemes([dictionary(millet=1), dictionary(millet=1, miller=1)], "millex") == [
        "millet",
        "miller",
    ]


def test_one_mistake_in_four_letters_and_two_in_eight() -> None:
    lexemes = dictionary(mill=1, grindston=1, stone=1)
    assert similar_lexemes([lexemes], "mil") == []
    assert similar_lexemes([lexemes], "milk") == ["mill"]
    assert similar_lexemes([lexemes], "stoe") == ["stone"]
    assert similar_lexemes([lexemes], "sote") == []
    assert similar_lexemes([lexemes], "grndstonn") == ["grindston"]
    assert similar_lexemes([lexemes], "grndstnnn") == []


def test_the_first_letter_must_be_right_and_names_of_code_are_no_words() -> None:
    assert similar_lexemes([dictionary(stone=1)], "ztone") == []
    assert similar_lexemes([dictionary(mill2=1)], "mills") == []
    assert similar_lexemes([dictionary(), TermDictionary(b"")], "mills") == []
    assert similar_lexemes([dictionary(**{"m" * 60: 1})], "m" * 61) == []


def test_letters_of_other_scripts_count_as_one() -> None:
    lexemes = dictionary(мельниц=4, мельник=2, камень=1)
    assert similar_lexemes([lexemes], "мелниц") == ["мельниц"]
    assert similar_lexemes([lexemes], "камнеь") == ["камень"]


def test_few_of_many_lexemes_are_compared_letter_by_letter() -> None:
    """A word that a caller does not know is looked up in every dictionary, also where most lexemes begin with one letter."""
    rng = random.Random(5)
    lexemes = sorted(
        {"a" + "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=rng.randint(3, 7))) for _ in range(5000)}
    )
    names = dictionary(**dict.fromkeys(lexemes, 1)).names_from("a")
    assert names is not None
    for word in lexemes[::1000]:
        compared = {lexemes[position] for position in names.like(word, 1)[0]}
        assert len(compared) < len(lexemes) / 10
        assert {each for each in lexemes if edit_distance(word, each) <= 1} <= compared


@given(
    st.lists(st.text(alphabet="abc", min_size=1, max_size=10), max_size=40, unique=True),
    st.text(alphabet="abc", min_size=4, max_size=10),
)
def test_all_lexemes_are_compared_at_once_with_the_same_result(names: list[str], word: str) -> None:
    allowed = 2 if len(word) >= 8 else 1
    distances = {name: edit_distance(word, name) for name in names if name[0] == word[0] and name != word}
    least = min(distances.values(), default=allowed + 1)
    expected = sorted(name for name, distance in distances.items() if distance == least <= allowed)
    assert similar_lexemes([dictionary(**dict.fromkeys(names, 1))], word) == expected[:3]
