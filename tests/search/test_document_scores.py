"""A chunk ranks by its own score and by that of its document."""

from uuid import uuid4

import numpy as np
import pytest

from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.search import Searcher, SearchRequest, Target, bm25, document_scores, segment
from gristmill.search.inverted_index import InvertedIndex, Postings
from gristmill.search.runs import ItemRuns, NumberRuns
from gristmill.search.segment import ChunkText
from gristmill.search.snapshot import SegmentChunks, Snapshot
from gristmill.search.store import SegmentRow
from tests.search.published_items import file_note, new_base


def snapshot_of(documents: list[list[str]]) -> tuple[Snapshot, InvertedIndex]:
    """A segment with the chunks of these documents, and its index."""
    texts: list[ChunkText] = []
    for chunks in documents:
        item_id = uuid4()
        texts += [ChunkText(len(texts) + n, item_id, "", (), text) for n, text in enumerate(chunks)]
    built = segment.build(texts, np.zeros((1, len(texts)), np.uint64))
    segment_chunks = SegmentChunks(
        NumberRuns.from_numbers(built.arrays.nos),
        ItemRuns.from_keys(built.arrays.items),
        built.arrays.lengths,
        1,
    )
    row = SegmentRow(1, built.lexer_version, len(texts), sorted(built.languages))
    return Snapshot([row], [segment_chunks]), built.index


def postings(index: InvertedIndex, lexeme: str) -> bm25.TermPostings:
    of_lexeme = index.postings_of(lexeme)
    return bm25.combine_postings(1.0, [] if of_lexeme is None else [(0, of_lexeme)])


def test_where_every_document_is_one_chunk_both_scores_are_the_same() -> None:
    snapshot, index = snapshot_of([["mill stone"], ["mill mill wheel of oak"], ["grain"]])
    terms = [postings(index, "mill"), postings(index, "stone")]
    chunk_scores = bm25.score(terms, snapshot.lengths)
    statistics = document_scores.measure_documents(snapshot, terms)
    of_documents = document_scores.score_documents(
        snapshot, terms, statistics, snapshot.items_at(np.arange(3))
    )
    assert np.allclose(chunk_scores, of_documents, rtol=1e-5)
    assert np.allclose(bm25.with_documents(chunk_scores, of_documents), chunk_scores, rtol=1e-5)


def test_documents_are_counted_by_their_chunks() -> None:
    snapshot, index = snapshot_of([["mill stone", "mill", "mill wheel"], ["wheel", "mill"], ["grain"]])
    terms = [postings(index, "mill"), postings(index, "wheel"), postings(index, "none")]
    statistics = document_scores.measure_documents(snapshot, terms)
    assert (statistics.documents, statistics.by_term) == (3, [2, 2, 0])
    assert statistics.mean_length == pytest.approx(8 / 3)
    visible = snapshot.mask_of_items(snapshot.items_at(np.array([5])))
    hidden = [bm25.within(term, snapshot.starts, visible) for term in terms]
    seen = document_scores.measure_documents(snapshot, hidden, visible)
    assert (seen.documents, seen.by_term, seen.mean_length) == (1, [0, 0, 0], 1)


def test_a_document_in_several_segments_counts_once() -> None:
    """How a base was written and merged does not change its ranking."""
    items = [np.array([1, 1, 2]), np.array([2, 2, 3]), np.array([1, 3, 4])]
    segments = [
        SegmentChunks(
            NumberRuns.from_numbers(np.arange(3)), ItemRuns.from_keys(keys), np.full(3, 5, np.uint16), 1
        )
        for keys in items
    ]
    snapshot = Snapshot([SegmentRow(number, 1, 3, []) for number in range(3)], segments)
    every = Postings(np.arange(3, dtype=np.uint16), np.ones(3, np.uint8))
    term = bm25.combine_postings(1.0, [(number, every) for number in range(3)])
    for visible in (None, np.ones(9, bool)):
        statistics = document_scores.measure_documents(snapshot, [term], visible)
        assert (statistics.documents, statistics.by_term) == (4, [4])
        assert statistics.mean_length == 45 / 4


def test_the_documents_of_a_frequent_word_are_estimated() -> None:
    rng = np.random.default_rng(7)
    rows: list[SegmentRow] = []
    segments: list[SegmentChunks] = []
    for number in range(4):
        items = np.repeat(np.arange(2_000) + 10_000 * number, rng.integers(1, 9, 2_000))
        rows.append(SegmentRow(number, 1, len(items), []))
        numbers = NumberRuns.from_numbers(np.arange(len(items)))
        segments.append(SegmentChunks(numbers, ItemRuns.from_keys(items), np.ones(len(items), np.uint16), 1))
    parts = [
        (number, Postings(np.arange(row.chunks, dtype=np.uint16), np.ones(row.chunks, np.uint8)))
        for number, row in enumerate(rows)
    ]
    term = bm25.combine_postings(1.0, parts)
    assert term.chunks > 32_000
    assert document_scores.count_documents(Snapshot(rows, segments), term) == pytest.approx(8_000, rel=0.05)


@pytest.mark.slow
async def test_a_document_with_all_words_comes_before_one_with_a_word_in_a_short_chunk(db: Database) -> None:
    """The words of a question are spread over the chunks of a document."""
    base: Base = await new_base(db)
    async with db.transaction() as tx:
        await file_note(
            tx,
            base,
            "spread",
            "the quern is of basalt rock",
            "the sieve is of horse hair",
            "a lantern of tin",
        )
        for n in range(6):
            await file_note(
                tx, base, f"other {n}", f"the quern is of oak wood {n}", "grain and flour", "the wheel turns"
            )
    hits = await Searcher(db, cache_bytes=2**20).search(
        [Target(base, None)], SearchRequest("quern sieve lantern", mode="text")
    )
    assert [hit.title for hit in hits[:3]] == ["spread"] * 3
