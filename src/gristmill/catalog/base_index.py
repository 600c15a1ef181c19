"""Where bases are indexed: which index of a base answers, and which one is being filled to take over."""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.catalog.base import BaseId, ChunkSetId, IndexKind
from gristmill.catalog.store import queries
from gristmill.db import Tx


async def fill_index(tx: Tx, base_id: BaseId, fill: IndexKind | None) -> None:
    """Note that another index of a base is being filled; None when that ends."""
    await queries.run(tx, "fill_index", id=base_id, fill=fill)


async def switch_index(tx: Tx, base_id: BaseId) -> None:
    """Let the index that was filled take over."""
    await queries.run(tx, "switch_index", id=base_id)


@dataclass(frozen=True)
class IndexState:
    """Which index and which chunks of a base answer, and which index is being filled. `is_switching`: other chunks are about to
    take over, and until then nothing is published."""

    id: BaseId
    index_kind: IndexKind
    index_fill: IndexKind | None
    chunk_set: ChunkSetId
    is_switching: bool

    @property
    def indexes(self) -> set[str | None]:
        """Where everything that is written must go."""
        return {self.index_kind, self.index_fill} - {None}


async def index_states(tx: Tx, bases: Sequence[BaseId]) -> dict[BaseId, IndexState]:
    """The indexes of bases."""
    rows = await queries.many(tx, IndexState, "index_states", ids=list(set(bases)))
    return {row.id: row for row in rows}
