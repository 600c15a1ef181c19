"""What segments hold, packed and merged, against plain Python."""

import math
from collections import Counter
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.search import bm25, collapse, segment
from gristmill.search.compaction import (
    MAX_CHUNKS,
    MIN_SMALL_SEGMENTS,
    merge_segments,
    segments_to_merge,
)
from gristmill.search.inverted_index import TermDictionary
from gristmill.search.language_detection import detect_language
from gristmill.search.lexer import lexemes
from gristmill.search.segment import ChunkText
from gristmill.search.store import SegmentRow

texts = st.lists(
    st.lists(st.sampled_from(["mill", "stone", "wheel", "water", "知识", "max_size"]), max_size=12).map(
        " ".join
    ),
    min_size=1,
    max_size=8,
)


def build_segment(parts: list[str], first: int = 1) -> segment.Segment:
    words = [
        ChunkText(first + n, UUID(int=n // 2), "a title", ("head",), text) for n, text in enumerate(parts)
    ]
    codes = segment.pack_signs(np.ones(70, np.float32) * (1 if n % 2 else -1) for n in range(len(parts)))
    return segment.build(words, codes)


def counts_of(sample: segment.Segment) -> dict[int, dict[str, int]]:
    counts: dict[int, dict[str, int]] = {int(no): {} for no in sample.arrays.nos}
    for lexeme in sample.index.terms.names():
        posting_list = sample.index.postings_of(lexeme)
        assert posting_list is not None
        for place, count in zip(posting_list.ordinals.tolist(), posting_list.counts.tolist(), strict=True):
            counts[int(sample.arrays.nos[place])][lexeme] = count
    return counts


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 1000])
def test_a_long_lexicon_finds_each_of_its_names_and_no_other(count: int) -> None:
    """Also around every name that speeds up the search for the others."""
    names = [f"{number:04}" for number in range(0, 2 * count, 2)]
    sample = TermDictionary.from_names(names, np.arange(1, count + 1))
    assert [sample.find(name) for name in names] == [(n, n + 1) for n in range(count)]
    assert not any(sample.find(f"{number:04}") for number in range(1, 2 * count, 2))
    assert [name for name, _ in sample.with_prefix("00")] == [name for name in names if name[:2] == "00"]


@given(st.sets(st.text(min_size=1, max_size=6).filter(lambda name: name.encode(errors="ignore") != b"")))
def test_a_lexicon_finds_each_of_its_names_and_no_other(texts: set[str]) -> None:
    names = sorted(name for name in texts if name.encode(errors="ignore").decode() == name)
    ends = np.arange(1, len(names) + 1) * 3
    sample = TermDictionary(TermDictionary.from_names(names, ends).data)
    assert sample.names() == names
    assert [sample.find(name) for name in names] == [(3 * n, 3 * n + 3) for n in range(len(names))]
    assert sample.find("no such name") is None
    for prefix in {name[:1] for name in names}:
        matches = dict(sample.with_prefix(prefix))
        assert matches == {name: 3 for name in names if name.startswith(prefix)}


def test_a_count_stops_at_what_a_byte_holds() -> None:
    assert counts_of(build_segment(["mill " * 300]))[1]["mill"] == 255


@given(texts)
def test_a_segment_counts_words_as_a_counter_does_and_the_title_three_times(parts: list[str]) -> None:
    sample = build_segment(parts)
    for text, (_, counts) in zip(parts, counts_of(sample).items(), strict=True):
        expected = Counter(lexemes(f"{text} head", detect_language(text)))
        for lexeme in lexemes("a title", detect_language(text)):
            expected[lexeme] += segment.TITLE_WEIGHT
        assert counts == dict(expected)
    assert sample.tokens == sum(sum(counts.values()) for counts in counts_of(sample).values())


@given(texts, texts, st.data())
def test_a_merge_holds_what_is_left_of_its_parts(
    first: list[str], second: list[str], data: st.DataObject
) -> None:
    parts = [build_segment(first), build_segment(second, first=100)]
    nos = [int(no) for part in parts for no in part.arrays.nos]
    remaining_nos = sorted(data.draw(st.sets(st.sampled_from(nos), min_size=1)))
    removed_nos = np.array(sorted(set(nos) - set(remaining_nos)), np.int64)
    merge = merge_segments(
        [(part.arrays, part.index) for part in parts], removed_nos, frozenset({"english"}), {"english": 3}
    )
    every = counts_of(parts[0]) | counts_of(parts[1])
    assert counts_of(merge) == {no: every[no] for no in remaining_nos}
    encoded = segment.encode_arrays(merge.arrays)
    again = segment.decode_arrays(encoded.nos, encoded.items, encoded.lengths, encoded.signs)
    assert again.nos.tolist() == remaining_nos
    assert again.signs.tolist() == merge.arrays.signs.tolist()


