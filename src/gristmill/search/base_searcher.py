"""Searches one base by keyword and by vector, side by side, and decides what the vectors weigh.

What happens if a part can't be searched:

                                                    with `allow_partial`          else
    the query gets no vector, mode hybrid           the base answers by words     the error
    the query gets no vector, mode vector           the base has no hits          the error
    the search engine of the base does not answer   the base has no hits          the error

A query gets no vector if its embedder is down, at its limits, changed or removed, or refuses the text. The results say what
was skipped. An outage of the database is always an error: without it there is nothing to search.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gristmill.catalog import Base, IndexKind
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.embedding import Embedder
from gristmill.errors import GristmillError
from gristmill.search import fuse, store
from gristmill.search.hit_scores import LOADED_TEXT_HITS, BaseResults, script_of, weigh_languages
from gristmill.search.index.engine import IndexUnavailable
from gristmill.search.index.port import BaseSearch, KeywordAnswer
from gristmill.search.languages import certain_language
from gristmill.search.leg_weights import (
    VECTOR_WEIGHT,
    language_among_others,
    limit_for_one_word,
    vector_weight,
)
from gristmill.search.model import SearchRequest, SkippedSearch, Target
from gristmill.search.query_embedding import embed_query, find_embedder_error
from gristmill.search.query_syntax import without_syntax
from gristmill.search.selectivity import Selectivity, measure_selectivity
from gristmill.search.similarity_scale import SimilarityScale, SimilarityScales

RecordQuery = Callable[[Base, Embedder, str], None]  # called for each query that was embedded for a base

CANDIDATES_PER_LEG = 100
_MAX_CACHED_QUERY_VECTORS = 1000


@dataclass(frozen=True)
class _VectorResults:
    candidates: Sequence[fuse.Candidate] = ()
    error: GristmillError | None = None  # why the query has no vector


@dataclass(frozen=True)
class _LegSearches:
    """The two searches of one base, for one request."""

    owner: "BaseSearcher"
    search: BaseSearch
    target: Target
    request: SearchRequest
    selectivity: Selectivity

    @property
    def _limit(self) -> int:
        return max(CANDIDATES_PER_LEG, self.request.limit)

    async def by_vector(self, embedder: Embedder) -> _VectorResults:
        try:
            vector = await self.owner.query_vector(embedder, self.request.query, self.target.base)
        except DatabaseUnavailable:
            raise
        except GristmillError as error:
            if not self.request.allow_partial:
                raise
            return _VectorResults(error=error)
        candidates = await self.search.by_vector(
            self.target.base, self.request.scope, self.selectivity, vector, self._limit
        )
        return _VectorResults(candidates)

    async def by_keyword(self) -> KeywordAnswer:
        base, request = self.target.base, self.request
        return await self.search.by_keyword(
            base, request.scope, self.selectivity, request.keyword_query, self._limit
        )

    async def parse(self) -> KeywordAnswer:
        return await self.search.parse(self.target.base, self.request.keyword_query)


class BaseSearcher:
    """Searches one base at a time, wherever it is indexed; caches the vectors of recent queries."""

    def __init__(
        self,
        db: Database,
        searches: Mapping[IndexKind, BaseSearch],
        record_query: RecordQuery | None = None,
    ) -> None:
        self._db, self._searches, self._record_query = db, searches, record_query
        self._scales = SimilarityScales()
        self._query_vectors: OrderedDict[tuple[str, str], store.Vector] = OrderedDict()

    async def search(self, target: Target, request: SearchRequest) -> BaseResults:
        """Search a base by keyword and by vector."""
        error = find_embedder_error(target) if request.mode != "text" else None
        if error is not None and not request.allow_partial:
            raise error
        try:
            if error is None:
                return await self._search_legs(target, request)
            if request.mode == "vector":
                return await self._no_results(target, request, error)
            results = await self._search_legs(replace(target, embedder=None), request)
            return replace(results, skipped=_skip_report(target, "vector", error))
        except IndexUnavailable as engine_error:
            if not request.allow_partial:
                raise
            return await self._no_results(target, request, engine_error)

    async def query_vector(self, embedder: Embedder, query: str, base: Base | None = None) -> store.Vector:
        """The query's vector, from a cache if the query was embedded recently. What it costs is counted for `base`."""
        key = (embedder.identity, without_syntax(query))
        vector = self._query_vectors.get(key)
        if vector is None:
            vector = await embed_query(embedder, key[1])
            if base is not None and self._record_query is not None:
                self._record_query(base, embedder, key[1])
            self._query_vectors[key] = vector
            while len(self._query_vectors) > _MAX_CACHED_QUERY_VECTORS:
                self._query_vectors.popitem(last=False)
        self._query_vectors.move_to_end(key)
        return vector

    async def _search_legs(self, target: Target, request: SearchRequest) -> BaseResults:
        base, embedder, base_search = target.base, target.embedder, self._searches[target.base.index_kind]
        async with store.read_transaction(self._db) as tx:
            selectivity = await measure_selectivity(tx, base.id, request.scope)
            weight, asked_in = await _vector_weight(tx, base_search, target, request)
        legs = _LegSearches(self, base_search, target, request, selectivity)
        by_vector, scale = _VectorResults(), None
        if weight == 0:
            by_keyword = await legs.by_keyword()
            if embedder is not None and request.mode == "hybrid" and not by_keyword.candidates:
                # No word matches: the nearest texts are better than an empty answer, and their scores say how near they are.
                by_vector = await legs.by_vector(embedder)
                weight = 1.0 if by_vector.error is None else 0.0
        else:
            assert embedder is not None
            needs_keywords = weight < 1 or request.explain
            by_vector, by_keyword = await asyncio.gather(
                legs.by_vector(embedder), legs.by_keyword() if needs_keywords else legs.parse()
            )
            if by_vector.error is None:
                scale = await self._scale(embedder, request)
            elif request.mode == "vector":
                return await self._no_results(target, request, by_vector.error)
            else:
                by_keyword = by_keyword if needs_keywords else await legs.by_keyword()
                weight = 0.0
        results = fuse.LegResults(
            by_vector.candidates, by_keyword.candidates if weight < 1 else (), weight, base.embedder_identity
        )
        if asked_in is not None and by_vector.candidates:
            weights = await self._weights_by_language(target, request, results, by_keyword, asked_in)
            results = replace(results, weights=weights)
        skipped = None if by_vector.error is None else _skip_report(target, "vector", by_vector.error)
        return BaseResults(results, by_keyword, scale, skipped)

    async def _scale(self, embedder: Embedder, request: SearchRequest) -> SimilarityScale | None:
        return await self._scales.scale_for(
            embedder, script_of(request.query), certain_language(request.query)
        )

    async def _no_results(self, target: Target, request: SearchRequest, error: GristmillError) -> BaseResults:
        """The results of a base that can't be searched."""
        parsed = await self._searches[target.base.index_kind].parse(target.base, request.keyword_query)
        return BaseResults(fuse.LegResults((), ()), parsed, skipped=_skip_report(target, "both", error))

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


def _skip_report(target: Target, leg: Literal["vector", "both"], error: GristmillError) -> SkippedSearch:
    return SkippedSearch(target.base.id, target.base.name, leg, error)


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
