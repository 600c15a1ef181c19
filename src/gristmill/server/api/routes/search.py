"""`/api/knowledge-bases/{id}/search`, `/api/search` and `/api/knowledge-items/{id}/why-not`."""

import time

from gristmill import search
from gristmill.operations import guards
from gristmill.server.api.context import (
    CurrentContext,
    CurrentViewer,
    PathBase,
    PathItem,
)
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.search import (
    CorrectionOut,
    HitOut,
    Ranks,
    ReasonOut,
    SearchBasesIn,
    SearchIn,
    SearchOut,
    SkippedSearchOut,
    TermOut,
    WhyNotIn,
    WhyNotOut,
)
from gristmill.server.api.search_targets import answer_and_keep, base_target, find_targets

router = ApiRouter("/api", tag="search")


@router.post("/knowledge-bases/{base_id}/search")
async def search_base(
    base_id: PathBase, body: SearchIn, context: CurrentContext, viewer: CurrentViewer
) -> SearchOut:
    """Search one base."""
    started = time.perf_counter()
    (target,) = await find_targets(context, viewer, [base_id], body.mode)
    answer = await answer_and_keep(context, [target], body.to_query(viewer))
    context.metrics.search_seconds.labels(body.mode).observe(time.perf_counter() - started)
    return _search_results(answer, started)


@router.post("/search")
async def search_bases(body: SearchBasesIn, context: CurrentContext, viewer: CurrentViewer) -> SearchOut:
    """Search several bases at once, also when they use different embedders."""
    started = time.perf_counter()
    targets = await find_targets(context, viewer, body.base_ids, body.mode)
    answer = await answer_and_keep(context, targets, body.to_query(viewer))
    context.metrics.search_seconds.labels(body.mode).observe(time.perf_counter() - started)
    return _search_results(answer, started)


@router.post("/knowledge-items/{item_id}/why-not")
async def why_not(
    item_id: PathItem, body: WhyNotIn, context: CurrentContext, viewer: CurrentViewer
) -> WhyNotOut:
    """Explain why an item is missing from the hits of a query, or what rank it has. For admins, also on behalf of a person."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
        target = await base_target(tx, context, await guards.require_base(tx, item.base_id), body.mode)
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


def _search_results(answer: search.SearchAnswer, started: float) -> SearchOut:
    return SearchOut(
        hits=[HitOut.of(hit) for hit in answer.hits],
        fits=answer.fits,
        best_score=answer.best_score,
        relaxed=answer.relaxed,
        corrected=[
            CorrectionOut(word=correction.word, replacement=correction.replacement)
            for correction in answer.corrected
        ],
        skipped=[SkippedSearchOut.of(skipped) for skipped in answer.skipped],
        took_ms=round(1000 * (time.perf_counter() - started), 2),
    )
