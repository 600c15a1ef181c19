"""How much vectors count beside words, by what is known of the base's languages and of the embedder. Pure functions.

The language of the base's chunks is known since they were indexed, and an embedder's strength in a language was measured
(`embedding/local_models.py`). A question is often too short to know its language by its words; its script says more.

    the question's language is one of the base's      the embedder's strength in that language
    it is not clear                                   the mean strength over the base's chunks
    it is another one, and the embedder knows both    CROSS_LANGUAGE_WEIGHT: words hardly match, meanings do
    it is another one, and the embedder doesn't       a little in Latin script, where names and loan words match, else nothing
    an endpoint, which doesn't say what it knows      VECTOR_WEIGHT
"""

from collections.abc import Mapping

from gristmill.search.languages import certain_language

VECTOR_WEIGHT = 0.6  # of an embedder at full strength: the best of 0.1 to 0.9 on two English collections
CROSS_LANGUAGE_WEIGHT = 0.7
FOREIGN_WEIGHT = 0.1
_MIN_SHARE = 0.05  # of a base's chunks, for a language to be one of the base's


def vector_weight(query: str, chunks_by_language: Mapping[str, int], strengths: Mapping[str, float]) -> float:
    """The weight of the vector score, 0 to 1; that of the keyword score is the rest."""
    total = sum(chunks_by_language.values())
    shares = {
        language: count / total
        for language, count in chunks_by_language.items()
        if count >= _MIN_SHARE * total
    }
    asked_in = certain_language(query)
    if asked_in is None or not shares:
        return _mean_weight(shares, strengths)
    if asked_in in shares:
        return _weight(asked_in, strengths)
    if strengths.get(asked_in) and _mean_weight(shares, strengths) > FOREIGN_WEIGHT:
        return CROSS_LANGUAGE_WEIGHT
    return FOREIGN_WEIGHT if _is_latin(query) else 0.0


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
