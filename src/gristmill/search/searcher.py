"""Runs a search: embed the query, search every base by keyword and by vector, fuse, load, rerank, return hits.

Nothing is written. Items can be published, deleted or hidden between two steps; the step that loads the hits checks
again, and returns only chunks that are live and visible at that moment.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from gristmill.catalog import IndexKind
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder
from gristmill.search import collapse, fuse, relevance, rerank, store
from gristmill.search.chunk_marks import find_pinned
from gristmill.search.corrections import corrections_in_hits
from gristmill.search.explain import KeywordExplanation
from gristmill.search.highlight import highlight_ranges
from gristmill.search.hit_scores import (
    LOADED_TEXT_HITS,
    BaseResults,
    LoadedHit,
    fitting_score,
    gather_evidence,
    hit_score,
    lowest_score,
    script_of,
    weigh_languages,
    with_coverage,
    with_pinned_first,
)
from gristmill.search.index.embedded import EmbeddedSearch
from gristmill.search.index.engine_indexes import NO_ENGINE, EngineIndexes
from gristmill.search.index.engine_search import EngineSearch
from gristmill.search.index.port import BaseSearch, KeywordAnswer
from gristmill.search.languages import certain_language
from gristmill.search.leg_weights import (
    VECTOR_WEIGHT,
    language_among_others,
    limit_for_one_word,
    vector_weight,
)
from gristmill.search.model import Hit, HitContext, HitExplanation, SearchAnswer, SearchRequest, Target
from gristmill.search.passage_boxes import add_boxes
from gristmill.search.query_embedding import check_embedder, embed_query
from gristmill.search.query_syntax import required_phrases, without_syntax
from gristmill.search.rerank import Reranker
from gristmill.search.selectivity import measure_selectivity
from gristmill.search.similarity_scale import SimilarityScale, SimilarityScales
from gristmill.search.store import ChunkRow

CANDIDATES_PER_LEG = 100
_MAX_PARALLEL_BASES = 4  # so that a search over many bases leaves database connections for others
_MAX_CACHED_QUERY_VECTORS = 1000


class Searcher:
    """Searches bases, wherever they are indexed; caches the vectors of recent queries."""

    def __init__(
        self,
        db: Database,
        *,
        cache_bytes: int,
        reranker: Reranker | None = None,
        indexes: EngineIndexes = NO_ENGINE,
    ) -> None:
        self._db, self._reranker = db, reranker
        self._searches: dict[IndexKind, BaseSearch] = {
            "embedded": EmbeddedSearch(db, cache_bytes),
            "opensearch": EngineSearch(db, indexes),
        }
        self._scales = SimilarityScales()
        self._query_vectors: OrderedDict[tuple[str, str], store.Vector] = OrderedDict()

    async def search(self, targets: Sequence[Target], request: SearchRequest) -> list[Hit]:
        """The best hits of all targets, best first."""
        return (await self.answer(targets, request)).hits

    async def answer(self, targets: Sequence[Target], request: SearchRequest) -> SearchAnswer:
        """The best hits of all targets, best first, and what was changed about the query to find them."""
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
        return SearchAnswer(hits, best_score, relaxed, corrected)

    async def _search_bases(self, targets: Sequence[Target], request: SearchRequest) -> list[BaseResults]:
        slots = asyncio.Semaphore(_MAX_PARALLEL_BASES)

        async def search_target(target: Target) -> BaseResults:
            async with slots:
                return await self.search_base(target, request)

        return await asyncio.gather(*(search_target(target) for target in targets))

    async def search_base(self, target: Target, request: SearchRequest) -> BaseResults:
        """Search one base by keyword and by vector."""
        base, embedder, base_search = target.base, target.embedder, self._searches[target.base.index_kind]
        check_embedder(target)
        limit = max(CANDIDATES_PER_LEG, request.limit)
        async with store.read_transaction(self._db) as tx:
            selectivity = await measure_selectivity(tx, base.id, request.scope)
            weight, asked_in = await _vector_weight(tx, base_search, target, request)

        async def by_vector() -> list[fuse.Candidate]:
            assert embedder is not None
            vector = await self.query_vector(embedder, request.query)
            return await base_search.by_vector(base, request.scope, selectivity, vector, limit)

        async def by_keyword() -> KeywordAnswer:
            if weight == 1 and not request.explain:
                return await base_search.parse(base, request.keyword_query)
            return await base_search.by_keyword(
                base, request.scope, selectivity, request.keyword_query, limit
            )

        scale: SimilarityScale | None = None
        if weight == 0:
            keyword_results, candidates = await by_keyword(), []
            if embedder is not None and request.mode == "hybrid" and not keyword_results.candidates:
                # No word matches: the nearest texts are better than an empty answer, and their scores say how near they are.
                candidates, weight = await by_vector(), 1.0
        else:
            assert embedder is not None
            candidates, keyword_results, scale = await asyncio.gather(
                by_vector(),
                by_keyword(),
                self._scales.scale_for(embedder, script_of(request.query), certain_language(request.query)),
            )
        legs = fuse.LegResults(
            candidates, keyword_results.candidates if weight < 1 else (), weight, base.embedder_identity
        )
        if asked_in is not None and candidates:
            legs = replace(
                legs,
                weights=await self._weights_by_language(target, request, legs, keyword_results, asked_in),
            )
        return BaseResults(legs, keyword_results, scale)

    async def _weights_by_language(
        self,
        target: Target,
        request: SearchRequest,
        legs: fuse.LegResults,
        keyword: KeywordAnswer,
        asked_in: str,
    ) -> dict[int, float]:
        """The weights of vectors in a base of several languages, by chunk."""
        nos = {candidate.no for candidate in (*legs.vector, *legs.text[:LOADED_TEXT_HITS])}
        async with store.read_transaction(self._db) as tx:
            texts = await store.chunk_texts(tx, target.base.chunk_set, sorted(nos))
        return await asyncio.to_thread(weigh_languages, request, legs, keyword.term_counts, texts, asked_in)

    async def query_vector(self, embedder: Embedder, query: str) -> store.Vector:
        """The query's vector, from a cache if the query was embedded recently."""
        key = (embedder.identity, without_syntax(query))
        vector = self._query_vectors.get(key)
        if vector is None:
            vector = await embed_query(embedder, key[1])
            self._query_vectors[key] = vector
            while len(self._query_vectors) > _MAX_CACHED_QUERY_VECTORS:
                self._query_vectors.popitem(last=False)
        self._query_vectors.move_to_end(key)
        return vector

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
        return loaded[:depth] + await self._load_pinned(targets, request, fused, loaded[:depth])

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
        width = max(request.limit, relevance.LEADING_HITS)
        groups = groups[:width] + [group for group in groups[width:] if loaded[group[0]].row.mark == "pinned"]
        chosen = [loaded[group[0]] for group in groups]
        neighbours = await self._load_neighbours(targets, request, chosen)
        explanations = await self._explain(request, results, chosen)
        evidence = await asyncio.to_thread(gather_evidence, request, results, chosen)
        scores = relevance.descending(
            [hit_score(hit, known) for hit, known in zip(chosen, evidence, strict=True)]
        )
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


def _has_text_hits(results: Sequence[BaseResults]) -> bool:
    return any(result.keyword.candidates for result in results)


async def _vector_weight(
    tx: Tx, base_search: BaseSearch, target: Target, request: SearchRequest
) -> tuple[float, str | None]:
    """The weight of vectors, and the question's language in a base where that of a chunk matters too."""
    if request.mode == "text" or target.embedder is None:
        return 0.0, None
    if request.mode == "vector":
        return 1.0, None
    strengths = target.embedder.strengths
    if strengths is None:
        return limit_for_one_word(request.query, VECTOR_WEIGHT), None
    languages = await base_search.count_languages(tx, target.base)
    weight = vector_weight(request.query, languages, strengths)
    asked_in = language_among_others(request.query, languages, strengths)
    return limit_for_one_word(request.query, weight), asked_in


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
    )
