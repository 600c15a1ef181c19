"""`/api/knowledge-bases/{id}/embedder`: exchange the embedder or the chunking of a base while it answers, and go back."""

from fastapi import Response

from gristmill import catalog
from gristmill.catalog import Swap
from gristmill.errors import NotFound
from gristmill.operations import guards, swap_embedder
from gristmill.operations.bases import chunking_with
from gristmill.server.api.context import ApiContext, CurrentContext, PathBase
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.embedder_swaps import NewSwap, SwapOut
from gristmill.server.api.schemas.items import EstimateOut

router = ApiRouter("/api/knowledge-bases", tag="knowledge bases")


@router.post("/{base_id}/embedder", status_code=202, responses={200: {"model": EstimateOut}})
async def swap_base_embedder(
    base_id: PathBase, body: NewSwap, context: CurrentContext, response: Response
) -> SwapOut | EstimateOut:
    """Change the embedder or the chunking of a base. The old vectors answer until the new ones are complete. With `dryRun`, nothing
    begins, and the response says what would be embedded and what it costs."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        embedder = await context.embedders.find(tx, body.embedder or base.embedder, base.org_id)
    changes = body.chunking.changes() if body.chunking else {}
    if body.dry_run:
        response.status_code = 200
        chunking = chunking_with(base, changes)
        return EstimateOut.of(await context.estimator.estimate_stored(base, embedder, chunking, None))
    swap = await swap_embedder.swap(context.db, base_id, embedder, changes, body.gate)
    return await _show(context, swap)


@router.get("/{base_id}/embedder")
async def get_embedder_swap(
    base_id: PathBase, context: CurrentContext, required: bool = True
) -> SwapOut | None:
    """Show the latest change of the embedder of a base: how far it is, and how both compare. If it is not `required`, null says that
    there was none, instead of 404."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        try:
            swap = await swap_embedder.require_swap(tx, base.id)
        except NotFound:
            if required:
                raise
            return None
    return await _show(context, swap)


@router.post("/{base_id}/embedder/approve", status_code=202)
async def approve_embedder_swap(base_id: PathBase, context: CurrentContext) -> SwapOut:
    """Let the new embedder take over that waits for it, or that the comparison refused."""
    return await _show(context, await swap_embedder.approve(context.db, base_id))


@router.post("/{base_id}/embedder/cancel", status_code=202)
async def cancel_embedder_swap(base_id: PathBase, context: CurrentContext) -> SwapOut:
    """End the change of an embedder. The base stays as it is, and the new vectors are removed."""
    return await _show(context, await swap_embedder.cancel(context.db, base_id))


@router.post("/{base_id}/embedder/revert", status_code=202)
async def revert_embedder_swap(base_id: PathBase, context: CurrentContext) -> SwapOut:
    """Go back to the vectors before the last change. If nothing was published since, they answer when this returns."""
    return await _show(context, await swap_embedder.revert(context.db, base_id, context.embedders))


async def _show(context: ApiContext, swap: Swap) -> SwapOut:
    async with context.db.connection() as tx:
        sets = {chunk_set.id: chunk_set for chunk_set in await catalog.find_chunk_sets(tx, swap.base_id)}
        missing = await catalog.count_missing(tx, swap.set_id) if swap.is_open else 0
    previous = sets.get(swap.previous_set)
    return SwapOut.of(
        swap, sets.get(swap.set_id), missing, can_revert=previous is not None and previous.state == "kept"
    )
