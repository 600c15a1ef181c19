"""BM25 scores of a few chunks from their texts, with statistics that were counted elsewhere. Pure functions.

For bases in a search engine: chunks that the engine does not have yet are scored like the others, and scores are explained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from gristmill.catalog import ItemId
from gristmill.search import bm25
from gristmill.search.index.engine import ItemCounts, KeywordLeg
from gristmill.search.query_syntax import Names, Term
from gristmill.search.segment import ChunkText, Segment, build


@dataclass(frozen=True, eq=False)
class TextScores:
    """For each chunk, how often it has each term of the query, what that adds to its score, and whether it can be a hit."""

    nos: Sequence[int]
    counts: list[list[int]]  # by term, then by chunk
    parts: list[list[float]]
    is_match: list[bool]
    lengths: list[int]
    frequencies: list[list[int]]  # by term, then by chunk: as the engine counts

    def item_counts(self, texts: Sequence[ChunkText]) -> dict[ItemId, ItemCounts]:
        """The counts of the documents whose chunks these are."""
        positions: dict[ItemId, list[int]] = {}
        for position, text in enumerate(texts):
            positions.setdefault(cast(ItemId, text.item_id), []).append(position)
        return {
            item: ItemCounts(
                tuple(float(sum(of_term[position] for position in places)) for of_term in self.frequencies),
                float(sum(self.lengths[position] for position in places)),
            )
            for item, places in positions.items()
        }

    def total(self, position: int) -> float:
        """The score of a chunk; 0 if it can't be a hit."""
        return sum(part[position] for part in self.parts) if self.is_match[position] else 0.0


def score_texts(texts: Sequence[ChunkText], leg: KeywordLeg) -> TextScores:
    """Score chunks by their texts. Blocks: run it in a thread."""
    segment = build(texts, np.zeros((1, len(texts)), np.uint64))
    statistics = leg.statistics
    counts: list[list[int]] = []
    parts: list[list[float]] = []
    for term, chunks in zip(leg.terms, statistics.by_term, strict=True):
        of_term = _counts(segment, term)
        # A term that only these chunks have: as if the engine had counted one of them.
        weight = term.weight * bm25.idf(max(chunks, 1), max(statistics.chunks, 1)) * (bm25.K1 + 1)
        counts.append(of_term)
        parts.append(
            [
                weight
                * _frequency(term, count)
                / (_frequency(term, count) + _norm(length, statistics.mean_length))
                if count
                else 0.0
                for count, length in zip(of_term, segment.arrays.lengths.tolist(), strict=True)
            ]
        )
    is_match = [True] * len(texts)
    for names in leg.required:
        is_match = [
            ok and count > 0 for ok, count in zip(is_match, _counts_of_names(segment, names), strict=True)
        ]
    for term in leg.excluded:
        is_match = [ok and count == 0 for ok, count in zip(is_match, _counts(segment, term), strict=True)]
    frequencies = [
        [_frequency(term, count) if count else 0 for count in of_term]
        for term, of_term in zip(leg.terms, counts, strict=True)
    ]
    lengths: list[int] = segment.arrays.lengths.tolist()
    return TextScores([text.no for text in texts], counts, parts, is_match, lengths, frequencies)


def _frequency(term: Term, count: int) -> int:
    return 1 if term.prefix else count  # as the engine counts: a chunk with words of a prefix has it once


def _norm(length: int, mean_length: float) -> float:
    return bm25.K1 * (1 - bm25.B + bm25.B * length / max(mean_length, 1e-9))


def _counts(segment: Segment, term: Term) -> list[int]:
    if term.prefix:
        expanded = [name for name, _ in segment.index.terms.with_prefix(term.names[0])]
        return _counts_of_names(segment, [*term.names[1:], *expanded])
    return _counts_of_names(segment, term.names)


def _counts_of_names(segment: Segment, names: Names | Sequence[str]) -> list[int]:
    """How often each chunk has these lexemes together."""
    counts = [0] * len(segment.arrays.lengths)
    for name in names:
        postings = segment.index.postings_of(name)
        if postings is not None:
            for ordinal, count in zip(postings.ordinals.tolist(), postings.counts.tolist(), strict=True):
                counts[ordinal] += count
    return counts
