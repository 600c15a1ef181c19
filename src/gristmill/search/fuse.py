"""Fuses the results of keyword and vector search, of one or several bases, into one ranking. Pure functions.

The fused score is a convex combination of both scores, each normalised to [0, 1]. Unlike rank fusion, it keeps the
distance between the first hit and the second. A chunk that one search did not find has 0 there. Keyword scores are
normalised over all bases, vector scores over the bases that share an embedder. `leg_weights.py` has the weights.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from gristmill.search.leg_weights import VECTOR_WEIGHT

_MIN_NORMALISED = 0.05  # for the last of a list, so that it still ranks above chunks that were not found


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that one of the searches found, with its score (higher is better). Numbers are unique over all bases."""

    id: UUID
    no: int
    score: float


@dataclass(frozen=True)
class LegResults:
    """The candidates of both searches in one base. Vectors are comparable between bases with the same `space`. `weights` has
    the weights of vectors for chunks, by number, that don't have `vector_weight`."""

    vector: Sequence[Candidate]
    text: Sequence[Candidate]
    vector_weight: float = VECTOR_WEIGHT
    space: str = ""
    weights: Mapping[int, float] = field(default_factory=dict[int, float])


@dataclass(frozen=True, slots=True)
class FusedHit:
    """A chunk in the fused ranking. `target_index` says which search target it belongs to; a rank or score is None if
    that search did not find the chunk."""

    target_index: int
    no: int
    score: float
    vector_rank: int | None
    text_rank: int | None
    vector_score: float | None
    text_score: float | None


def fuse(legs: Sequence[LegResults]) -> list[FusedHit]:
    """The union of all candidates, best first. Ties are ordered by number, so that rankings are repeatable."""
    by_text = normalise_scores(candidate for results in legs for candidate in results.text)
    by_vector: dict[int, float] = {}
    for space in {results.space for results in legs}:
        by_vector |= normalise_scores(
            candidate for results in legs if results.space == space for candidate in results.vector
        )
    fused: list[FusedHit] = []
    for target_index, results in enumerate(legs):
        vectors = {candidate.no: (rank, candidate.score) for rank, candidate in enumerate(results.vector, 1)}
        texts = {candidate.no: (rank, candidate.score) for rank, candidate in enumerate(results.text, 1)}
        for no in {**vectors, **texts}:
            vector_rank, vector_score = vectors.get(no, (None, None))
            text_rank, text_score = texts.get(no, (None, None))
            weight = results.weights.get(no, results.vector_weight)
            score = weight * by_vector.get(no, 0.0) + (1 - weight) * by_text.get(no, 0.0)
            fused.append(FusedHit(target_index, no, score, vector_rank, text_rank, vector_score, text_score))
    return sorted(fused, key=lambda hit: (-hit.score, hit.no))


def normalise_scores(candidates: Iterable[Candidate]) -> dict[int, float]:
    """The candidates' scores scaled to 0..1, by chunk number."""
    scores = {candidate.no: candidate.score for candidate in candidates}
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {
        no: _MIN_NORMALISED + (1 - _MIN_NORMALISED) * (score - low) / (high - low)
        for no, score in scores.items()
    }
