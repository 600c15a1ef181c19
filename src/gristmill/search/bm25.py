"""BM25 over segments. Pure: postings in, a score for every chunk out.

Lucene's form of it, with idf = ln(1 + (N − n + ½) / (n + ½)), which is never negative. N, n and the mean length are those
of the whole base at this moment. What is dead or not live yet counts in them until it is tidied away; it is never shown.
A chunk's place is its place among the chunks of all segments, one segment after the other.
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
SIBLING_WEIGHT = 0.1  # of the mean of an item's other chunks

Scores = NDArray[np.float32]


@dataclass(frozen=True)
class TermPostings:
    """How often one term stands where; a term of several names is counted over all of them."""

    weight: float
    postings: Postings

    @property
    def chunks(self) -> int:
        """How many chunks hold it."""
        return len(self.postings.ordinals)


def combine_postings(weight: float, parts: Sequence[tuple[int, Postings]], total: int) -> TermPostings:
    """A term out of its postings in segments, each with the place where the segment begins; where it has several
    names, parts may meet at a place."""
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
    """How much a term says that stands in `chunks` of `of`."""
    return math.log(1 + (of - chunks + 0.5) / (chunks + 0.5))


def score(terms: Sequence[TermPostings], lengths: NDArray[np.uint16]) -> Scores:
    """The score of every chunk; 0 where no term stands."""
    total = len(lengths)
    scores = np.zeros(total, np.float32)
    if not total:
        return scores
    norms = lengths.astype(np.float32)
    norms *= np.float32(K1 * B * total / max(int(lengths.sum(dtype=np.int64)), 1))
    norms += np.float32(K1 * (1 - B))
    for term in terms:
        if term.chunks:
            weight = np.float32(term.weight * idf(term.chunks, total) * (K1 + 1))
            counts = term.postings.counts.astype(np.float32)
            scores[term.postings.ordinals] += weight * counts / (counts + norms[term.postings.ordinals])
    return scores


def with_siblings(scores: Scores, chunk_counts: Numbers, sums: NDArray[np.float64]) -> Scores:
    """Chunks' scores, each with a little of what the rest of its document has: what a document says is spread over its
    chunks. `chunks` tells how many each one's item has, `sums` what they have together."""
    return (scores + SIBLING_WEIGHT * (sums - scores) / np.maximum(1, chunk_counts - 1)).astype(np.float32)


def term_mask(term: TermPostings, total: int) -> Mask:
    """Which chunks hold the term."""
    mask = np.zeros(total, bool)
    mask[term.postings.ordinals] = True
    return mask


def top_ordinals(scores: Scores, limit: int) -> Numbers:
    """The places of the best scores above 0, best first; ties go by place, so that a ranking is repeatable."""
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
