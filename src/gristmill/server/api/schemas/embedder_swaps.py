"""Changes of the embedder of a base."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, model_validator

from gristmill.catalog import ChunkSet, Swap, SwapGate, SwapState
from gristmill.server.api.schemas.bases import Chunking
from gristmill.server.api.schemas.common import ApiModel, ErrorBody, JsonObject, Name, RequestModel


class NewSwap(RequestModel):
    """Another embedder, another chunking, or both."""

    embedder: Name | None = None
    chunking: Chunking | None = None
    gate: Annotated[
        SwapGate,
        Field(
            description="Whether the new vectors take over if they compare well, when someone approves, or at once."
        ),
    ] = "auto"
    dry_run: bool = False

    @model_validator(mode="after")
    def _require_a_change(self) -> Self:
        if self.embedder is None and self.chunking is None:
            raise ValueError("name an `embedder`, a `chunking`, or both")
        return self


class SwapOut(ApiModel):
    """A change of the embedder of a base: how far it is, and how both compare."""

    id: UUID
    base_id: UUID
    state: SwapState
    gate: SwapGate
    embedder: str
    chunking: JsonObject | None
    previous_embedder: str
    is_revert: bool
    progress: float
    items: int
    missing_items: int
    embedded_texts: int
    reused_texts: int
    tokens: int
    report: JsonObject | None
    error: ErrorBody | None
    can_revert: bool
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, swap: Swap, chunk_set: ChunkSet | None, missing: int, *, can_revert: bool) -> Self:
        """Show `swap`; `missing` is the number of items that are not built yet."""
        total = max(swap.items, missing, 1)
        return cls(
            id=swap.id,
            base_id=swap.base_id,
            state=swap.state,
            gate=swap.gate,
            embedder=swap.embedder,
            chunking=None if chunk_set is None else chunk_set.chunking,
            previous_embedder=swap.previous_embedder,
            is_revert=swap.is_revert,
            progress=round(100 * (1 - missing / total), 1),
            items=swap.items,
            missing_items=missing,
            embedded_texts=swap.embedded,
            reused_texts=swap.reused,
            tokens=swap.tokens,
            report=swap.report,
            error=ErrorBody.from_columns(swap.error_code, swap.error_message),
            can_revert=swap.state == "switched" and can_revert,
            created_at=swap.created_at,
            updated_at=swap.updated_at,
        )
