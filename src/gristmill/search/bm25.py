"""BM25 scores over segments. Pure functions: postings in, a score for every chunk out.

The formula is Lucene's, with idf = ln(1 + (N − n + ½) / (n + ½)), which is never negative. N, n and the mean length are
taken over the whole base at the time of the search. Deleted and unpublished chunks count in them until compaction removes
them from the segments; such chunks are never returned.
A chunk's ordinal is its position among the chunks of all segments, in the order of the segments.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gristmill.search.inverted_index import Postings
from gristmill.search.segment import Mask, Numbers

K1 = 1.8
B = 0.75
DOCUMENT_WEIGHT = 0.4  # of the score of a chunk's document; the rest is the weight of the chunk's own score
_BLOCKS_PER_HIT = 8

Scores = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TermPostings:
    """The postings of one query term: at most one part for each segment, by the segment's position. A term with several
    lexemes has the sum of their counts."""

    weight: float
    parts: Sequence[tuple[int, Postings]]

    @property
    def chunks(self) -> int:
        """The number of chunks that contain the term."""
        return sum(len(postings.ordinals) for _, postings in self.parts)

    def count_at(self, position: int, ordinal: int) -> int:
        """How often the term occurs in a chunk, which is given by its segment and its ordinal there."""
        return sum(
            int(postings.counts[postings.ordinals == ordinal].sum())
            for of_segment, postings in self.parts
            if of_segment == position
        )


def combine_postings(weight: float, parts: Sequence[tuple[int, Postings]]) -> TermPostings:
    """Combine a term's postings from all segments. A term with several lexemes can have several parts of one segment."""
    by_segment: dict[int, list[Postings]] = {}
    for position, postings in parts:
        by_segment.setdefault(position, []).append(postings)
    return TermPostings(
        weight, [(position, _sum_counts(by_segment[position])) for position in sorted(by_segment)]
    )


def _sum_counts(parts: Sequence[Postings]) -> Postings:
    if len(parts) == 1:
        return parts[0]
    totals = np.bincount(
        np.concatenate([postings.ordinals for postings in parts]),
        np.concatenate([postings.counts for postings in parts]),
    )
    ordinals = np.flatnonzero(totals)
    return Postings(ordinals, np.minimum(totals[ordinals], 255).astype(np.uint8))


def idf(chunks: int, of: int) -> float:
    """The inverse document frequency of a term that is in `chunks` of `of` chunks."""
    return math.log(1 + (of - chunks + 0.5) / (chunks + 0.5))


def within(term: TermPostings, starts: Sequence[int], mask: Mask | None) -> TermPostings:
    """The postings of a term in the marked chunks alone; None marks all. `starts` has the first ordinal of each segment."""
    if mask is None:
        return term
    parts: list[tuple[int, Postings]] = []
    for position, postings in term.parts:
        is_marked = mask[starts[position] :][postings.ordinals]
        parts.append((position, Postings(postings.ordinals[is_marked], postings.counts[is_marked])))
    return TermPostings(term.weight, parts)


def score(
    terms: Sequence[TermPostings],
    lengths: Sequence[NDArray[np.uint16]],
    among: Mask | None = None,
    *,
    tokens: int | None = None,
) -> Scores:
    """The score of every chunk; 0 for chunks without any of the terms. `lengths` has an array for each segment. N and the
    mean length are those of the chunks that `among` marks, by default of all; `tokens` is the sum of their lengths, if the
    caller knows it.

    Segment by segment, so that all terms of a segment are added up in the processor's cache."""
    starts = first_ordinals(lengths)
    scores = np.zeros(starts[-1], np.float32)
    total = starts[-1]
    if among is not None or tokens is None:
        total, tokens = _totals(lengths, starts, among)
    if not total:
        return scores
    by_segment: dict[int, list[tuple[np.float32, Postings]]] = {}
    for term in terms:
        if chunks := term.chunks:
            weight = np.float32(term.weight * idf(chunks, total) * (K1 + 1))
            for position, postings in term.parts:
                by_segment.setdefault(position, []).append((weight, postings))
    for position, weighted_postings in by_segment.items():
        norms = lengths[position].astype(np.float32)
        norms *= np.float32(K1 * B * total / max(tokens, 1))
        norms += np.float32(K1 * (1 - B))
        segment_scores = scores[starts[position] : starts[position + 1]]
        for weight, postings in weighted_postings:
            _add_term(segment_scores, norms, weight, postings)
    return scores


