"""Compare the chunks that answer in a base with those that are to take over, on questions made from the base itself.

    questions    titles, headings and sentences of an even sample of chunks; the item that one comes from is the right answer.
                 Before these, what people have searched for, if the base keeps that: the right answer is the first item
                 whose words fit by themselves, which neither embedder has a part in
    answers      of both sets, by vectors alone and by the hybrid search, as an admin would see them
    figures      nDCG@10 and MRR of the right item, the share of items that both have among their first ten, median times; of
                 what people have searched for, the share for which something fits

The new set is good enough if

    it is no worse     its mean nDCG@10 is at least the old one's less a tolerance, by vectors and hybrid. The tolerance is the
                       standard error of the paired difference (bootstrap) times 1.645, but at least 0.01 and at most 0.05
    it is no chance    its vectors find the right items better than items of other questions: the 2.5th percentile of the
                       bootstrapped difference is above 0. Random vectors fail this, however bad the old ones are

Too few questions or items decide nothing, and leave it to the owner.
"""

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.catalog import Base, ChunkSet
from gristmill.db import Database
from gristmill.embedding import Embedder
from gristmill.search import Mode, Searcher, SearchRequest, Target, list_questions
from gristmill.search.samples import SampledChunk, sample_chunks

DEPTH = 10  # items of an answer that count
MAX_QUESTIONS = 100
MAX_ASKED = 50  # of these, what people have searched for
MIN_QUESTIONS = 8
MIN_ITEMS = 4
MIN_TOLERANCE, MAX_TOLERANCE = 0.01, 0.05
_SAMPLED_CHUNKS = 60
_HITS = 50  # chunks of which an answer's items are taken
_CACHE_BYTES = 64 << 20
_RESAMPLES = 2000
_ONE_SIDED_95 = 1.645
_OTHER_QUESTIONS = 5  # whose items an answer is compared with, as chance would have it
_MIN_WORDS, _MAX_WORDS = 2, 16
_MIN_CJK, _MAX_CJK = 4, 24

