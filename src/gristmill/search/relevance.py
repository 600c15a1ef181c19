"""The score of a hit: how likely it is that it fits the query, from 0 to 1, by what words and vectors say. Pure functions.

    words       how much of the query's information the chunk has (`coverage.py`), and whether it has all of it
    vectors     how near it is, on the scale of the embedder (`similarity_scale.py`), and how much nearer than the tenth chunk
    the base    how many chunks it has: the nearest of many is near by chance

A logistic function of these; its constants were fitted to questions and right hits on one side, and on the other to what
unrelated questions and gibberish find (`docs/adr/0033-scores.md`). At 0.5 both are equally likely. The ranking does not
follow from scores: it is better than they are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gristmill.search.similarity_scale import Script

DEFAULT_MIN_SCORE = 0.5
DOUBTFUL_SCORE = (
    0.05  # below it, a hit is not even worth a look by a model; of right hits, one or two in a hundred
)
LEADING_HITS = 5
LEAD_RANK = 10  # of the chunk that a hit's similarity is compared with
ORDINARY_CHUNKS = 1000
_MIN_LEAD, _MAX_LEAD = -0.2, 0.8
_MIN_CHUNKS, _MAX_CHUNKS = 10, 5000  # of a base; the measured ones had 16 to 3,000
_EVERY_WORD = (
    0.4  # a score of 0.6: who types a word that is in the text wants to see it, whatever vectors say
)


@dataclass(frozen=True)
class Evidence:
    """What is known of a hit: the share of the query's information in its words, whether that is all of it, and its
    similarity on the embedder's scale. None: it was not searched for by that. `plain_coverage` is the share as people
    understand it, not weighed down for short queries; no score depends on it."""

    coverage: float | None
    has_every_word: bool
    similarity: float | None
    script: Script = "spaced"
    model: str = "other"
    is_other_language: bool = False  # than the query's, so that words say little
    chunks: int = ORDINARY_CHUNKS  # of the base
    lead: float = 0.0  # how much higher its similarity is than that of the tenth chunk
    plain_coverage: float | None = None


@dataclass(frozen=True)
class Calibration:
    """The constants of the logistic function."""

    intercept: float
    coverage: float = 0.0
    every_word: float = 0.0
    similarity: float = 0.0
    size: float = 0.0  # for each power of ten that the base has more than 1,000 chunks
    lead: float = 0.0


_BY_WORDS: dict[Script, Calibration] = {
    "spaced": Calibration(-4.16, 11.76, 4.17),
    "unspaced": Calibration(-3.11, 13.21, 5.61),
}
_BY_BOTH: dict[tuple[str, Script], Calibration] = {
    ("granite", "spaced"): Calibration(-11.47, 7.41, 9.68, 9.94, -2.02, 2.98),
    ("universal", "spaced"): Calibration(-8.67, 11.51, 6.9, 5.02, -1.66),
    ("universal", "unspaced"): Calibration(-7.6, 9.04, 7.6, 4.55, -1.66),
}
_BY_VECTORS: dict[str, Calibration] = {
    "granite": Calibration(-8.37, similarity=9.5),
    "universal": Calibration(-6.6, similarity=5.4),
}
# Of both local models together: what can be said of a model that was only measured by probes.
_OTHER_BY_BOTH = Calibration(-7.29, 10.52, 7.08, 4.73, -1.66)
_OTHER_BY_VECTORS = Calibration(-6.07, similarity=5.51)


def score(evidence: Evidence) -> float:
    """The score of a hit."""
    if evidence.is_other_language and evidence.coverage is not None and evidence.similarity is not None:
        return max(_logistic(evidence), _logistic(replace(evidence, coverage=None, has_every_word=False)))
    return _logistic(evidence)


def _logistic(evidence: Evidence) -> float:
    calibration = _calibration(evidence)
    exponent = calibration.intercept
    if evidence.coverage is not None:
        exponent += (
            calibration.coverage * evidence.coverage + calibration.every_word * evidence.has_every_word
        )
    if evidence.similarity is not None:
        chunks = min(max(evidence.chunks, _MIN_CHUNKS), _MAX_CHUNKS)
        exponent += calibration.similarity * evidence.similarity + calibration.size * math.log10(
            chunks / ORDINARY_CHUNKS
        )
        exponent += calibration.lead * min(max(evidence.lead, _MIN_LEAD), _MAX_LEAD)
    if evidence.has_every_word:
        exponent = max(exponent, _EVERY_WORD)
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, exponent))))


def _calibration(evidence: Evidence) -> Calibration:
    if evidence.similarity is None:
        return _BY_WORDS[evidence.script]
    if evidence.coverage is None:
        return _BY_VECTORS.get(evidence.model, _OTHER_BY_VECTORS)
    return _BY_BOTH.get((evidence.model, evidence.script), _OTHER_BY_BOTH)


def descending(scores: Sequence[float]) -> list[float]:
    """The scores of a ranking so that none is above the one before it. The ranking knows better than scores which hit is
    first: each of the leading hits is at least as good as those after it, and the others at most as good as those before.
    So a lowest score cuts off the end of a ranking, and the score of a hit does not depend on how many are returned."""
    leading, rest = scores[:LEADING_HITS], scores[LEADING_HITS:]
    result = [max(leading[position:]) for position in range(len(leading))]
    for value in rest:
        result.append(min(value, result[-1]))
    return result
