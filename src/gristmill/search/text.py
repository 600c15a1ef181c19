"""The text leg: BM25 over the words of a base, for these eyes.

    ask       segments and postings, in one snapshot: what was published a moment ago is among them
    score     every chunk that holds a word, in a thread
    check     the best ones against the table, batch by batch, until enough of them answer

A batch that is mostly hidden from the caller is followed by a larger one; where few items can answer, only their chunks
are scored. So nobody gets fewer hits than there are.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np

from gristmill.db import Database, Tx
from gristmill.search import bm25, store
from gristmill.search.fuse import Found
from gristmill.search.question import Question, Term, parse
from gristmill.search.reach import Reach
from gristmill.search.scope import Scope
from gristmill.search.segment import Mask
from gristmill.search.shelf import Open, Shelf

MOST_EXPANSIONS = 64  # lexemes that one prefix stands for
_FIRST_BATCH = 200
_GROWTH = 4
_PHRASES_AT_ONCE = 200


@dataclass(frozen=True)
class TermAt:
    """What one term adds to a chunk's score."""

    term: str
    count: int
    chunks: int
    score: float


@dataclass(frozen=True)
class TextLeg:
    """What the leg found, and what it knows of every other chunk."""

    found: list[Found]
    question: Question
    opened: Open = field(repr=False)
    terms: Sequence[tuple[Term, bm25.Counted]] = field(default=(), repr=False)
    scores: bm25.Scores = field(default_factory=lambda: np.zeros(0, np.float32), repr=False)

    def scores_of(self, nos: Sequence[int]) -> dict[int, float]:
        """The scores of chunks, found or not."""
        places = self.opened.places(nos)
        return {no: float(self.scores[place]) for no, place in places.items()}

    def rank_of(self, score: float) -> int:
        """Where a score would stand among all chunks, hidden ones included."""
        return int(np.count_nonzero(self.scores > score)) + 1

    def explain(self, no: int) -> list[TermAt]:
        """What each term adds to a chunk's score."""
        place = self.opened.places([no]).get(no)
        if place is None:
            return []
        told: list[TermAt] = []
        for term, counted in self.terms:
            at = np.flatnonzero(counted.found.places == place)
            alone = bm25.score([counted], self.opened.lengths)[place]
            name = term.names[0] + ("*" if term.prefix else "")
            told.append(
                TermAt(name, int(counted.found.counts[at].sum()), counted.chunks, round(float(alone), 4))
            )
        return told


async def search(
    db: Database, shelf: Shelf, base_id: UUID, scope: Scope, reach: Reach, text: str, wanted: int
) -> TextLeg:
    """The best `wanted` chunks for a question, best first."""
    async with store.reading(db) as tx:
        opened = _lexed(await shelf.open(tx, base_id))
        question = parse(text, opened.languages)
        asked = [*question.terms, *question.excluded]
        names = {term: _names(opened, term) for term in asked}
        lexemes = sorted({name for known in names.values() for name in known})
        found = await shelf.find(tx, base_id, lexemes, opened) if lexemes else {}
    counted = {
        term: bm25.gather(
            term.weight, [part for name in names[term] for part in found.get(name, ())], len(opened.nos)
        )
        for term in asked
    }
    terms = [(term, counted[term]) for term in question.terms]
    scores = await asyncio.to_thread(bm25.score, [count for _, count in terms], opened.lengths)
    allowed = await asyncio.to_thread(_allowed, question, counted, opened, reach)
    ranked = scores if allowed is None else np.where(allowed, scores, np.float32(0))
    leg = TextLeg([], question, opened, terms, scores)
    async with store.reading(db) as tx:
        leg.found.extend(await _check(tx, base_id, scope, leg, ranked, wanted))
    return leg


async def read(db: Database, shelf: Shelf, base_id: UUID, text: str) -> TextLeg:
    """The question alone, as this base's languages take it: nothing is looked for."""
    async with store.reading(db) as tx:
        opened = await shelf.open(tx, base_id)
    return TextLeg([], parse(text, opened.languages), opened)


def _names(opened: Open, term: Term) -> list[str]:
    return opened.beginning_with(term.names[0], MOST_EXPANSIONS) if term.prefix else list(term.names)


def _lexed(opened: Open) -> Open:
    """Without segments that have no words yet."""
    if all(row.recipe > 0 for row in opened.rows):
        return opened
    kept = [place for place, row in enumerate(opened.rows) if row.recipe > 0]
    return Open([opened.rows[place] for place in kept], [opened.parts[place] for place in kept])


def _allowed(
    question: Question, counted: dict[Term, bm25.Counted], opened: Open, reach: Reach
) -> Mask | None:
    masks: list[Mask] = [] if reach.keys is None else [opened.of_items(reach.keys)]
    total = len(opened.nos)
    for phrase in question.phrases:
        for names in phrase.words:
            for term, count in counted.items():
                if not term.prefix and set(term.names) == set(names):
                    masks.append(bm25.held(count, total))
    masks += [~bm25.held(counted[term], total) for term in question.excluded]
    return np.logical_and.reduce(masks) if masks else None


async def _check(
    tx: Tx, base_id: UUID, scope: Scope, leg: TextLeg, ranked: bm25.Scores, wanted: int
) -> list[Found]:
    phrases = bool(leg.question.phrases or leg.question.excluded_phrases)
    found: list[Found] = []
    done, batch = 0, _PHRASES_AT_ONCE if phrases else _FIRST_BATCH
    while len(found) < wanted:
        order = await asyncio.to_thread(bm25.best, ranked, done + batch)
        part = order[done:]
        if not len(part):
            break
        counts, sums = leg.opened.of_each_item(leg.opened.items[part], ranked)
        scores = bm25.with_siblings(ranked[part], counts, sums)
        numbers = [int(no) for no in leg.opened.nos[part]]
        answers = await store.answering(tx, base_id, scope, numbers)
        if phrases:
            answers = await _with_phrases(tx, base_id, leg.question, answers)
        found += [
            Found(answers[no], no, float(score))
            for no, score in zip(numbers, scores, strict=True)
            if no in answers
        ]
        done, batch = len(order), batch * _GROWTH
    return sorted(found, key=lambda hit: (-hit.score, hit.no))[:wanted]


async def _with_phrases(
    tx: Tx, base_id: UUID, question: Question, answers: dict[int, UUID]
) -> dict[int, UUID]:
    """Those whose text, or title or headings, has every phrase that it must, and none that it must not."""
    words = await store.texts(tx, base_id, list(answers))

    def check() -> set[int]:
        kept: set[int] = set()
        for chunk in words:
            fields = (chunk.text, chunk.title, *chunk.headings)
            if all(any(p.stands_in(f) for f in fields) for p in question.phrases) and not any(
                p.stands_in(f) for p in question.excluded_phrases for f in fields
            ):
                kept.add(chunk.no)
        return kept

    kept = await asyncio.to_thread(check)
    return {no: chunk_id for no, chunk_id in answers.items() if no in kept}
