"""Searches a base that is in a search engine. The engine proposes chunks; PostgreSQL decides which of them are hits.

    begin     note the live items that the engine may not know, before it is asked
    ask       chunk numbers and scores, filtered in the engine: by item where few are in scope, else by labels
    gate      one statement: live version, status, access and filters, as of this moment; similarities are computed exactly
    again     with four times as many, while the gate leaves too few and the engine has more
    merge     live items that the engine had not learnt about at the beginning, or whose labels it had not, and those published since,
              are searched by SQL

So a permission that was taken away, or an item that was deleted, is gone from the next search, whatever the engine says; and
what was published, or allowed, a moment ago is found.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast

import numpy as np

from gristmill.catalog import Base, BaseId, ItemId, Viewer
from gristmill.db import Database, Tx
from gristmill.search import bm25, keyword_search, store
from gristmill.search.conditions import DOCUMENT
from gristmill.search.coverage import TermCounts
from gristmill.search.explain import KeywordExplanation, TermContribution
from gristmill.search.fuse import Candidate
from gristmill.search.index import tasks
from gristmill.search.index.engine import (
    EVERY_POINT,
    MAX_LIMIT,
    EngineIndex,
    Found,
    ItemCounts,
    KeywordLeg,
    PointFilter,
    VectorLeg,
    metadata_tokens,
)
from gristmill.search.index.engine_corrections import find_corrections
from gristmill.search.index.engine_indexes import EngineIndexes
from gristmill.search.index.tasks import GatedChunk, SearchStart
from gristmill.search.index.text_scores import TextScores, score_texts
from gristmill.search.language_detection import detect_language
from gristmill.search.languages import name_language
from gristmill.search.mistyped_words import correct_terms, corrections_by_word
from gristmill.search.query_syntax import Names, ParsedQuery, parse
from gristmill.search.scope import Scope
from gristmill.search.selectivity import UNRESTRICTED, Selectivity, measure_selectivity
from gristmill.search.store import Vector

_FIRST_LIMIT = 200
_GROWTH = 4
MAX_EXACT_ITEMS = 200  # live items with open tasks that are searched by SQL
_MAX_EXACT_CHUNKS = 2_000
_LANGUAGE_SAMPLE = 100  # chunks
_LANGUAGES_VALID = timedelta(minutes=1)
_MAX_LANGUAGES = 10_000  # bases whose languages are remembered


@dataclass(frozen=True)
class _Languages:
    counts: Mapping[str, int]
    expires: float


@dataclass(frozen=True, eq=False)
class EngineKeywordAnswer:
    """The result of a search by words; without a leg, if there was nothing to search for."""

    search: "EngineSearch" = field(repr=False)
    base: Base
    parsed_query: ParsedQuery
    leg: KeywordLeg | None = None
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    corrections: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    @property
    def term_counts(self) -> TermCounts | None:
        """How many chunks have each term; None if the query was only parsed."""
        if self.leg is None:
            return None
        statistics = self.leg.statistics
        return TermCounts(statistics.chunks, dict(zip(self.leg.terms, statistics.by_term, strict=True)))

    async def explain(self, viewer: Viewer, nos: Sequence[int]) -> dict[int, KeywordExplanation]:
        """The scores of chunks that the viewer can see, by number, with numbers that reveal nothing else."""
        return {} if self.leg is None else await self.search.explain(self, self.leg, viewer, nos)

    async def best_chunk(self, nos: Sequence[int]) -> tuple[int | None, float]:
        """The best of these chunks, whether they are candidates or not, and its score."""
        return (None, 0.0) if self.leg is None else await self.search.best_chunk(self.base, self.leg, nos)

    async def rank_of(self, score: float) -> int:
        """The rank of a score among all chunks, including hidden ones."""
        return 1 if self.leg is None else await self.search.rank_of(self.base, self.leg, score)


class EngineSearch:
    """Searches bases in the engine."""

    def __init__(self, db: Database, indexes: EngineIndexes) -> None:
        self._db, self._indexes = db, indexes
        self._languages: dict[BaseId, _Languages] = {}

    async def count_languages(self, tx: Tx, base: Base) -> Mapping[str, int]:
        """How many chunks of a sample are in each language; counted again after a while."""
        known = self._languages.get(base.id)
        if known is None or known.expires < time.monotonic():
            texts = await tasks.sample_texts(tx, base.chunk_set, _LANGUAGE_SAMPLE)
            counts = Counter(name_language(text, detect_language(text)) for text in texts)
            known = _Languages(counts, time.monotonic() + _LANGUAGES_VALID.total_seconds())
            if len(self._languages) >= _MAX_LANGUAGES:
                self._languages.clear()
            self._languages[base.id] = known
        return known.counts

    # ── vectors ──────────────────────────────────────────────────────────────────────────────────────────

    async def by_vector(
        self, base: Base, scope: Scope, selectivity: Selectivity, vector: Vector, limit: int
    ) -> list[Candidate]:
        """The nearest `limit` chunks, best first."""
        if selectivity.items is not None and not selectivity.items:
            return []
        index = await self._indexes.of(base)
        point_filter = _point_filter(base, scope, selectivity)
        start = await self._begin(base)
        candidates: dict[int, Candidate] = {}
        wanted, known = max(limit, _FIRST_LIMIT), set[int]()
        while True:
            [hits] = await index.ask(base.id, [VectorLeg(vector)], point_filter, wanted)
            async with store.read_transaction(self._db) as tx:
                new = [hit.no for hit in hits if hit.no not in known]
                rows, _ = await store.similarities(tx, base, scope, vector, new, limit)
            candidates |= {row.no: Candidate(row.id, row.no, row.score) for row in rows}
            known |= {*new}
            if len(candidates) >= limit or len(hits) < wanted or wanted >= MAX_LIMIT:
                break
            wanted = min(MAX_LIMIT, _GROWTH * wanted)
        async with store.read_transaction(self._db) as tx:
            items = await tasks.items_to_search(tx, base.id, start, MAX_EXACT_ITEMS)
            rows = await store.nearest_chunks_of_items(tx, base, scope, vector, items, limit) if items else []
        candidates |= {row.no: Candidate(row.id, row.no, row.score) for row in rows}
        return sorted(candidates.values(), key=lambda hit: (-hit.score, hit.no))[:limit]

    async def _begin(self, base: Base) -> SearchStart:
        async with store.read_transaction(self._db) as tx:
            return await tasks.begin_search(tx, base.id, MAX_EXACT_ITEMS)

    # ── words ────────────────────────────────────────────────────────────────────────────────────────────

    async def parse(self, base: Base, query: str) -> EngineKeywordAnswer:
        """Only parse the query for the base's languages, without searching: highlights need it."""
        async with store.read_transaction(self._db) as tx:
            return EngineKeywordAnswer(
                self, base, parse(query, await tasks.languages(tx, base.id), base.synonyms)
            )

    async def by_keyword(
        self, base: Base, scope: Scope, selectivity: Selectivity, query: str, limit: int
    ) -> EngineKeywordAnswer:
        """The best `limit` chunks for a query, best first."""
        index = await self._indexes.of(base)
        answer = await self.parse(base, query)
        parsed = answer.parsed_query
        if not parsed.terms or (selectivity.items is not None and not selectivity.items):
            return answer
        start = await self._begin(base)
        leg = await _leg(index, base, parsed, EVERY_POINT)
        if corrections := await self._find_corrections(index, base, scope, selectivity, parsed, leg, start):
            by_word = corrections_by_word(parsed, corrections)
            parsed = correct_terms(parsed, corrections)
            answer = replace(answer, parsed_query=parsed, corrections=by_word)
            leg = await _leg(index, base, parsed, EVERY_POINT)
        point_filter = _point_filter(base, scope, selectivity)
        scores: dict[int, float] = {}
        gated: dict[int, GatedChunk] = {}
        wanted = max(limit, _FIRST_LIMIT)
        while True:
            [hits] = await index.ask(base.id, [leg], point_filter, wanted)
            gated |= await self._gate(base, scope, parsed, [hit for hit in hits if hit.no not in scores])
            scores |= {hit.no: hit.score for hit in hits}
            if len(gated) >= limit or len(hits) < wanted or wanted >= MAX_LIMIT:
                break
            wanted = min(MAX_LIMIT, _GROWTH * wanted)
        best = sorted(gated.values(), key=lambda chunk: (-scores[chunk.no], chunk.no))[
            : max(limit, _FIRST_LIMIT)
        ]
        items = list(dict.fromkeys(chunk.item_id for chunk in best))
        of_documents = _document_scores(leg, await index.item_counts(base.id, leg.terms, items))
        candidates = {
            chunk.no: Candidate(
                chunk.id, chunk.no, _with_document(scores[chunk.no], of_documents.get(chunk.item_id))
            )
            for chunk in best
        }
        for candidate in await self._exact_candidates(base, scope, parsed, leg, gated, start):
            candidates.setdefault(candidate.no, candidate)
        ranked = sorted(candidates.values(), key=lambda hit: (-hit.score, hit.no))[:limit]
        return replace(answer, leg=leg, candidates=ranked)

    async def _find_corrections(
        self,
        index: EngineIndex,
        base: Base,
        scope: Scope,
        selectivity: Selectivity,
        parsed: ParsedQuery,
        leg: KeywordLeg,
        start: SearchStart,
    ) -> dict[Names, list[str]]:
        """None while the engine may not know a live item: the word may be one of its."""
        viewer = Scope(scope.viewer)
        visible = _point_filter(base, viewer, selectivity if scope == viewer else UNRESTRICTED)
        corrections = await find_corrections(index, base.id, parsed, leg, visible)
        if corrections:
            async with store.read_transaction(self._db) as tx:
                if await tasks.items_to_search(tx, base.id, start, 1):
                    return {}
        return corrections

    async def _gate(
        self, base: Base, scope: Scope, parsed: ParsedQuery, hits: Sequence[Found]
    ) -> dict[int, GatedChunk]:
        """The visible ones of these chunks that have the query's phrases."""
        async with store.read_transaction(self._db) as tx:
            gated = await tasks.gate(tx, base, scope, [hit.no for hit in hits])
            if parsed.phrases or parsed.excluded_phrases:
                ids = {no: chunk.id for no, chunk in gated.items()}
                matching = await keyword_search.matching_phrases(tx, base.chunk_set, parsed, ids)
                gated = {no: chunk for no, chunk in gated.items() if no in matching}
        return gated

    async def _exact_candidates(
        self,
        base: Base,
        scope: Scope,
        parsed: ParsedQuery,
        leg: KeywordLeg,
        gated: dict[int, GatedChunk],
        start: SearchStart,
    ) -> list[Candidate]:
        """Chunks of live items that the engine may not have found, scored by their texts; they are added to `gated`."""
        async with store.read_transaction(self._db) as tx:
            items = await tasks.items_to_search(tx, base.id, start, MAX_EXACT_ITEMS)
            if not items:
                return []
            texts = await tasks.chunks_of_items(tx, base, scope, items, _MAX_EXACT_CHUNKS)
        if not texts:
            return []
        scored = await asyncio.to_thread(score_texts, texts, leg)
        totals = {no: scored.total(position) for position, no in enumerate(scored.nos)}
        matching = await self._gate(
            base, scope, parsed, [Found(no, total) for no, total in totals.items() if total > 0]
        )
        gated |= matching
        of_documents = _document_scores(leg, scored.item_counts(texts))
        return [
            Candidate(chunk.id, no, _with_document(totals[no], of_documents.get(chunk.item_id)))
            for no, chunk in matching.items()
        ]

    # ── explanations ─────────────────────────────────────────────────────────────────────────────────────

    async def explain(
        self, answer: EngineKeywordAnswer, leg: KeywordLeg, viewer: Viewer, nos: Sequence[int]
    ) -> dict[int, KeywordExplanation]:
        """Explain the keyword scores of these chunks, by number, to a viewer who can see them: as if the base had nothing
        but what the viewer can see. Empty while the engine has not learnt of a change of access: its counts could reveal
        what was taken away."""
        base, scope = answer.base, Scope(viewer)
        index = await self._indexes.of(base)
        async with store.read_transaction(self._db) as tx:
            selectivity = await measure_selectivity(tx, base.id, scope)
            counts_by_labels = viewer.principals is not None and selectivity.items is None
            if counts_by_labels and await tasks.items_with_tasks(tx, base.id, 1):
                return {}
            texts = await store.chunk_texts(tx, base.chunk_set, nos)
            gated = await tasks.gate(tx, base, scope, nos)
        if viewer.principals is not None:
            leg = await _leg(index, base, answer.parsed_query, _point_filter(base, scope, selectivity))
        scored = await asyncio.to_thread(score_texts, texts, leg)
        items = list({chunk.item_id for chunk in gated.values()})
        of_documents = _document_scores(leg, await index.item_counts(base.id, leg.terms, items))
        return {
            no: _explanation(scored, position, leg, of_documents.get(gated[no].item_id))
            for position, no in enumerate(scored.nos)
            if no in gated
        }

    async def best_chunk(self, base: Base, leg: KeywordLeg, nos: Sequence[int]) -> tuple[int | None, float]:
        """The best of these chunks by words, and its score."""
        async with store.read_transaction(self._db) as tx:
            texts = await store.chunk_texts(tx, base.chunk_set, nos)
        scored = await asyncio.to_thread(score_texts, texts, leg)
        totals = {no: scored.total(position) for position, no in enumerate(scored.nos)}
        best = max(totals, key=lambda no: (totals[no], -no), default=None)
        return best, 0.0 if best is None else totals[best]

    async def rank_of(self, base: Base, leg: KeywordLeg, score: float) -> int:
        """The rank of a score among all chunks of the base, hidden ones included."""
        return 1 + await (await self._indexes.of(base)).count_above(base.id, leg, score)


