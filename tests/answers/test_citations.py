"""Citations are found in an answer however it is cut into parts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.answers.citations import CitationReader


def read(parts: list[str], numbers: range = range(1, 6)) -> tuple[str, list[int]]:
    reader = CitationReader(numbers)
    text = "".join(reader.feed(part) for part in parts) + reader.end()
    return text, reader.cited


@pytest.mark.parametrize(
    ("answer", "shown", "cited"),
    [
        ("The wheel turns [2] and grinds [1][3].", "The wheel turns [2] and grinds [1][3].", [2, 1, 3]),
        ("Both say so [1, 2].", "Both say so [1][2].", [1, 2]),
        ("All of them [2-4].", "All of them [2][3][4].", [2, 3, 4]),
        ("石磨需要修整【1】。", "石磨需要修整[1]。", [1]),
        ("A footnote [^3].", "A footnote [3].", [3]),
        ("An invention [9].", "An invention.", []),
        ("One of two [1, 9].", "One of two [1].", [1]),
        ("In [2024] it was new.", "In [2024] it was new.", []),
        ("A [link](https://example.org/1) stays.", "A [link](https://example.org/1) stays.", []),
        ("Use `items[9]` here [1].", "Use `items[9]` here [1].", [1]),
        ("```\nx[1]\n```\nso [2]", "```\nx[1]\n```\nso [2]", [2]),
        ("```\necho `date\n[1]\n```\nso [2]", "```\necho `date\n[1]\n```\nso [2]", [2]),
        ("A `stray mark.\n\nSo [2] and [9].", "A `stray mark.\n\nSo [2] and.", [2]),
        ("`` a ` b `` and [3]", "`` a ` b `` and [3]", [3]),
        ("It ends in [", "It ends in [", []),
        ("[1", "[1", []),
    ],
)
def test_numbers_of_passages_are_citations_and_others_are_left_out(
    answer: str, shown: str, cited: list[int]
) -> None:
    assert read([answer]) == (shown, cited)
    assert read(list(answer)) == (shown, cited), "letter by letter"


@given(st.text(alphabet="ab `[]【】19, -\n", max_size=40), st.data())
def test_parts_make_no_difference(answer: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=5)))
    bounds = [0, *cuts, len(answer)]
    parts = [answer[start:end] for start, end in pairwise(bounds)]
    assert read(parts) == read([answer])
