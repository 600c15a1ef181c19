"""`/api/knowledge-bases/{id}/search`, `/api/search` and `/api/knowledge-items/{id}/why-not`."""

import time

from gristmill import catalog, search
from gristmill.catalog import Base, BaseId
from gristmill.db import Tx
from gristmill.operations import guards
from gristmill.server.api.context import (
    ApiContext,
    CurrentContext,
    CurrentViewer,
    PathBase,
    PathItem,
)
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.search import (
    MAX_BASES,
    CorrectionOut,
    HitOut,
    Ranks,
    ReasonOut,
    SearchBasesIn,
    SearchIn,
    SearchOut,
    TermOut,
    WhyNotIn,
    WhyNotOut,
)

router = ApiRouter("/api", tag="search")


@router.post("/knowledge-bases/{base_id}/search")
async def search_base(
    base_id: PathBase, body: SearchIn, context: CurrentContext, viewer: CurrentViewer
) -> SearchOut:
    """Search one base."""
    started = time.perf_counter()
    async with context.db.connection() as tx:
        target = await _target(tx, context, await guards.require_base(tx, base_id, viewer), body)
    answer = await context.searcher.answer([target], body.to_query(viewer))
    context.metrics.search_seconds.labels(body.mode).observe(time.perf_counter() - started)
    return _search_results(answer, started)


@router.post("/search")
async def search_bases(body: SearchBasesIn, context: CurrentContext, viewer: CurrentViewer) -> SearchOut:
    """Search several bases at once, also when they use different embedders."""
    started = time.perf_counter()
    async with context.db.connection() as tx:
        if body.base_ids is None:
            bases = await catalog.list_bases(tx, limit=MAX_BASES, viewer=viewer)
        else:
            base_ids = [BaseId(base_id) for base_id in dict.fromkeys(body.base_ids)]
            bases = [await guards.require_base(tx, base_id, viewer) for base_id in base_ids]
        targets = [await _target(tx, context, base, body) for base in bases]
    answer = await context.searcher.answer(targets, body.to_query(viewer))
    context.metrics.search_seconds.labels(body.mode).observe(time.perf_counter() - started)
    return _search_results(answer, started)


@router.post("/knowledge-items/{item_id}/why-not")
async def why_not(
    item_id: PathItem, body: WhyNotIn, context: CurrentContext, viewer: CurrentViewer
) -> WhyNotOut:
    """Explain why an item is missing from the hits of a query, or what rank it has. For admins, also on behalf of a person."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
        target = await _target(tx, context, await guards.require_base(tx, item.base_id), body)
    placement = await search.explain_missing(
        context.db, context.searcher, target, body.to_query(viewer), item
    )
    return WhyNotOut(
        rank=placement.rank,
        reasons=[ReasonOut(code=reason.code, message=reason.message) for reason in placement.reasons],
        ranks=Ranks(vector=placement.vector_rank, text=placement.text_rank),
        text_score=placement.text_score,
        similarity=placement.similarity,
        terms=[TermOut.of(term) for term in placement.terms],
        acl=list(placement.acl),
    )


async def _target(tx: Tx, context: ApiContext, base: Base, body: SearchIn | WhyNotIn) -> search.Target:
    if body.mode == "text":
        return search.Target(base, None)
    return search.Target(base, await context.embedders.find(tx, base.embedder, base.org_id))


def _search_results(answer: search.SearchAnswer, started: float) -> SearchOut:
    return SearchOut(
        hits=[HitOut.of(hit) for hit in answer.hits],
        relaxed=answer.relaxed,
        corrected=[
            CorrectionOut(word=correction.word, replacement=correction.replacement)
            for correction in answer.corrected
        ],
        took_ms=round(1000 * (time.perf_counter() - started), 2),
    )
