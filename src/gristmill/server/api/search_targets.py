"""The bases that a request searches, with the embedders of their queries."""

from collections.abc import Sequence
from uuid import UUID

from gristmill import catalog, search
from gristmill.catalog import Base, BaseId, Viewer
from gristmill.db import Tx
from gristmill.errors import RequestError
from gristmill.operations import guards
from gristmill.server.api.context import ApiContext

MAX_BASES = 100


async def find_targets(
    context: ApiContext, viewer: Viewer, base_ids: Sequence[UUID] | None, mode: search.Mode = "hybrid"
) -> list[search.Target]:
    """The bases of these ids, or all that the viewer can see and that have not expired. One that it can't see does not exist
    for it; one that has expired is refused. The others count as used from now on."""
    async with context.db.connection() as tx:
        if base_ids is None:
            bases = await _without_expired(tx, await catalog.list_bases(tx, limit=MAX_BASES, viewer=viewer))
        else:
            bases = [
                await guards.require_base(tx, BaseId(base_id), viewer) for base_id in dict.fromkeys(base_ids)
            ]
            for base in bases:
                await guards.refuse_expired_base(tx, base)
        targets = [await base_target(tx, context, base, mode) for base in bases]
    await context.activity.record(bases)
    return targets


async def answer_and_keep(
    context: ApiContext, targets: Sequence[search.Target], request: search.SearchRequest
) -> search.SearchAnswer:
    """Search, and keep the question of the bases whose owners want that."""
    answer = await context.searcher.answer(targets, request)
    await keep_question(context, targets, request, answer.best_score)
    return answer


async def keep_question(
    context: ApiContext,
    targets: Sequence[search.Target],
    request: search.SearchRequest,
    best_score: float | None = None,
) -> None:
    """Keep the question of the bases whose owners want that."""
    await search.keep_question(context.db, [target.base for target in targets], request.query, best_score)


async def _without_expired(tx: Tx, bases: list[Base]) -> list[Base]:
    limited = [base.id for base in bases if base.expires_at is not None]
    expired = await catalog.find_expired_ids(tx, limited) if limited else set[BaseId]()
    return [base for base in bases if base.id not in expired]


async def base_target(tx: Tx, context: ApiContext, base: Base, mode: search.Mode) -> search.Target:
    """A base to search; without an embedder if it is searched by words only, or if its embedder is gone."""
    if mode == "text":
        return search.Target(base, None)
    try:
        return search.Target(base, await context.embedders.find(tx, base.embedder, base.org_id))
    except RequestError as error:
        return search.Target(base, None, error)
