"""Runs a search: search every base by keyword and by vector (`base_searcher.py`), fuse, load, rerank, return hits.

Nothing is written. Items can be published, deleted or hidden between two steps; the step that loads the hits checks
again, and returns only chunks that are live and visible at that moment.
"""

import asyncio
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from gristmill.db import Database
from gristmill.embedding import Embedder
from gristmill.search import collapse, fuse, relevance, rerank, store
from gristmill.search.base_searcher import BaseSearcher, RecordQuery
from gristmill.search.chunk_marks import find_pinned
from gristmill.search.corrections import corrections_in_hits
from gristmill.search.explain import KeywordExplanation
from gristmill.search.highlight import highlight_ranges
from gristmill.search.hit_scores import (
    BEST_BY_WORDS,
    BaseResults,
    LoadedHit,
    fitting_score,
    gather_evidence,
    lowest_score,
    rank_by_evidence,
    with_coverage,
    with_pinned_first,
)
from gristmill.search.index.embedded import EmbeddedSearch
from gristmill.search.index.engine_indexes import NO_ENGINE, EngineIndexes
from gristmill.search.index.engine_search import EngineSearch
from gristmill.search.model import Hit, HitContext, HitExplanation, SearchAnswer, SearchRequest, Target
from gristmill.search.passage_boxes import add_boxes
from gristmill.search.query_syntax import required_phrases, without_syntax
from gristmill.search.rerank import Reranker
from gristmill.search.store import ChunkRow

_MAX_PARALLEL_BASES = 4  # so that a search over many bases leaves database connections for others


