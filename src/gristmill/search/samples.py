"""What the chunks of a set are like: a sample of them, and their languages."""

from dataclasses import dataclass
from uuid import UUID

from gristmill.db import Tx
from gristmill.search.store import queries


@dataclass(frozen=True)
class SampledChunk:
    """A live chunk, with the title of its item and the headings above it."""

    item_id: UUID
    title: str
    headings: list[str]
    text: str


async def sample_chunks(tx: Tx, set_id: UUID, size: int) -> list[SampledChunk]:
    """Live chunks of a set, evenly from the first to the last; the same ones as long as the set does not change."""
    return await queries.many(tx, SampledChunk, "sample_chunks", set=set_id, size=size)


@dataclass(frozen=True)
class _LanguageCount:
    language: str
    chunks: int


async def count_languages(tx: Tx, set_id: UUID) -> dict[str, int]:
    """How many chunks of a set in the embedded index are in each language."""
    rows = await queries.many(tx, _LanguageCount, "count_languages", set=set_id)
    return {row.language: row.chunks for row in rows}
