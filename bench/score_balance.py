"""Chooses the intercept of scores: `python -m bench.score_balance FILE... --model universal --script unspaced --fit NAME...`.

The files are those of `bench.scores --evidence`. Recorded hybrid searches are scored again with other intercepts; nothing is searched. The
chosen one is the highest with which at most 5 % of gibberish and of other questions find something that fits, in the corpora for the fit. Each question
counts the same; those that are kept for measurements have no say. Prints the shares of all corpora with that intercept and with the
program's, and for comparison with the one that balances both kinds of mistakes.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean

from gristmill.search import relevance
from gristmill.search.relevance import Evidence

_STEP = 0.05
_MAX_WRONG = 0.05
_WIDTH = 3.0  # how far from the program's intercept others are tried
_SHIFTS = [step * _STEP for step in range(-round(_WIDTH / _STEP), round(_WIDTH / _STEP) + 1)]
_FIELDS = frozenset(field.name for field in fields(Evidence))
_MEASURED_ONLY = ("off-topic, everyday", "shuffled", "word")
_EVERYDAY = ("off-topic, everyday", "off-topic, for the fit")


@dataclass(frozen=True)
class RecordedSearch:
    """A search as it was recorded: its corpus, the kind of its question, and what is known of its hits."""

    corpus: str
    kind: str
    evidence: Sequence[Evidence]

    @property
    def group(self) -> str:
        """The kind, without the name of another corpus."""
        is_of_other = self.kind.startswith("off-topic, ") and self.kind not in _EVERYDAY
        return "off-topic, other corpora" if is_of_other else self.kind

    def is_for_fit(self, corpora: Sequence[str]) -> bool:
        """Whether it has a say."""
        if self.corpus.split(",")[0] not in corpora or self.kind in _MEASURED_ONLY:
            return False
        return self.group != "off-topic, other corpora" or self.kind.removeprefix("off-topic, ") in corpora


def read_searches(files: Iterable[Path]) -> list[RecordedSearch]:
    """The hybrid searches of the files."""
    searches: list[RecordedSearch] = []
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["mode"] == "hybrid":
                rows = [row for row, _ in record["hits"]]
                evidence = [Evidence(**{key: row[key] for key in _FIELDS if key in row}) for row in rows]
                searches.append(RecordedSearch(record["corpus"], record["kind"], evidence))
    return searches


def highest_shift(search: RecordedSearch, model: str, script: str) -> float:
    """By how much the intercept can be lowered until nothing fits; below 0, how much higher it would have to be."""
    leading = search.evidence[: relevance.LEADING_HITS]  # the scores of the others are at most as high
    return max((_margin(known, model, script) for known in leading), default=-math.inf)


def _margin(known: Evidence, model: str, script: str) -> float:
    words_say_little = replace(known, coverage=None, has_every_word=False)
    if known.is_other_language and relevance.score(words_say_little) >= relevance.DEFAULT_MIN_SCORE:
        return math.inf
    is_shifted = (known.model, known.script) == (model, script) and None not in (
        known.coverage,
        known.similarity,
    )
    if known.has_every_word:
        return math.inf  # its lowest score does not depend on the intercept
    score = relevance.score(replace(known, is_other_language=False))
    if not is_shifted:
        return math.inf if score >= relevance.DEFAULT_MIN_SCORE else -math.inf
    return math.log(score / (1 - score)) if 0 < score < 1 else math.copysign(math.inf, score - 0.5)


def shares(
    searches: Sequence[tuple[RecordedSearch, float]], shift: float
) -> dict[tuple[str, str], tuple[float, int]]:
    """The share of searches with a hit that fits if the intercept changes by `shift`, and their number, by corpus and kind."""
    fits: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for search, margin in searches:
        fits[search.corpus, search.group].append(margin + shift >= 0)
    return {key: (fmean(of_key), len(of_key)) for key, of_key in fits.items()}


def mistakes(searches: Sequence[tuple[RecordedSearch, float]], shift: float) -> tuple[float, float]:
    """The share of right questions that find nothing, and of the others that find something."""
    missed = [margin + shift < 0 for search, margin in searches if search.kind == "right"]
    wrong = [margin + shift >= 0 for search, margin in searches if search.kind != "right"]
    return fmean(missed), fmean(wrong)


def permitted_shift(searches: Sequence[tuple[RecordedSearch, float]]) -> float:
    """The highest change of the intercept with which few enough of the other questions find something."""
    return max((shift for shift in _SHIFTS if mistakes(searches, shift)[1] <= _MAX_WRONG), default=_SHIFTS[0])


def balanced_shift(searches: Sequence[tuple[RecordedSearch, float]]) -> float:
    """The change of the intercept with which both mistakes are nearest to each other."""

    def difference(shift: float) -> tuple[float, float]:
        missed, wrong = mistakes(searches, shift)
        return abs(missed - wrong), missed + wrong

    return min(_SHIFTS, key=difference)


def print_shares(label: str, searches: Sequence[tuple[RecordedSearch, float]], shift: float) -> None:
    print(label)
    of_corpora: dict[str, list[str]] = defaultdict(list)
    for (corpus, group), (share, count) in shares(searches, shift).items():
        of_corpora[corpus].append(f"{group} {100 * share:.1f} of {count}")
    for corpus, texts in of_corpora.items():
        print(f"  {corpus:20} {'; '.join(texts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--model", default="universal")
    parser.add_argument("--script", default="unspaced")
    parser.add_argument("--fit", nargs="+", required=True, help="the corpora that choose")
    options = parser.parse_args()
    recorded = read_searches(options.files)
    searches = [(search, highest_shift(search, options.model, options.script)) for search in recorded]
    for_fit = [entry for entry in searches if entry[0].is_for_fit(options.fit)]
    for label, shift in (
        ("the program's intercept", 0.0),
        ("at most 5 % wrong", permitted_shift(for_fit)),
        ("balanced", balanced_shift(for_fit)),
    ):
        missed, wrong = mistakes(for_fit, shift)
        print_shares(
            f"{label}, {shift:+.2f}: in the fit {missed:.3f} missed, {wrong:.3f} wrong", searches, shift
        )


if __name__ == "__main__":
    main()