class Searcher:
    """Searches bases, wherever they are indexed."""

    def __init__(
        self,
        db: Database,
        *,
        cache_bytes: int,
        reranker: Reranker | None = None,
        indexes: EngineIndexes = NO_ENGINE,
        record_query: RecordQuery | None = None,
    ) -> None:
        self._db, self._reranker = db, reranker
        self._bases = BaseSearcher(
            db,
            {"embedded": EmbeddedSearch(db, cache_bytes), "opensearch": EngineSearch(db, indexes)},
            record_query,
        )

    async def search(self, targets: Sequence[Target], request: SearchRequest) -> list[Hit]:
        """The best hits of all targets, best first."""
        return (await self.answer(targets, request)).hits

    async def answer(self, targets: Sequence[Target], request: SearchRequest) -> SearchAnswer:
        """The best hits of all targets, best first, what was changed about the query to find them, and what was skipped."""
        results, relaxed = await self._search_bases(targets, request), list[str]()
        if request.mode != "vector" and not _has_text_hits(results) and required_phrases(request.query):
            # Nothing contains the phrases: their words are better than an empty answer.
            relaxed_request = replace(request, is_relaxed=True)
            relaxed_results = await self._search_bases(targets, relaxed_request)
            if _has_text_hits(relaxed_results):
                relaxed = required_phrases(request.query)
                request, results = relaxed_request, relaxed_results
        fused = fuse.fuse([result.legs for result in results])
        loaded = await self._load_hits(targets, request, fused)
        loaded = await self._rerank(request, loaded)
        hits = with_pinned_first(await self._to_hits(targets, request, results, loaded))
        best_score = max((hit.score for hit in hits), default=None)
        hits = [hit for hit in hits[: request.limit] if hit.score >= lowest_score(targets, request, hit)]
        if request.boxes:
            hits = await add_boxes(self._db, request.viewer, hits)
        corrected = corrections_in_hits([result.keyword.corrections for result in results], hits)
        skipped = [result.skipped for result in results if result.skipped is not None]
        return SearchAnswer(hits, best_score, relaxed, corrected, skipped)

    async def _search_bases(self, targets: Sequence[Target], request: SearchRequest) -> list[BaseResults]:
        slots = asyncio.Semaphore(_MAX_PARALLEL_BASES)

        async def search_target(target: Target) -> BaseResults:
            async with slots:
                return await self.search_base(target, request)

        results = await asyncio.gather(*(search_target(target) for target in targets))
        unsearched = [
            result.skipped
            for result in results
            if result.skipped is not None and result.skipped.leg == "both"
        ]
        if unsearched and len(unsearched) == len(results):
            raise unsearched[0].error
        return results

    async def search_base(self, target: Target, request: SearchRequest) -> BaseResults:
        """Search one base by keyword and by vector."""
        return await self._bases.search(target, request)

    async def query_vector(self, embedder: Embedder, query: str) -> store.Vector:
        """The query's vector, from a cache if the query was embedded recently."""
        return await self._bases.query_vector(embedder, query)

    async def _load_hits(
        self, targets: Sequence[Target], request: SearchRequest, fused: Sequence[fuse.FusedHit]
    ) -> list[LoadedHit]:
        """The first hits that are still live and visible, with their rows: as many as the steps after this one need."""
        depth = max(request.limit, relevance.LEADING_HITS)
        if request.collapse:
            depth = 3 * depth
        if request.rerank and self._reranker is not None:
            depth = max(depth, rerank.RERANKED_HITS)
        loaded: list[LoadedHit] = []
        offset = 0
        # Some may have been deleted or hidden since: the hits after them move up.
        while len(loaded) < depth and offset < len(fused):
            batch = fused[offset : offset + depth]
            rows = await self._load_rows(targets, request, batch)
            loaded += [LoadedHit(hit, rows[hit.no]) for hit in batch if hit.no in rows]
            offset += len(batch)
        loaded = loaded[:depth]
        loaded += await self._load_best_by_words(targets, request, fused, loaded)
        return loaded + await self._load_pinned(targets, request, fused, loaded)

    async def _load_best_by_words(
        self,
        targets: Sequence[Target],
        request: SearchRequest,
        fused: Sequence[fuse.FusedHit],
        loaded: Sequence[LoadedHit],
    ) -> list[LoadedHit]:
        """The best hits by words, if they rank below the loaded ones."""
        known = {hit.fused.no for hit in loaded}
        by_words = [hit for hit in fused if hit.text_score is not None]
        best = heapq.nlargest(BEST_BY_WORDS, by_words, key=lambda hit: hit.text_score or 0.0)
        batch = [hit for hit in best if hit.no not in known]
        if not batch or request.mode != "hybrid":
            return []
        rows = await self._load_rows(targets, request, batch)
        return [LoadedHit(hit, rows[hit.no], is_best_by_words=True) for hit in batch if hit.no in rows]

    async def _load_pinned(
        self,
        targets: Sequence[Target],
        request: SearchRequest,
        fused: Sequence[fuse.FusedHit],
        loaded: Sequence[LoadedHit],
    ) -> list[LoadedHit]:
        """Pinned candidates that rank below the loaded ones."""
        known = {hit.fused.no for hit in loaded}
        left = [hit for hit in fused if hit.no not in known]
        pinned: set[int] = set()
        async with store.read_transaction(self._db) as tx:
            for index, target in enumerate(targets):
                if nos := [hit.no for hit in left if hit.target_index == index]:
                    pinned |= await find_pinned(tx, target.base.chunk_set, nos)
        if not pinned:
            return []
        batch = [hit for hit in left if hit.no in pinned]
        rows = await self._load_rows(targets, request, batch)
        return [LoadedHit(hit, rows[hit.no]) for hit in batch if hit.no in rows]

    async def _load_rows(
        self, targets: Sequence[Target], request: SearchRequest, batch: Sequence[fuse.FusedHit]
    ) -> dict[int, ChunkRow]:
        rows: dict[int, ChunkRow] = {}
        async with store.read_transaction(self._db) as tx:
            for index, target in enumerate(targets):
                if nos := [hit.no for hit in batch if hit.target_index == index]:
                    rows |= await store.visible_chunks(tx, target.base, request.scope, nos)
        return rows

    async def _rerank(self, request: SearchRequest, loaded: list[LoadedHit]) -> list[LoadedHit]:
        if self._reranker is None or not request.rerank or not loaded:
            return loaded
        first, rest = loaded[: rerank.RERANKED_HITS], loaded[rerank.RERANKED_HITS :]
        texts = [f"{hit.row.title}\n{hit.row.text}" for hit in first]
        scores = await self._reranker.scores(without_syntax(request.query), texts)
        if scores is None:
            return loaded
        scored = [replace(hit, rerank_score=score) for hit, score in zip(first, scores, strict=True)]
        return sorted(scored, key=lambda hit: -(hit.rerank_score or 0.0)) + rest

    async def _to_hits(
        self,
        targets: Sequence[Target],
        request: SearchRequest,
        results: Sequence[BaseResults],
        loaded: Sequence[LoadedHit],
    ) -> list[Hit]:
        groups = (
            await asyncio.to_thread(collapse.duplicate_groups, [hit.row.text for hit in loaded])
            if request.collapse
            else [[position] for position in range(len(loaded))]
        )
        groups = _first_groups(request, loaded, groups)
        candidates = [loaded[group[0]] for group in groups]
        evidence = await asyncio.to_thread(gather_evidence, request, results, candidates)
        order, scores = rank_by_evidence(request, candidates, evidence)
        groups, evidence = [groups[place] for place in order], [evidence[place] for place in order]
        chosen = [loaded[group[0]] for group in groups]
        neighbours = await self._load_neighbours(targets, request, chosen)
        explanations = await self._explain(request, results, chosen)
        # In a thread: a hundred long hits take tens of milliseconds, for which other requests would wait.
        highlights = await asyncio.to_thread(_highlights, results, chosen)
        return [
            _hit(
                hit,
                ranges,
                [loaded[position].row.id for position in group[1:]],
                _context(hit.row, neighbours, request.context),
                with_coverage(explanations.get(hit.fused.no), known),
                score,
                score >= fitting_score(targets[hit.fused.target_index], request),
            )
            for hit, group, ranges, known, score in zip(
                chosen, groups, highlights, evidence, scores, strict=True
            )
        ]

    async def _explain(
        self,
        request: SearchRequest,
        results: Sequence[BaseResults],
        chosen: Sequence[LoadedHit],
    ) -> dict[int, HitExplanation]:
        """The explanations of hits, by the number of their chunk."""
        explanations: dict[int, HitExplanation] = {}
        if not request.explain:
            return explanations
        for index, result in enumerate(results):
            hits = {hit.fused.no: hit for hit in chosen if hit.fused.target_index == index}
            if hits:
                explained = await result.keyword.explain(request.viewer, list(hits))
                explanations |= {no: _explanation(hit, result, explained.get(no)) for no, hit in hits.items()}
        return explanations

    async def _load_neighbours(
        self, targets: Sequence[Target], request: SearchRequest, chosen: Sequence[LoadedHit]
    ) -> dict[tuple[UUID, int], str]:
        neighbours: dict[tuple[UUID, int], str] = {}
        if request.context:
            async with store.read_transaction(self._db) as tx:
                for index, target in enumerate(targets):
                    rows = [hit.row for hit in chosen if hit.fused.target_index == index]
                    neighbours |= await store.neighbour_texts(
                        tx, target.base.chunk_set, rows, request.context
                    )
        return neighbours


