"""One ranking out of two. Pure.

A convex combination of the legs' scores, each normalised to [0, 1] over its own list: a leg that is sure of
its first hit keeps that, where ranks alone would forget by how much. A chunk that one leg did not find has
0 there. The vector leg weighs `VECTOR_WEIGHT`, and nothing where the embedder does not know the query's
language: its neighbours are then noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

VECTOR_WEIGHT = 0.6


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that one leg found, with that leg's score; higher is better."""

    id: UUID
    score: float


@dataclass(frozen=True, slots=True)
class Fused:
    """A chunk's place in the fused ranking; a rank is None where the leg did not find it."""

    id: UUID
    score: float
    vector_rank: int | None
    text_rank: int | None


def fuse(vector: Sequence[Found], text: Sequence[Found], vector_weight: float = VECTOR_WEIGHT) -> list[Fused]:
    """The union of both lists, best first; ties go by id, so that a ranking is repeatable."""
    by_vector, by_text = _normalised(vector), _normalised(text)
    vector_ranks = {found.id: rank for rank, found in enumerate(vector, 1)}
    text_ranks = {found.id: rank for rank, found in enumerate(text, 1)}
    fused = [
        Fused(
            chunk,
            vector_weight * by_vector.get(chunk, 0.0) + (1 - vector_weight) * by_text.get(chunk, 0.0),
            vector_ranks.get(chunk),
            text_ranks.get(chunk),
        )
        for chunk in {**vector_ranks, **text_ranks}
    ]
    return sorted(fused, key=lambda hit: (-hit.score, hit.id))


def _normalised(found: Sequence[Found]) -> dict[UUID, float]:
    if not found:
        return {}
    scores = [hit.score for hit in found]
    low, high = min(scores), max(scores)
    # The last of a list is still a hit: it keeps a little over what was not found at all.
    floor = 0.05
    if high == low:
        return {hit.id: 1.0 for hit in found}
    return {hit.id: floor + (1 - floor) * (hit.score - low) / (high - low) for hit in found}
