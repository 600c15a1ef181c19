"""BM25 scores over segments. Pure functions: postings in, a score for every chunk out.

The formula is Lucene's, with idf = ln(1 + (N − n + ½) / (n + ½)), which is never negative. N, n and the mean length are
taken over the whole base at the time of the search. Deleted and unpublished chunks count in them until compaction removes
them from the segments; such chunks are never returned.
A chunk's ordinal is its position among the chunks of all segments, in the order of the segments.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gristmill.search.inverted_index import Postings
from gristmill.search.segment import Mask, Numbers

K1 = 1.8
B = 0.75
SIBLING_WEIGHT = 0.1  # weight of the mean score of the item's other chunks

Scores = NDArray[np.float32]


@dataclass(frozen=True)
class TermPostings:
    """The postings of one query term. A term with several lexemes has the sum of their counts."""

    weight: float
    postings: Postings

    @property
    def chunks(self) -> int:
        """The number of chunks that contain the term."""
        return len(self.postings.ordinals)


def combine_postings(weight: float, parts: Sequence[tuple[int, Postings]], total: int) -> TermPostings:
    """Combine a term's postings from all segments. Each part comes with the first ordinal of its segment; a term with
    several lexemes can have several parts of one segment."""
    if not parts:
        return TermPostings(weight, Postings(np.empty(0, np.int32), np.empty(0, np.uint8)))
    ordinals = np.concatenate([np.add(postings.ordinals, start, dtype=np.int32) for start, postings in parts])
    counts = np.concatenate([postings.counts for _, postings in parts])
    if len({start for start, _ in parts}) < len(parts):
        totals = np.bincount(ordinals, counts, minlength=total)
        ordinals = np.flatnonzero(totals).astype(np.int32)
        counts = np.minimum(totals[ordinals], 255).astype(np.uint8)
    return TermPostings(weight, Postings(ordinals, counts))


def idf(chunks: int, of: int) -> float:
    """The inverse document frequency of a term that is in `chunks` of `of` chunks."""
    return math.log(1 + (of - chunks + 0.5) / (chunks + 0.5))


def within(term: TermPostings, mask: Mask | None) -> TermPostings:
    """The postings of a term in the marked chunks alone; None marks all."""
    if mask is None:
        return term
    is_marked = mask[term.postings.ordinals]
    return TermPostings(
        term.weight, Postings(term.postings.ordinals[is_marked], term.postings.counts[is_marked])
    )


def score(terms: Sequence[TermPostings], lengths: NDArray[np.uint16], among: Mask | None = None) -> Scores:
    """The score of every chunk; 0 for chunks without any of the terms. N and the mean length are those of the chunks that
    `among` marks, by default of all."""
    counted = lengths if among is None else lengths[among]
    total = len(counted)
    scores = np.zeros(len(lengths), np.float32)
    if not total:
        return scores
    norms = lengths.astype(np.float32)
    norms *= np.float32(K1 * B * total / max(int(counted.sum(dtype=np.int64)), 1))
    norms += np.float32(K1 * (1 - B))
    for term in terms:
        if term.chunks:
            weight = np.float32(term.weight * idf(term.chunks, total) * (K1 + 1))
            counts = term.postings.counts.astype(np.float32)
            scores[term.postings.ordinals] += weight * counts / (counts + norms[term.postings.ordinals])
    return scores


def with_siblings(scores: Scores, chunk_counts: Numbers, sums: NDArray[np.float64]) -> Scores:
    """Chunks' scores with a small share of the scores of their items' other chunks, because the content of a document is
    spread over its chunks. `chunk_counts` and `sums` are the number of chunks of each item and the sum of their
    scores."""
    return (scores + SIBLING_WEIGHT * (sums - scores) / np.maximum(1, chunk_counts - 1)).astype(np.float32)


def term_mask(term: TermPostings, total: int) -> Mask:
    """Marks the chunks that contain the term."""
    mask = np.zeros(total, bool)
    mask[term.postings.ordinals] = True
    return mask


def top_ordinals(scores: Scores, limit: int) -> Numbers:
    """The ordinals of the best scores above 0, best first. Ties are ordered by ordinal, so that rankings are
    repeatable."""
    limit = min(limit, int(np.count_nonzero(scores)))
    if limit == 0:
        return np.empty(0, np.int64)
    if limit < len(scores):
        threshold = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        chosen = np.flatnonzero(scores >= threshold)
    else:
        chosen = np.arange(len(scores))
    order = np.lexsort((chosen, -scores[chosen]))
    return chosen[order][:limit]