def first_ordinals(lengths: Sequence[NDArray[np.uint16]]) -> list[int]:
    """The first ordinal of each segment, and the number of all chunks."""
    return [*itertools.accumulate(map(len, lengths), initial=0)]


def _totals(
    lengths: Sequence[NDArray[np.uint16]], starts: Sequence[int], among: Mask | None
) -> tuple[int, int]:
    """The number of chunks, and of their tokens."""
    if among is not None:
        lengths = [
            part[among[start : start + len(part)]] for part, start in zip(lengths, starts, strict=False)
        ]
    return sum(map(len, lengths)), sum(int(part.sum(dtype=np.int64)) for part in lengths)


def _add_term(scores: Scores, norms: Scores, weight: np.float32, postings: Postings) -> None:
    """Add the scores of one term. Where most chunks contain it, all are computed: that needs no gathering."""
    if 2 * len(postings.ordinals) > len(scores):
        term_scores = np.zeros(len(scores), np.float32)
        term_scores[postings.ordinals] = postings.counts
        denominators = term_scores + norms
        term_scores *= weight
        term_scores /= denominators
        scores += term_scores
    else:
        ordinals = postings.ordinals.astype(np.intp)
        counts = postings.counts.astype(np.float32)
        scores[ordinals] += weight * counts / (counts + norms[ordinals])


@dataclass(frozen=True)
class DocumentStatistics:
    """What the scores of documents need: how many there are, their mean length, and how many have each term."""

    documents: int
    mean_length: float
    by_term: Sequence[int]


def document_scores(
    weights: Sequence[float],
    counts: Sequence[NDArray[np.float64]] | NDArray[np.float64],
    lengths: NDArray[np.float64],
    statistics: DocumentStatistics,
) -> NDArray[np.float64]:
    """The scores of documents. `counts` has a row for each term and a column for each document."""
    norms = K1 * (1 - B + B * lengths / max(statistics.mean_length, 1e-9))
    scores = np.zeros(len(lengths))
    for weight, documents, of_term in zip(weights, statistics.by_term, counts, strict=False):
        if documents:
            rarity = idf(min(documents, statistics.documents), statistics.documents)
            scores += weight * rarity * (K1 + 1) * of_term / (of_term + norms)
    return scores


def with_documents(scores: Scores, of_documents: NDArray[np.float64]) -> Scores:
    """The scores that chunks rank by: their own, with a share of the scores of their documents."""
    return ((1 - DOCUMENT_WEIGHT) * scores + DOCUMENT_WEIGHT * of_documents).astype(np.float32)


def term_mask(term: TermPostings, starts: Sequence[int]) -> Mask:
    """Marks the chunks that contain the term. `starts` has the first ordinal of each segment, and the number of chunks."""
    mask = np.zeros(starts[-1], bool)
    for position, postings in term.parts:
        mask[starts[position] :][postings.ordinals] = True
    return mask


def top_ordinals(scores: Scores, limit: int) -> Numbers:
    """The ordinals of the best scores above 0, best first. Ties are ordered by ordinal, so that rankings are
    repeatable."""
    if limit <= 0:
        return np.empty(0, np.int64)
    bound = _bound_of_best(scores, limit)
    chosen = np.flatnonzero(scores >= bound if bound > 0 else scores)
    if limit < len(chosen):
        values = scores[chosen]
        threshold = np.partition(values, len(values) - limit)[len(values) - limit]
        chosen = chosen[values >= threshold]
    order = np.lexsort((chosen, -scores[chosen]))
    return chosen[order][:limit]


def _bound_of_best(scores: Scores, limit: int) -> float:
    """A score that at least `limit` chunks reach: so many blocks have a chunk with it. Most scores are below it, and
    need not be compared with each other."""
    block = len(scores) // (_BLOCKS_PER_HIT * limit)
    if block < 2:
        return 0.0
    best = np.maximum.reduceat(scores, np.arange(0, len(scores), block))
    return float(np.partition(best, len(best) - limit)[len(best) - limit])
