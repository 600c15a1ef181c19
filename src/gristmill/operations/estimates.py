"""Estimates: what an add, a re-index or another embedder would embed and cost, before it starts.

The routes ask for them; `ingest/estimate.py` makes them, because that takes the readers and the chunker.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

from gristmill.catalog import Base, BaseId, BaseStatus, ChunkSetId, ItemId
from gristmill.embedding import Embedder
from gristmill.identity import OrgId
from gristmill.operations.add import ItemToAdd


@dataclass(frozen=True)
class CostEstimate:
    """What would be embedded. `texts` are the chunks whose vectors are not known yet; `cost` is None without a price. Of
    `documents`, `read_documents` were read for it; `is_exact` if those are all. `uncertainty` is the share by which `tokens` may be off, in 19 of 20 estimates. `notes` says what the rest
    rests on."""

    documents: int
    read_documents: int
    chunks: int
    texts: int
    tokens: int
    cost: float | None
    images: int
    is_exact: bool
    uncertainty: float
    notes: Sequence[str] = field(default_factory=tuple[str, ...])


def base_to_create(embedder: Embedder, chunking: dict[str, Any], org: OrgId) -> Base:
    """A base that does not exist yet, for an estimate of what filling it costs."""
    now, new_id = datetime.now(UTC), uuid4()
    return Base(
        BaseId(new_id),
        "",
        BaseStatus.READY,
        None,
        None,
        embedder.name,
        embedder.identity,
        embedder.dimensions,
        chunking,
        file_processor=None,
        on_restart="resume",
        acl=[],
        created_at=now,
        updated_at=now,
        ingested=False,
        busy_since=None,
        settings={},
        org_id=org,
        chunk_set=ChunkSetId(new_id),
    )


class CostEstimator(Protocol):
    """Makes estimates."""

    async def estimate_add(
        self, base: Base, embedder: Embedder, entries: Sequence[ItemToAdd]
    ) -> CostEstimate:
        """What adding these items would embed."""
        ...

    async def estimate_stored(
        self, base: Base, embedder: Embedder, chunking: dict[str, Any], roots: Sequence[ItemId] | None
    ) -> CostEstimate:
        """What embedding the stored contents below these roots, or of the whole base, would take."""
        ...

    def close(self) -> None:
        """Stop the threads."""
        ...
