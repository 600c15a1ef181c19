"""The bases that a request searches, with the embedders of their queries."""

from collections.abc import Sequence
from uuid import UUID

from gristmill import catalog, search
from gristmill.catalog import Base, BaseId, Viewer
from gristmill.db import Tx
from gristmill.operations import guards
from gristmill.server.api.context import ApiContext

MAX_BASES = 100


async def find_targets(
    context: ApiContext, viewer: Viewer, base_ids: Sequence[UUID] | None, mode: search.Mode = "hybrid"
) -> list[search.Target]:
    """The bases of these ids, or all that the viewer can see. One that it can't see does not exist for it."""
    async with context.db.connection() as tx:
        if base_ids is None:
            bases = await catalog.list_bases(tx, limit=MAX_BASES, viewer=viewer)
        else:
            bases = [
                await guards.require_base(tx, BaseId(base_id), viewer) for base_id in dict.fromkeys(base_ids)
            ]
        return [await base_target(tx, context, base, mode) for base in bases]


async def base_target(tx: Tx, context: ApiContext, base: Base, mode: search.Mode) -> search.Target:
    """A base to search; without an embedder if it is searched by words only."""
    if mode == "text":
        return search.Target(base, None)
    return search.Target(base, await context.embedders.find(tx, base.embedder, base.org_id))
