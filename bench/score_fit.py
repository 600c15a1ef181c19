"""Fits the constants of scores: `python -m bench.score_fit FILE... --corpora NAME...`, files of `bench.scores --evidence`.

Right hits and words of a corpus against what off-topic questions and gibberish find; each corpus and class has the same weight. Only
the corpora that are named are used, so that the others can be held back. Prints the constants for `search/relevance.py`.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

Row = dict[str, Any]
Array = Any  # of numpy, whose operators have no useful types
_numpy = cast(Any, np)
_HITS = 3  # of each question
_RIDGE = 1e-3
_FEATURES: dict[str, Callable[[Row], float]] = {
    "coverage": lambda row: row["coverage"],
    "every_word": lambda row: float(row["has_every_word"]),
    "similarity": lambda row: row["similarity"],
    "size": lambda row: math.log10(min(max(row["chunks"], 10), 5000) / 1000),
    "lead": lambda row: min(max(row["lead"], -0.2), 0.8),
}


def read_rows(files: Sequence[Path], corpora: Sequence[str]) -> Iterator[tuple[str, str, bool, Row]]:
    """Mode, corpus, whether the hit is right, and what is known of it."""
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            kind = record["kind"]
            if record["corpus"].split(",")[0] not in corpora or kind in ("off-topic, everyday", "shuffled"):
                continue
            if (
                kind.startswith("off-topic, ")
                and kind != "off-topic, for the fit"
                and not _is_used(kind, corpora)
            ):
                continue
            for evidence, is_right in record["hits"][:_HITS]:
                if kind == "right" and not is_right:
                    continue
                if kind == "word" and not evidence["has_every_word"]:
                    continue
                yield record["mode"], record["corpus"], kind in ("right", "word"), evidence


def _is_used(kind: str, corpora: Sequence[str]) -> bool:
    return kind.removeprefix("off-topic, ") in corpora


def fit(features: Array, labels: Array, weights: Array) -> Array:
    """The coefficients of a logistic regression, by Newton's method; the last feature is constant."""
    means, deviations = features.mean(0), features.std(0) + 1e-9
    means[-1], deviations[-1] = 0.0, 1.0
    scaled = (features - means) / deviations
    ridge = _RIDGE * len(labels) * _numpy.eye(scaled.shape[1])
    ridge[-1, -1] = 0.0
    coefficients = _numpy.zeros(scaled.shape[1])
    for _ in range(60):
        estimates = 1 / (1 + _numpy.exp(-(scaled @ coefficients).clip(-30, 30)))
        gradient = scaled.T @ (weights * (estimates - labels)) + ridge @ coefficients
        curvature = (scaled * (weights * estimates * (1 - estimates))[:, None]).T @ scaled + ridge
        coefficients = coefficients - _numpy.linalg.solve(curvature, gradient)
    result = coefficients / deviations
    result[-1] = coefficients[-1] - float((coefficients[:-1] * means[:-1] / deviations[:-1]).sum())
    return result


def print_fit(label: str, names: Sequence[str], rows: Sequence[tuple[str, bool, Row]]) -> None:
    classes = Counter((corpus, is_right) for corpus, is_right, _ in rows)
    weights = np.array([1 / classes[corpus, is_right] for corpus, is_right, _ in rows])
    features = np.array([[*(_FEATURES[name](row) for name in names), 1.0] for _, _, row in rows])
    labels = np.array([float(is_right) for _, is_right, _ in rows])
    *coefficients, intercept = fit(features, labels, weights / weights.mean()).round(2).tolist()
    constants = ", ".join(f"{name}={value}" for name, value in zip(names, coefficients, strict=True))
    print(f"{label:32} intercept={intercept}, {constants}   ({len(rows)} hits)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--corpora", nargs="+", required=True)
    options = parser.parse_args()
    rows = list(read_rows(options.files, options.corpora))
    for mode, names in (
        ("hybrid", ("coverage", "every_word", "similarity", "size", "lead")),
        ("text", ("coverage", "every_word")),
        ("vector", ("similarity",)),
    ):
        of_mode = [(corpus, is_right, row) for of, corpus, is_right, row in rows if of == mode]
        groups = {(row["model"] if mode != "text" else "words", row["script"]) for _, _, row in of_mode}
        for model, script in sorted(groups):
            of_group = [
                entry
                for entry in of_mode
                if entry[2]["script"] == script and (mode == "text" or entry[2]["model"] == model)
            ]
            if mode != "text":
                of_group = [entry for entry in of_group if entry[2]["similarity"] is not None]
            print_fit(f"{mode}, {model}, {script}", names, of_group)
        if mode != "text" and len(groups) > 1:
            known = [entry for entry in of_mode if entry[2]["similarity"] is not None]
            print_fit(f"{mode}, all", names, known)


if __name__ == "__main__":
    main()
