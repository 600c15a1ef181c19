"""What a search engine must be able to do, so that `engine_search.py` can search bases in it.

    Engine           prepares the index of a space, and reports its health
    EngineIndex      puts, relabels, removes and searches the points of bases: chunks without their texts

An engine never decides what is live. PostgreSQL is the truth: an engine returns chunk numbers and raw scores, and the caller
checks every one of them against the tables. So an engine may hold points of versions that are not live, or no longer, and a
label that is out of date can hide a hit but never show one.

Every operation can be repeated: it has the same result a second time. An operation that can't reach the engine raises
`IndexUnavailable`, and may or may not have had its effect.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gristmill.catalog import BaseId, ItemId
from gristmill.errors import Transient
from gristmill.search.bm25 import DocumentStatistics
from gristmill.search.query_syntax import Names, Term

SCAN_PAGE = 5_000  # the most points that one call of `scan` returns
MAX_LIMIT = 10_000  # the most points that one call of `ask` returns


class IndexUnavailable(Transient):
    """The search engine can't be reached, or can't answer now."""

    code = "index_unavailable"


@dataclass(frozen=True)
class Space:
    """Vectors that can be compared: those of one embedder."""

    embedder: str
    dimension: int

    @property
    def key(self) -> str:
        """A short name, the same for the same embedder."""
        return hashlib.blake2b(f"{self.embedder}\n{self.dimension}".encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Labels:
    """What a point can be filtered by and what can change while the chunk stays as it is. `principals` is the access list
    that applies to the item; None if the base's list does, which the index does not know."""

    principals: tuple[str, ...] | None = None
    ancestors: tuple[ItemId, ...] = ()
    type: str = "file"
    metadata: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The same for equal labels."""
        principals = None if self.principals is None else sorted(self.principals)
        values = [principals, sorted(map(str, self.ancestors)), self.type, sorted(self.metadata)]
        return hashlib.blake2b(json.dumps(values).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, eq=False)
class Point:
    """A chunk as an index has it: no text. `length` is the number of its lexemes, repetitions included."""

    no: int
    base: BaseId
    item: ItemId
    version: int
    vector: NDArray[np.float32]
    lexemes: Mapping[str, int]
    length: int
    labels: Labels = field(default_factory=Labels)


@dataclass(frozen=True)
class PointFilter:
    """The points that a search may return. `principals` None is an admin's; `sees_base_list` says whether the base's own
    access list admits the caller. A point passes `metadata` if it has all the tokens. `items` None is all."""

    principals: tuple[str, ...] | None = None
    sees_base_list: bool = True
    types: tuple[str, ...] = ()
    under: tuple[ItemId, ...] = ()
    metadata: frozenset[str] = frozenset()
    items: tuple[ItemId, ...] | None = None


EVERY_POINT = PointFilter()


@dataclass(frozen=True)
class Statistics:
    """What BM25 needs: the number of chunks, their mean length, and the number of chunks that have each term; the same for
    documents."""

    chunks: int
    mean_length: float
    by_term: tuple[int, ...]
    documents: DocumentStatistics


@dataclass(frozen=True)
class ItemCounts:
    """How often a document has each term, and its length."""

    counts: tuple[float, ...]
    length: float


@dataclass(frozen=True)
class KeywordLeg:
    """A search by words: terms to score by, with the statistics to score them with; words of which hits must have one each,
    and terms that none may have."""

    terms: tuple[Term, ...]
    statistics: Statistics
    required: tuple[Names, ...] = ()
    excluded: tuple[Term, ...] = ()


@dataclass(frozen=True, eq=False)
class VectorLeg:
    """A search by nearness to a vector. The score is the cosine similarity."""

    vector: NDArray[np.float32]


Leg = KeywordLeg | VectorLeg


@dataclass(frozen=True)
class Found:
    """A chunk that matches, and its raw score."""

    no: int
    score: float


@dataclass(frozen=True)
class Health:
    """`degraded`: everything answers, but a copy is missing; `down`: some searches or writes fail."""

    status: Literal["ok", "degraded", "down"]
    detail: str


class EngineIndex(Protocol):
    """The points of one space."""

    async def put(self, points: Sequence[Point], *, replace: bool = False) -> None:
        """Add points; returns when searches find them. A point that is there stays as it is; with `replace`, it is
        overwritten, unless it changes at the same moment: then the call fails and can be repeated."""
        ...

    async def relabel(self, base: BaseId, items: Sequence[ItemId], labels: Labels) -> None:
        """Give all points of these items these labels; returns when searches use them."""
        ...

    async def remove(self, base: BaseId, nos: Sequence[int]) -> None:
        """Remove points by their numbers; returns when no search finds them."""
        ...

    async def drop(self, base: BaseId) -> int:
        """Remove all points of a base; returns when no search finds them, with their number."""
        ...

    async def ask(
        self, base: BaseId, legs: Sequence[Leg], scope: PointFilter, limit: int
    ) -> list[list[Found]]:
        """The best points of each leg, best first; at most `limit`, and that at most `MAX_LIMIT`."""
        ...

    async def statistics(self, base: BaseId, terms: Sequence[Term], scope: PointFilter) -> Statistics:
        """What BM25 needs of the points that a filter passes."""
        ...

    async def item_counts(
        self, base: BaseId, terms: Sequence[Term], items: Sequence[ItemId]
    ) -> dict[ItemId, ItemCounts]:
        """How often all points of each item together have each term, and the sum of their lengths."""
        ...

    async def similar_words(self, base: BaseId, words: Sequence[str]) -> dict[str, list[str]]:
        """For each word the lexemes that it may be a typing mistake of; lexemes of other bases can be among them."""
        ...

    async def count_above(self, base: BaseId, leg: KeywordLeg, score: float) -> int:
        """How many points have a higher score than this one."""
        ...

    async def scan(self, base: BaseId, after: int) -> list[tuple[int, ItemId, int]]:
        """Number, item and version of the points with a higher number than `after`, in order; empty at the end."""
        ...


class Engine(Protocol):
    """A search engine: a cluster of other processes."""

    async def prepare(self, space: Space) -> EngineIndex:
        """The index of a space; creates it where there is none, and refuses one with other settings."""
        ...

    async def drop(self, base: BaseId) -> None:
        """Remove all points of a base that is gone, whatever its space was."""
        ...

    async def health(self) -> Health:
        """Whether the engine can answer; never raises."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def metadata_tokens(metadata: Mapping[str, Any]) -> frozenset[str]:
    """A token for each value in metadata, with its path. If one document contains another, it has all the other's tokens;
    so tokens can filter a search, and the caller checks the rest."""
    return frozenset(_tokens((), metadata))


def _tokens(path: tuple[str, ...], value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, part in value.items():  # pyright: ignore[reportUnknownVariableType]
                yield from _tokens((*path, f".{key}"), part)
        case list() | tuple():
            for part in value:  # pyright: ignore[reportUnknownVariableType]
                yield from _tokens((*path, "[]"), part)
        case _:
            if isinstance(value, int | float) and not isinstance(value, bool):
                value = float(value)  # 1 and 1.0 are the same number
            text = json.dumps([*path, value], ensure_ascii=False, default=str)
            yield hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
