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

from gristmill.search.language_detection import ENGLISH, detect_language

VECTOR_WEIGHT = 0.6
FOREIGN_WEIGHT = 0.2
_MIN_NORMALISED = 0.05  # the last of a list is still a hit: it keeps a little over what was not found at all


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that one leg found, with that leg's score; higher is better. Numbers are unique over all bases."""

    id: UUID
    no: int
    score: float


@dataclass(frozen=True)
class LegResults:
    """What both legs found in one base; `space` names what its vectors can be compared with."""

    vector: Sequence[Candidate]
    text: Sequence[Candidate]
    vector_weight: float = VECTOR_WEIGHT
    space: str = ""


@dataclass(frozen=True, slots=True)
class FusedHit:
    """A chunk's place in the fused ranking, and the base it is of, by place; a rank is None where the leg did not find
    it."""

    target_index: int
    no: int
    score: float
    vector_rank: int | None
    text_rank: int | None
    vector_score: float | None
    text_score: float | None


def fuse(legs: Sequence[LegResults]) -> list[FusedHit]:
    """The union of all lists, best first; ties go by number, so that a ranking is repeatable."""
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
            weight = results.vector_weight
            score = weight * by_vector.get(no, 0.0) + (1 - weight) * by_text.get(no, 0.0)
            fused.append(FusedHit(target_index, no, score, vector_rank, text_rank, vector_score, text_score))
    return sorted(fused, key=lambda hit: (-hit.score, hit.no))


def vector_weight(query: str, *, english_only: bool) -> float:
    """How much the vector leg weighs for a question."""
    if not english_only:
        return VECTOR_WEIGHT
    letters = [character for character in query if character.isalpha()]
    if 2 * sum(character < "\u0250" for character in letters) < len(letters):
        return 0.0
    return VECTOR_WEIGHT if detect_language(query) == ENGLISH else FOREIGN_WEIGHT


def normalise_scores(candidates: Iterable[Candidate]) -> dict[int, float]:
    """Scores from 0 to 1, by number."""
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