def _first_groups(
    request: SearchRequest, loaded: Sequence[LoadedHit], groups: Sequence[list[int]]
) -> list[list[int]]:
    """As many as are asked for, and what may rank higher than its place says."""
    width = max(request.limit, relevance.LEADING_HITS)
    further = [(group, loaded[group[0]]) for group in groups[width:]]
    return [
        *groups[:width],
        *(group for group, hit in further if hit.row.mark == "pinned" or hit.is_best_by_words),
    ]


def _has_text_hits(results: Sequence[BaseResults]) -> bool:
    return any(result.keyword.candidates for result in results)


def _context(row: ChunkRow, neighbours: Mapping[tuple[UUID, int], str], width: int) -> HitContext | None:
    if not width:
        return None

    def texts(indexes: range) -> list[str]:
        return [neighbours[row.item_id, index] for index in indexes if (row.item_id, index) in neighbours]

    return HitContext(
        texts(range(row.index - width, row.index)), texts(range(row.index + 1, row.index + width + 1))
    )


def _highlights(results: Sequence[BaseResults], chosen: Sequence[LoadedHit]) -> list[list[tuple[int, int]]]:
    return [
        highlight_ranges(hit.row.text, results[hit.fused.target_index].keyword.parsed_query) for hit in chosen
    ]


def _hit(
    loaded: LoadedHit,
    highlights: list[tuple[int, int]],
    duplicates: list[UUID],
    context: HitContext | None,
    explanation: HitExplanation | None,
    score: float,
    fits: bool,
) -> Hit:
    row, fused = loaded.row, loaded.fused
    return Hit(
        chunk_id=row.id,
        item_id=row.item_id,
        base_id=row.base_id,
        version=row.version,
        title=row.title,
        type=row.type,
        text=row.text,
        start=row.start,
        end=row.end,
        page=row.page,
        headings=row.headings,
        source=row.source,
        metadata=row.metadata,
        score=round(score, 4),
        fits=fits,
        vector_rank=fused.vector_rank,
        text_rank=fused.text_rank,
        highlights=highlights,
        context=context,
        explanation=explanation,
        duplicates=duplicates,
        is_pinned=row.mark == "pinned",
    )


def _explanation(
    loaded: LoadedHit, results: BaseResults, keyword: KeywordExplanation | None
) -> HitExplanation:
    return HitExplanation(
        vector_weight=results.legs.weights.get(loaded.fused.no, results.legs.vector_weight),
        similarity=loaded.fused.vector_score,
        text_score=None if loaded.fused.text_score is None or keyword is None else keyword.score,
        terms=[] if keyword is None else keyword.terms,
        rerank_score=loaded.rerank_score,
        coverage=None,
        has_every_word=None,
    )