async def _leg(index: EngineIndex, base: Base, parsed: ParsedQuery, counted: PointFilter) -> KeywordLeg:
    """The search by words for a query, with the statistics of the points that a filter passes."""
    term_names = {frozenset(term.names) for term in parsed.terms if not term.prefix}
    required: list[Names] = [
        names for phrase in parsed.phrases for names in phrase.words if frozenset(names) in term_names
    ]
    statistics = await index.statistics(base.id, parsed.terms, counted)
    return KeywordLeg(parsed.terms, statistics, tuple(required), parsed.excluded)


def _point_filter(base: Base, scope: Scope, selectivity: Selectivity) -> PointFilter:
    """What the engine filters by. Where few items are in scope they are named, so that labels don't matter."""
    if selectivity.items is not None:
        return PointFilter(items=tuple(cast(Sequence[ItemId], selectivity.items)))
    if scope.is_everything:
        return EVERY_POINT
    principals, filters = scope.viewer.principals, scope.filters
    return PointFilter(
        None if principals is None else tuple(principals),
        scope.viewer.sees(base.acl),
        filters.types,
        tuple(cast(Sequence[ItemId], filters.under)),
        metadata_tokens({key: value for key, value in filters.metadata.items() if key != DOCUMENT}),
    )


def _document_scores(leg: KeywordLeg, counts: Mapping[ItemId, ItemCounts]) -> dict[ItemId, float]:
    if not counts:
        return {}
    statistics = leg.statistics.documents
    # A term that only documents have which the engine has not learnt of: as if it had counted one of them.
    statistics = replace(
        statistics,
        documents=max(statistics.documents, 1),
        by_term=[max(documents, 1) for documents in statistics.by_term],
    )
    scores = bm25.document_scores(
        [term.weight for term in leg.terms],
        np.array([of_item.counts for of_item in counts.values()], np.float64).T,
        np.array([of_item.length for of_item in counts.values()], np.float64),
        statistics,
    )
    return dict(zip(counts, scores.tolist(), strict=True))


def _with_document(score: float, of_document: float | None) -> float:
    """A chunk's score with that of its document, if the engine has it."""
    weight = bm25.DOCUMENT_WEIGHT
    return (1 - weight) * score + weight * (score if of_document is None else of_document)


def _explanation(
    scored: TextScores,
    position: int,
    leg: KeywordLeg,
    of_document: float | None,
) -> KeywordExplanation:
    contributions = [
        TermContribution(
            term.names[0] + ("*" if term.prefix else ""), counts[position], chunks, round(part[position], 4)
        )
        for term, chunks, counts, part in zip(
            leg.terms, leg.statistics.by_term, scored.counts, scored.parts, strict=True
        )
    ]
    return KeywordExplanation(_with_document(scored.total(position), of_document), contributions)
