"""How much vectors count beside words, by what is known of the base's languages and of the embedder. Pure functions.

The language of the base's chunks is known since they were indexed, and an embedder's strength in a language was measured
(`embedding/local_models.py`). A question is often too short to know its language by its words; its script says more.

    the question's language is one of the base's      the embedder's strength in that language
    it is not clear                                   the mean strength over the base's chunks
    it is another one, and the embedder knows both    CROSS_LANGUAGE_WEIGHT: words hardly match, meanings do
    it is another one, and the embedder doesn't       a little in Latin script, where names and loan words match, else nothing
    an endpoint, which doesn't say what it knows      VECTOR_WEIGHT
    one word                                          at most ONE_WORD_WEIGHT: who types a word wants the texts that have it

In a base of several languages, words say nothing of a chunk in another language than the question's. There such chunks rank by vectors
alone, nearly; and the others by vectors too, if the words of the best of them don't cover the question.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gristmill.search.languages import certain_language

VECTOR_WEIGHT = 0.6  # of an embedder at full strength: the best of 0.1 to 0.9 on two English collections
CROSS_LANGUAGE_WEIGHT = 0.7
FOREIGN_WEIGHT = 0.1
ONE_WORD_WEIGHT = 0.3
_MIN_SHARE = 0.05  # of a base's chunks, for a language to be one of the base's


def vector_weight(query: str, chunks_by_language: Mapping[str, int], strengths: Mapping[str, float]) -> float:
    """The weight of the vector score, 0 to 1; that of the keyword score is the rest."""
    shares = _shares(chunks_by_language)
    asked_in = certain_language(query)
    if asked_in is None or not shares:
        return _mean_weight(shares, strengths)
    if asked_in in shares:
        return _weight(asked_in, strengths)
    if strengths.get(asked_in) and _mean_weight(shares, strengths) > FOREIGN_WEIGHT:
        return CROSS_LANGUAGE_WEIGHT
    return FOREIGN_WEIGHT if _is_latin(query) else 0.0


@dataclass(frozen=True)
class MixedWeights:
    """The weights of vectors in a base of several languages, for chunks in the question's language and in others."""

    own: float
    other: float


def weights_for_languages(weight: float, *, is_covered_by_words: bool) -> MixedWeights:
    """Whether the words of a chunk in the question's language cover the question decides."""
    return MixedWeights(weight, 0.8) if is_covered_by_words else MixedWeights(max(weight, 0.4), 0.95)


def language_among_others(
    query: str, chunks_by_language: Mapping[str, int], strengths: Mapping[str, float]
) -> str | None:
    """The question's language, if the base has texts in it and in others, and the embedder knows it and one of them."""
    asked_in = certain_language(query)
    known = {language for language in _shares(chunks_by_language) if strengths.get(language)}
    return asked_in if asked_in in known and len(known) > 1 else None


def limit_for_one_word(query: str, weight: float) -> float:
    """The weight for a query; less for one word."""
    return min(weight, ONE_WORD_WEIGHT) if len(query.split()) == 1 and _is_latin(query) else weight


def _shares(chunks_by_language: Mapping[str, int]) -> dict[str, float]:
    total = sum(chunks_by_language.values())
    return {
        language: count / total
        for language, count in chunks_by_language.items()
        if count >= _MIN_SHARE * total
    }


def _mean_weight(shares: Mapping[str, float], strengths: Mapping[str, float]) -> float:
    if not shares:
        return VECTOR_WEIGHT
    return sum(share * _weight(language, strengths) for language, share in shares.items()) / sum(
        shares.values()
    )


def _weight(language: str, strengths: Mapping[str, float]) -> float:
    return VECTOR_WEIGHT * strengths.get(language, 0.0)


def _is_latin(query: str) -> bool:
    letters = [character for character in query if character.isalpha()]
    return 2 * sum(character < "\u0250" for character in letters) >= len(letters)
