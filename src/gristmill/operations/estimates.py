"""Estimates: what an add, a re-index or another embedder would embed and cost, before it starts.

The routes ask for them; `ingest/estimate.py` makes them, because that takes the readers and the chunker.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gristmill.catalog import Base, ItemId
from gristmill.embedding import Embedder
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
