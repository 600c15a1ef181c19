"""The embedded index: searches the segments and vectors of this database, in the memory of this process.

It reads words, vectors and visibility in one snapshot of the database, so it implements the port of an index, and not the
protocol of an engine, which proposes chunks and leaves the rest to PostgreSQL.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gristmill.catalog import Base, Viewer
from gristmill.db import Database, Tx
from gristmill.search import explain, keyword_search, store, vector_search
from gristmill.search.coverage import TermCounts
from gristmill.search.explain import KeywordExplanation
from gristmill.search.fuse import Candidate
from gristmill.search.keyword_search import KeywordResults
from gristmill.search.query_syntax import ParsedQuery
from gristmill.search.scope import Scope
from gristmill.search.segment_cache import SegmentCache
from gristmill.search.selectivity import Selectivity
from gristmill.search.store import Vector


@dataclass(frozen=True, eq=False)
class EmbeddedKeywordAnswer:
    """The result of a search by words in the embedded index."""

    db: Database
    base: Base
    results: KeywordResults

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The best visible chunks, best first."""
        return self.results.candidates

    @property
    def parsed_query(self) -> ParsedQuery:
        """The query, parsed for the languages of the base."""
        return self.results.parsed_query

    @property
    def term_counts(self) -> TermCounts | None:
        """How many chunks have each term; None if the query was only parsed."""
        return self.results.term_counts

    @property
    def corrections(self) -> Mapping[str, Sequence[str]]:
        """Words that no visible chunk has, and the lexemes that were searched for instead."""
        return self.results.corrections

    async def explain(self, viewer: Viewer, nos: Sequence[int]) -> dict[int, KeywordExplanation]:
        """The scores of chunks that the viewer can see, by number, with numbers that reveal nothing else."""
        return await explain.explain_chunks(self.db, self.base.id, viewer, self.results, nos)

    async def best_chunk(self, nos: Sequence[int]) -> tuple[int | None, float]:
        """The best of these chunks, whether they are candidates or not, and its score."""
        scores = self.results.scores_of(nos)
        if not scores:
            return None, 0.0
        best = max(scores, key=lambda no: (scores[no], -no))
        return best, scores[best]

    async def rank_of(self, score: float) -> int:
        """The rank of a score among all chunks, including hidden ones."""
        return self.results.rank_of(score)


class EmbeddedSearch:
    """Searches bases in the embedded index."""

    def __init__(self, db: Database, cache_bytes: int) -> None:
        self._db, self._cache = db, SegmentCache(cache_bytes)

    async def by_vector(
        self, base: Base, scope: Scope, selectivity: Selectivity, vector: Vector, limit: int
    ) -> list[Candidate]:
        """The nearest `limit` visible chunks, best first."""
        return await vector_search.search(self._db, self._cache, base, scope, selectivity, vector, limit)

    async def by_keyword(
        self, base: Base, scope: Scope, selectivity: Selectivity, query: str, limit: int
    ) -> EmbeddedKeywordAnswer:
        """The best `limit` visible chunks for a query, best first."""
        results = await keyword_search.search(
            self._db, self._cache, base, scope, selectivity, query, limit, base.synonyms
        )
        return EmbeddedKeywordAnswer(self._db, base, results)

    async def parse(self, base: Base, query: str) -> EmbeddedKeywordAnswer:
        """Only parse the query for the base's languages, without searching: highlights need it."""
        results = await keyword_search.parse_for_base(self._db, self._cache, base, query, base.synonyms)
        return EmbeddedKeywordAnswer(self._db, base, results)

    async def count_languages(self, tx: Tx, base: Base) -> Mapping[str, int]:
        """How many chunks are in each language."""
        counts: Counter[str] = Counter()
        for row in await store.list_segments(tx, base.chunk_set):
            counts.update(row.chunks_by_language)
        return counts
