"""The port of an index: how a base is searched, wherever its chunks are indexed.

    embedded index     the segments and vectors of this database, in the memory of this process    (embedded.py)
    search engine      a cluster proposes chunks, PostgreSQL decides which of them are hits        (engine_search.py)

Both return only chunks that are live and visible to the viewer at that moment, with the same scores for the same texts.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from gristmill.catalog import Base, Viewer
from gristmill.db import Tx
from gristmill.search.coverage import TermCounts
from gristmill.search.explain import KeywordExplanation
from gristmill.search.fuse import Candidate
from gristmill.search.query_syntax import ParsedQuery
from gristmill.search.scope import Scope
from gristmill.search.selectivity import Selectivity
from gristmill.search.store import Vector


class KeywordAnswer(Protocol):
    """The result of a search by words in one base."""

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The best visible chunks, best first."""
        ...

    @property
    def parsed_query(self) -> ParsedQuery:
        """The query, parsed for the languages of the base."""
        ...

    @property
    def term_counts(self) -> TermCounts | None:
        """How many chunks have each term; None if the query was only parsed."""
        ...

    @property
    def corrections(self) -> Mapping[str, Sequence[str]]:
        """Words that no visible chunk has, and the lexemes that were searched for instead."""
        ...

    async def explain(self, viewer: Viewer, nos: Sequence[int]) -> dict[int, KeywordExplanation]:
        """The scores of chunks that the viewer can see, by number, with numbers that reveal nothing else."""
        ...

    async def best_chunk(self, nos: Sequence[int]) -> tuple[int | None, float]:
        """The best of these chunks, whether they are candidates or not, and its score."""
        ...

    async def rank_of(self, score: float) -> int:
        """The rank of a score among all chunks, including hidden ones."""
        ...


class BaseSearch(Protocol):
    """Searches bases of one kind of index."""

    async def by_vector(
        self, base: Base, scope: Scope, selectivity: Selectivity, vector: Vector, limit: int
    ) -> list[Candidate]:
        """The nearest `limit` visible chunks, best first."""
        ...

    async def by_keyword(
        self, base: Base, scope: Scope, selectivity: Selectivity, query: str, limit: int
    ) -> KeywordAnswer:
        """The best `limit` visible chunks for a query, best first."""
        ...

    async def parse(self, base: Base, query: str) -> KeywordAnswer:
        """Only parse the query for the base's languages, without searching: highlights need it."""
        ...

    async def count_languages(self, tx: Tx, base: Base) -> Mapping[str, int]:
        """How many chunks are in each language, at least in proportion."""
        ...
