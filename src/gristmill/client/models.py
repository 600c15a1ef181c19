"""What the client returns: JSON of the API as typed dictionaries. The API documents further fields."""

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from gristmill.errors import GristmillError

Json = dict[str, Any]
Mode = Literal["hybrid", "vector", "text"]
Progress = Callable[[int, int], None]  # bytes sent, bytes in total

ENDED = ("completed", "failed")
CONTAINERS = ("directory", "sitemap", "site", "connector")


class Refused(GristmillError):
    """The server rejected a request, with its code and message. `status` is 0 when the server could not be reached."""

    code = "refused"

    def __init__(self, message: str, *, code: str | None = None, status: int = 0) -> None:
        super().__init__(message, code=code)
        self.status = status


class Problem(TypedDict):
    """Why something failed."""

    code: str
    message: str


class Item(TypedDict):
    """An item."""

    id: str
    baseId: str
    parentId: str | None
    type: str
    title: str
    status: str
    error: Problem | None
    progress: int
    chunkCount: int


class Added(TypedDict):
    """The entries that were accepted, those that existed already, and those that were rejected."""

    created: list[Item]
    skipped: list[Json]
    failed: list[Json]
    correlationId: str


class Base(TypedDict):
    """A knowledge base."""

    id: str
    name: str
    status: str
    itemCounts: dict[str, int]


class HitBox(TypedDict):
    """A rectangle on a page, in shares of its width and height, from its upper left to its lower right, and the characters of the
    content that it shows."""

    page: int
    start: int
    end: int
    x0: float
    y0: float
    x1: float
    y1: float


class Hit(TypedDict):
    """A chunk that matches a query."""

    chunkId: str
    itemId: str
    baseId: str
    title: str
    text: str
    score: float
    fits: bool
    source: Json
    boxes: list[HitBox]


class Correction(TypedDict):
    """A word of the query that no visible text has, and the similar word that was searched for instead."""

    word: str
    replacement: str


class SkippedBase(TypedDict):
    """A base that was searched by words only (`leg` is `vector`) or not at all (`both`), and why."""

    baseId: str
    baseName: str
    leg: str
    error: Json
    message: str


class Answer(TypedDict):
    """Hits, best first. `fits` is false if none of them reaches the threshold, `bestScore` is the highest score seen. `relaxed`
    has the quoted phrases that nothing contains: their words were searched for instead. `skipped` has what could not be
    searched."""

    hits: list[Hit]
    fits: bool
    bestScore: float | None
    relaxed: list[str]
    corrected: list[Correction]
    skipped: list[SkippedBase]
    tookMs: float
