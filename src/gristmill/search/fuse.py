"""One ranking out of two legs, of one base or several. Pure.

A convex combination of the legs' scores, each normalised to [0, 1]: a leg that is sure of its first hit keeps that, where
ranks alone would forget by how much. A chunk that one leg did not find has 0 there. Words are normalised over all bases
together, vectors over the bases whose vectors can be compared. How much the vector leg weighs:

    the embedder knows many languages, or the question is English      0.6
    English only, and another language in Latin letters                0.2    names and loan words still say something
    English only, and another script                                   0      its neighbours are noise
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from gristmill.search.languages import ENGLISH, language_of

VECTOR_WEIGHT = 0.6
FOREIGN_WEIGHT = 0.2
_FLOOR = 0.05  # the last of a list is still a hit: it keeps a little over what was not found at all


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that one leg found, with that leg's score; higher is better. Numbers are unique over all bases."""

    id: UUID
    no: int
    score: float


@dataclass(frozen=True)
class Legs:
    """What both legs found in one base; `space` names what its vectors can be compared with."""

    vector: Sequence[Found]
    text: Sequence[Found]
    vector_weight: float = VECTOR_WEIGHT
    space: str = ""


@dataclass(frozen=True, slots=True)
class Fused:
    """A chunk's place in the fused ranking, and the base it is of, by place; a rank is None where the leg did not find
    it."""

    base: int
    no: int
    score: float
    vector_rank: int | None
    text_rank: int | None
    vector_score: float | None
    text_score: float | None


def fuse(legs: Sequence[Legs]) -> list[Fused]:
    """The union of all lists, best first; ties go by number, so that a ranking is repeatable."""
    by_text = normalised(found for one in legs for found in one.text)
    by_vector: dict[int, float] = {}
    for space in {one.space for one in legs}:
        by_vector |= normalised(found for one in legs if one.space == space for found in one.vector)
    fused: list[Fused] = []
    for base, one in enumerate(legs):
        vectors = {found.no: (rank, found.score) for rank, found in enumerate(one.vector, 1)}
        texts = {found.no: (rank, found.score) for rank, found in enumerate(one.text, 1)}
        for no in {**vectors, **texts}:
            vector_rank, vector_score = vectors.get(no, (None, None))
            text_rank, text_score = texts.get(no, (None, None))
            weight = one.vector_weight
            score = weight * by_vector.get(no, 0.0) + (1 - weight) * by_text.get(no, 0.0)
            fused.append(Fused(base, no, score, vector_rank, text_rank, vector_score, text_score))
    return sorted(fused, key=lambda hit: (-hit.score, hit.no))


def vector_weight(query: str, *, english_only: bool) -> float:
    """How much the vector leg weighs for a question."""
    if not english_only:
        return VECTOR_WEIGHT
    letters = [character for character in query if character.isalpha()]
    if 2 * sum(character < "\u0250" for character in letters) < len(letters):
        return 0.0
    return VECTOR_WEIGHT if language_of(query) == ENGLISH else FOREIGN_WEIGHT


def normalised(found: Iterable[Found]) -> dict[int, float]:
    """Scores from 0 to 1, by number."""
    scores = {hit.no: hit.score for hit in found}
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {no: _FLOOR + (1 - _FLOOR) * (score - low) / (high - low) for no, score in scores.items()}
