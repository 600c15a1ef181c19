"""`/api/estimates`: what filling a base that does not exist yet would embed and cost; and the estimates of dry runs."""

import asyncio
from collections.abc import Sequence

from gristmill.catalog import Base, BaseId
from gristmill.embedding import Embedder
from gristmill.operations import add, guards
from gristmill.operations.bases import check_chunk_size
from gristmill.operations.estimates import base_to_create
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext
from gristmill.server.api.entries import entries_of
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.items import EstimateOut
from gristmill.server.api.schemas.new_items import NewBaseItems

router = ApiRouter("/api", tag="items")


@router.post("/estimates")
async def estimate_new_base(
    body: NewBaseItems, context: CurrentContext, caller: CurrentCaller
) -> EstimateOut:
    """Say what adding items to a new base would embed and cost. Nothing is created or stored."""
    async with context.db.connection() as tx:
        if body.embedder is None:
            embedder = await context.embedders.find_default(tx, caller.org)
        else:
            embedder = await context.embedders.find(tx, body.embedder, caller.org)
    chunking = body.chunking.model_dump(by_alias=True, exclude_none=True)
    check_chunk_size(chunking, embedder)
    access = context.disk_access(caller)
    entries = await asyncio.to_thread(entries_of, body.items, context.sources, access)
    return await _estimate(context, base_to_create(embedder, chunking, caller.org), embedder, entries)


async def estimate_add(
    context: ApiContext, base_id: BaseId, entries: Sequence[add.ItemToAdd | add.InvalidEntry]
) -> EstimateOut:
    """Say what adding items to a base would embed and cost."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        embedder = await context.embedders.find(tx, base.embedder, base.org_id)
    return await _estimate(context, base, embedder, entries)


async def _estimate(
    context: ApiContext,
    base: Base,
    embedder: Embedder,
    entries: Sequence[add.ItemToAdd | add.InvalidEntry],
) -> EstimateOut:
    valid = [entry for entry in entries if isinstance(entry, add.ItemToAdd)]
    estimate = await context.estimator.estimate_add(base, embedder, valid)
    rejected = [
        add.RejectedItem(index, entry.path, entry.error)
        for index, entry in enumerate(entries)
        if isinstance(entry, add.InvalidEntry)
    ]
    return EstimateOut.of(estimate, rejected)