_SENTENCE = re.compile(r"[^.!?。！？；\n]+")
_WORD = re.compile(r"\w+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_FILE_NAME = re.compile(r"\.\w{1,5}$|^[\w-]*\d{3,}[\w-]*$")

Verdict = Literal["better", "as_good", "worse", "no_better_than_chance", "too_few_questions"]
Floats = NDArray[np.float64]


class Question(NamedTuple):
    """A query whose right answer is known."""

    text: str
    item: UUID
    source: str  # title, heading, sentence or asked


@dataclass(frozen=True)
class Answers:
    """What one set answers: the items of each question, best first, and how long that took."""

    items: Sequence[Sequence[UUID]]
    milliseconds: float

    def ndcg(self, questions: Sequence[Question]) -> Floats:
        """The nDCG@10 of each question's item."""
        return np.array(
            [_gain(items, question.item) for items, question in zip(self.items, questions, strict=True)]
        )

    def figures(self, questions: Sequence[Question]) -> dict[str, float]:
        """The means, rounded."""
        ranks = [_rank(items, question.item) for items, question in zip(self.items, questions, strict=True)]
        reciprocal = [0.0 if rank is None else 1 / rank for rank in ranks]
        return {
            "ndcg": round(float(self.ndcg(questions).mean()), 4),
            "mrr": round(float(np.mean(reciprocal)), 4),
            "medianMs": round(self.milliseconds, 2),
        }


@dataclass(frozen=True)
class EmbedderComparison:
    """What the comparison found."""

    questions: Sequence[Question]
    old: Mapping[Mode, Answers]
    new: Mapping[Mode, Answers]
    verdict: Verdict
    differences: Mapping[str, float]
    tolerances: Mapping[str, float]
    answered: Mapping[str, Any] | None = (
        None  # of what people have searched for, the share for which something fits
    )

    @property
    def is_good_enough(self) -> bool:
        """Whether the new chunks may take over without asking."""
        return self.verdict in ("better", "as_good")

    def report(self) -> dict[str, Any]:
        """The figures, as the API shows them."""
        sources = [question.source for question in self.questions]
        report: dict[str, Any] = {
            "verdict": self.verdict,
            "questions": len(self.questions),
            "items": len({question.item for question in self.questions}),
            "sources": {source: sources.count(source) for source in sorted(set(sources))},
        }
        if self.answered is not None:
            report["asked"] = dict(self.answered)
        if self.questions:
            report |= {
                "old": {mode: answers.figures(self.questions) for mode, answers in self.old.items()},
                "new": {mode: answers.figures(self.questions) for mode, answers in self.new.items()},
                "overlap": {
                    mode: round(_overlap(self.old[mode], answers), 4)
                    for mode, answers in self.new.items()
                    if mode in self.old
                },
                "difference": dict(self.differences),
                "tolerance": dict(self.tolerances),
            }
        return report


async def compare(
    db: Database, base: Base, old: Embedder | None, chunk_set: ChunkSet, new: Embedder
) -> EmbedderComparison:
    """Compare the live chunks of a base with another set. Without the old embedder, the old answers are those by words."""
    searcher = Searcher(db, cache_bytes=_CACHE_BYTES)
    async with db.connection() as tx:
        sampled = await sample_chunks(tx, base.chunk_set, _SAMPLED_CHUNKS)
        texts = [row.question for row in await list_questions(tx, base.id, MAX_ASKED)]
    questions = make_questions(sampled, await find_known_answers(searcher, base, texts))
    if len(questions) < MIN_QUESTIONS or len({question.item for question in questions}) < MIN_ITEMS:
        return EmbedderComparison(questions, {}, {}, "too_few_questions", {}, {})
    other = replace(
        base,
        chunk_set=chunk_set.id,
        embedder=chunk_set.embedder,
        embedder_identity=chunk_set.embedder_identity,
        dimensions=chunk_set.dimensions,
        chunking=chunk_set.chunking,
    )
    modes: tuple[Mode, ...] = ("vector", "hybrid")
    new_answers: dict[Mode, Answers] = {
        mode: await _answers(searcher, Target(other, new), mode, questions) for mode in modes
    }
    if old is None:
        old_answers: dict[Mode, Answers] = {
            "hybrid": await _answers(searcher, Target(base, None), "text", questions)
        }
    else:
        old_answers = {mode: await _answers(searcher, Target(base, old), mode, questions) for mode in modes}
    comparison = judge(questions, old_answers, new_answers)
    if not texts:
        return comparison
    answered = {
        "questions": len(texts),
        "old": await measure_fitting_share(searcher, Target(base, old), texts),
        "new": await measure_fitting_share(searcher, Target(other, new), texts),
    }
    return replace(comparison, answered=answered)


async def find_known_answers(searcher: Searcher, base: Base, texts: Sequence[str]) -> list[Question]:
    """The questions of people for which words alone find an item that fits."""
    known: list[Question] = []
    for text in texts:
        hits = await searcher.search(
            [Target(base, None)], SearchRequest(text, limit=1, mode="text", rerank=False)
        )
        known += [Question(text, hit.item_id, "asked") for hit in hits if hit.fits]
    return known


async def measure_fitting_share(searcher: Searcher, target: Target, texts: Sequence[str]) -> float:
    """The share of texts for which something fits."""
    mode: Mode = "hybrid" if target.embedder is not None else "text"
    fits = [
        (await searcher.answer([target], SearchRequest(text, mode=mode, rerank=False))).fits for text in texts
    ]
    return round(sum(fits) / len(fits), 4)


async def _answers(searcher: Searcher, target: Target, mode: Mode, questions: Sequence[Question]) -> Answers:
    answers: list[list[UUID]] = []
    times: list[float] = []
    for question in questions:
        started = time.perf_counter()
        hits = await searcher.search(
            [target], SearchRequest(question.text, limit=_HITS, mode=mode, rerank=False)
        )
        times.append(1000 * (time.perf_counter() - started))
        answers.append(list(dict.fromkeys(hit.item_id for hit in hits))[:DEPTH])
    return Answers(answers, median(times))


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────


def make_questions(chunks: Sequence[SampledChunk], of_people: Sequence[Question] = ()) -> list[Question]:
    """Questions of which each has one right item; a text that comes from two items is none. Those that people asked come first."""
    candidates = [*of_people, *(question for chunk in chunks for question in _questions_of(chunk))]
    items: dict[str, set[UUID]] = {}
    for question in candidates:
        items.setdefault(question.text.casefold(), set()).add(question.item)
    unique = {
        question.text.casefold(): question
        for question in candidates
        if len(items[question.text.casefold()]) == 1
    }
    # Sentences are made of the very words of a chunk: titles and headings, which say more, come before.
    order = {"asked": 0, "sentence": 2}
    ordered = sorted(unique.values(), key=lambda question: order.get(question.source, 1))
    return ordered[:MAX_QUESTIONS]


def _questions_of(chunk: SampledChunk) -> list[Question]:
    title = "" if _FILE_NAME.search(chunk.title) else chunk.title
    texts = {
        "title": _query(title),
        "heading": _query(chunk.headings[-1] if chunk.headings else ""),
        "sentence": _sentence(chunk.text),
    }
    return [Question(text, chunk.item_id, source) for source, text in texts.items() if text]


def _query(text: str) -> str:
    """The words of a text without the syntax of queries; empty if they are too few."""
    if _CJK.search(text):
        letters = "".join(_WORD.findall(text))[:_MAX_CJK]
        return letters if len(letters) >= _MIN_CJK else ""
    words = [word for word in _WORD.findall(text) if not word.isdigit()][:_MAX_WORDS]
    return " ".join(words) if len(words) >= _MIN_WORDS else ""


def _sentence(text: str) -> str:
    """The sentence in the middle of a text of those that are long enough, without its first and last word."""
    sentences = [query for sentence in _SENTENCE.findall(text) if (query := _query(sentence))]
    if not sentences:
        return ""
    query = sentences[len(sentences) // 2]
    words = query.split(" ")
    return " ".join(words[1:-1]) if len(words) > _MIN_WORDS + 3 else query


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────


def judge(
    questions: Sequence[Question], old: Mapping[Mode, Answers], new: Mapping[Mode, Answers]
) -> EmbedderComparison:
    """Decide whether the new answers are good enough."""
    differences: dict[str, float] = {}
    tolerances: dict[str, float] = {}
    for mode, answers in old.items():
        paired = new[mode].ndcg(questions) - answers.ndcg(questions)
        error = float(_bootstrap_means(paired).std())
        differences[mode] = round(float(paired.mean()), 4)
        tolerances[mode] = round(min(MAX_TOLERANCE, max(MIN_TOLERANCE, _ONE_SIDED_95 * error)), 4)
    above_chance = new["vector"].ndcg(questions) - _chance(questions, new["vector"])
    verdict: Verdict
    if np.percentile(_bootstrap_means(above_chance), 2.5) <= 0:
        verdict = "no_better_than_chance"
    elif any(differences[mode] < -tolerances[mode] for mode in differences):
        verdict = "worse"
    elif any(differences[mode] > tolerances[mode] for mode in differences):
        verdict = "better"
    else:
        verdict = "as_good"
    return EmbedderComparison(questions, old, new, verdict, differences, tolerances)


def _chance(questions: Sequence[Question], answers: Answers) -> Floats:
    """The nDCG@10 of items of other questions, for each answer."""
    gains: list[float] = []
    for position, (items, question) in enumerate(zip(answers.items, questions, strict=True)):
        following = [*questions[position + 1 :], *questions[:position]]
        others = list(dict.fromkeys(other.item for other in following if other.item != question.item))
        step = max(1, len(others) // _OTHER_QUESTIONS)
        chosen = others[::step][:_OTHER_QUESTIONS]
        gains.append(float(np.mean([_gain(items, other) for other in chosen])) if chosen else 0.0)
    return np.array(gains)


def _bootstrap_means(values: Floats) -> Floats:
    """The means of samples of the values with replacement; the same for the same values."""
    random = np.random.default_rng(0)
    picks = random.integers(0, len(values), (_RESAMPLES, len(values)))
    return values[picks].mean(axis=1)


def _overlap(old: Answers, new: Answers) -> float:
    """The mean share of items that both answers have."""
    shares = [
        len(set(before) & set(after)) / max(len(before), len(after), 1)
        for before, after in zip(old.items, new.items, strict=True)
    ]
    return float(np.mean(shares))


def _rank(items: Sequence[UUID], item: UUID) -> int | None:
    return items.index(item) + 1 if item in items else None


def _gain(items: Sequence[UUID], item: UUID) -> float:
    rank = _rank(items, item)
    return 0.0 if rank is None else 1 / math.log2(rank + 1)