@given(texts)
def test_scores_are_bm25_of_plain_python(parts: list[str]) -> None:
    sample = build_segment(parts)
    counts = list(counts_of(sample).values())
    names = ["mill", "stone", "知识"]
    terms = [
        bm25.combine_postings(1.0, [(0, postings)] if (postings := sample.index.postings_of(name)) else [])
        for name in names
    ]
    scores = bm25.score(terms, [sample.arrays.lengths])
    mean = sum(sum(count.values()) for count in counts) / len(counts)
    for count, score in zip(counts, scores.tolist(), strict=True):
        expected = 0.0
        for name in names:
            holding = sum(name in document for document in counts)
            idf = math.log(1 + (len(counts) - holding + 0.5) / (holding + 0.5))
            norm = bm25.K1 * (1 - bm25.B + bm25.B * sum(count.values()) / mean)
            expected += idf * count.get(name, 0) * (bm25.K1 + 1) / (count.get(name, 0) + norm)
        assert score == pytest.approx(expected, rel=1e-4)


def test_the_best_come_first_and_ties_by_place() -> None:
    scores = np.array([0, 2, 1, 2, 0, 3], np.float32)
    assert bm25.top_ordinals(scores, 3).tolist() == [5, 1, 3]
    assert bm25.top_ordinals(scores, 99).tolist() == [5, 1, 3, 2]
    assert bm25.top_ordinals(np.ones(1000, np.float32), 3).tolist() == [0, 1, 2]


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.25]), max_size=400),
    st.integers(min_value=0, max_value=20),
)
def test_the_best_of_many_are_those_of_a_sort(values: list[float], limit: int) -> None:
    """Whatever the number of blocks whose maxima are compared first."""
    scores = np.array(values, np.float32)
    expected = sorted((n for n, value in enumerate(values) if value), key=lambda n: (-values[n], n))
    assert bm25.top_ordinals(scores, limit).tolist() == expected[:limit]


@given(st.lists(texts, min_size=1, max_size=4))
def test_scores_do_not_depend_on_how_chunks_are_spread_over_segments(parts: list[list[str]]) -> None:
    """To the last bit: a ranking does not change when segments are merged."""
    several = [build_segment(part) for part in parts]
    together = [build_segment([text for part in parts for text in part])]
    scores = [
        bm25.score(_terms(each), [part.arrays.lengths for part in each]) for each in (several, together)
    ]
    assert scores[0].tolist() == scores[1].tolist()


def _terms(segments: list[segment.Segment]) -> list[bm25.TermPostings]:
    lexemes_by_term = [["mill"], ["stone", "wheel"], ["知识"]]
    return [
        bm25.combine_postings(
            1.0,
            [
                (position, postings)
                for position, part in enumerate(segments)
                for lexeme in lexemes
                if (postings := part.index.postings_of(lexeme)) is not None
            ],
        )
        for lexemes in lexemes_by_term
    ]


def test_small_segments_are_merged_first_and_none_grows_past_the_most() -> None:
    few = [SegmentRow(n, 1, 10, []) for n in range(MIN_SMALL_SEGMENTS - 1)]
    assert segments_to_merge(few) == []
    many = [SegmentRow(n, 1, 10, []) for n in range(MIN_SMALL_SEGMENTS)] + [SegmentRow(99, 1, 30_000, [])]
    assert {row.id for row in segments_to_merge(many)} == set(range(MIN_SMALL_SEGMENTS))
    large = [SegmentRow(n, 1, MAX_CHUNKS // 3, []) for n in range(MIN_SMALL_SEGMENTS)]
    assert sum(row.chunks for row in segments_to_merge(large)) <= MAX_CHUNKS


def test_a_base_that_grows_batch_by_batch_has_few_segments_and_merges_each_chunk_seldom() -> None:
    rows: list[SegmentRow] = []
    chunks_merged = 0
    for number in range(3000):
        rows.append(SegmentRow(number, 1, 200, []))
        while selection := segments_to_merge(rows):
            rows = [row for row in rows if row not in selection]
            chunks_merged += sum(row.chunks for row in selection)
            rows.append(SegmentRow(10_000 + chunks_merged, 1, sum(row.chunks for row in selection), []))
    assert len(rows) < 64
    assert chunks_merged / (3000 * 200) < 8


def test_texts_that_say_the_same_are_one_group() -> None:
    notice = (
        "All rights reserved. No part of this document may be copied without permission of the miller, ever."
    )
    groups = collapse.duplicate_groups([notice, "The stones are dressed in spring.", notice + " Again.", ""])
    assert groups == [[0, 2], [1], [3]]
