"""Explains why an item is not among the hits of a search, or where it ranks.

    exclusion    its status, a failed extraction, the viewer's permissions, each filter by itself
    ranking      the score and rank of its best chunk among all chunks of the base, by keyword and by vector
    query        terms that it lacks, required phrases, excluded words

Only for callers who can see the item: the explanation reveals that it exists and who has access.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from gristmill.catalog import ADMIN, Item, ItemStatus
from gristmill.db import Database, Tx
from gristmill.search import store
from gristmill.search.chunk_marks import count_disabled
from gristmill.search.explain import TermContribution
from gristmill.search.index.port import KeywordAnswer
from gristmill.search.literals import vector_literal
from gristmill.search.model import Hit, SearchRequest, Target
from gristmill.search.scope import NO_FILTERS, Filters, Scope
from gristmill.search.searcher import Searcher
from gristmill.search.store import Vector, queries

SEARCH_DEPTH = 100


@dataclass(frozen=True)
class Reason:
    """One reason why an item is excluded or ranks low."""

    code: str
    message: str


@dataclass(frozen=True)
class WhyNot:
    """The item's rank for the viewer and filters, and the reasons. The other ranks and scores are those of its best
    chunk; None if it has none."""

    rank: int | None
    reasons: Sequence[Reason]
    text_rank: int | None
    text_score: float | None
    vector_rank: int | None
    similarity: float | None
    terms: Sequence[TermContribution]
    acl: Sequence[str]


@dataclass(frozen=True)
class _NearestRank:
    """The similarity of an item's nearest chunk, and its rank among all chunks."""

    rank: int
    similarity: float


async def explain_missing(
    db: Database, searcher: Searcher, target: Target, request: SearchRequest, item: Item
) -> WhyNot:
    """Explain why a search does not find `item`."""
    deep_request = replace(
        request, limit=SEARCH_DEPTH, explain=True, rerank=False, collapse=False, min_score=0.0
    )
    hits = await searcher.search([target], deep_request)
    items = list(dict.fromkeys(hit.item_id for hit in hits))
    rank = items.index(item.id) + 1 if item.id in items else None
    async with store.read_transaction(db) as tx:
        acl = await _effective_acl(tx, item.id)
        nos = await _chunk_numbers_of_item(tx, target.base.chunk_set, item.id)
        visibility = await _visibility_reasons(tx, request, item, acl)
        disabled = await count_disabled(tx, target.base.chunk_set, item.id)
    if disabled:
        message = f"{disabled} of its {len(nos)} chunks are disabled, and never answer. Enable them on the page of the item."
        visibility.append(Reason("disabled_chunks", message))
    reasons = [*_state_reasons(item), *visibility, *_score_reasons(target.base.min_score, hits, item)]
    # Its rank if the item were visible and no filter applied.
    unrestricted = await searcher.search_base(target, replace(deep_request, viewer=ADMIN, filters=NO_FILTERS))
    best, score = await unrestricted.keyword.best_chunk(nos)
    text_rank = await unrestricted.keyword.rank_of(score) if best is not None and score > 0 else None
    vector_rank = await _vector_rank(db, searcher, target, request, nos)
    terms: Sequence[TermContribution] = ()
    if best is not None:
        terms = (await unrestricted.keyword.explain(ADMIN, [best]))[best].terms
    if nos and rank is None:
        reasons += _ranking_reasons(unrestricted.keyword, terms, text_rank, vector_rank)
    return WhyNot(
        rank=rank,
        reasons=reasons,
        text_rank=text_rank,
        text_score=round(score, 4) if text_rank else None,
        vector_rank=vector_rank.rank if vector_rank else None,
        similarity=vector_rank.similarity if vector_rank else None,
        terms=terms,
        acl=acl,
    )


def _score_reasons(min_score: float, hits: Sequence[Hit], item: Item) -> list[Reason]:
    best = max((hit.score for hit in hits if hit.item_id == item.id), default=None)
    if best is None or best >= min_score:
        return []
    message = f"Its score is {best:.2f}. Searches of this base leave out hits below {min_score:.2f}."
    return [Reason("low_score", message)]


def _state_reasons(item: Item) -> list[Reason]:
    if item.live_version is not None and item.chunk_count:
        return []
    if item.is_container:
        return [Reason("is_container", f"A {item.type} has no text of its own. Check the items inside it.")]
    if item.status is ItemStatus.FAILED:
        return [
            Reason(
                "never_extracted",
                f"Its text could not be extracted ({item.error_code}): {item.error_message}",
            )
        ]
    if item.live_version is None:
        return [Reason("not_ready", f"It is not searchable yet: its status is {item.status}.")]
    return [Reason("no_text", "It contains no text (" + ", ".join(item.warnings or ["empty"]) + ").")]


async def _visibility_reasons(tx: Tx, request: SearchRequest, item: Item, acl: Sequence[str]) -> list[Reason]:
    reasons: list[Reason] = []
    if not request.viewer.sees(acl):
        principals = ", ".join(acl) if acl else "no one"
        reasons.append(Reason("acl", f"The viewer has no access. Visible to: {principals}."))
    for name, scope in _single_filters(request.filters):
        if item.live_version is not None and not await _is_in_scope(tx, item.base_id, item.id, scope):
            reasons.append(Reason("filter", f"The filter {name} excludes it."))
    return reasons


def _single_filters(filters: Filters) -> list[tuple[str, Scope]]:
    """A scope for each filter by itself."""
    filters_by_name = {
        "types": replace(NO_FILTERS, types=filters.types),
        "under": replace(NO_FILTERS, under=filters.under),
        "metadata": replace(NO_FILTERS, metadata=filters.metadata),
        "condition": replace(NO_FILTERS, condition=filters.condition),
        "createdAfter": replace(NO_FILTERS, created_after=filters.created_after),
        "createdBefore": replace(NO_FILTERS, created_before=filters.created_before),
        "updatedAfter": replace(NO_FILTERS, updated_after=filters.updated_after),
        "updatedBefore": replace(NO_FILTERS, updated_before=filters.updated_before),
    }
    return [
        (name, Scope(ADMIN, single_filter))
        for name, single_filter in filters_by_name.items()
        if single_filter != NO_FILTERS
    ]


async def _vector_rank(
    db: Database, searcher: Searcher, target: Target, request: SearchRequest, nos: Sequence[int]
) -> _NearestRank | None:
    if target.embedder is None or not nos:
        return None
    vector = await searcher.query_vector(target.embedder, request.query)
    async with store.read_transaction(db) as tx:
        return await _nearest_rank(tx, target.base.chunk_set, vector, nos)


def _ranking_reasons(
    keyword: KeywordAnswer,
    terms: Sequence[TermContribution],
    text_rank: int | None,
    vector_rank: _NearestRank | None,
) -> list[Reason]:
    reasons: list[Reason] = []
    missing = [term.term for term in terms if not term.count]
    if terms and len(missing) == len(terms):
        reasons.append(Reason("no_words", "It contains none of the query's words."))
    elif missing:
        reasons.append(
            Reason("missing_words", "Its best chunk does not contain: " + ", ".join(missing) + ".")
        )
    parsed_query = keyword.parsed_query
    if parsed_query.phrases or parsed_query.excluded or parsed_query.excluded_phrases:
        reasons.append(
            Reason("syntax", "The query requires a phrase or excludes words. Without that, it may be found.")
        )
    ranks = [f"{text_rank} by keyword"] if text_rank else []
    if vector_rank is not None:
        ranks.append(f"{vector_rank.rank} by vector")
    if ranks:
        rank_text = " and ".join(ranks)
        reasons.append(
            Reason(
                "ranked_below",
                f"Its best chunk ranks {rank_text}; only the best {SEARCH_DEPTH} of each are considered.",
            )
        )
    return reasons


# ── statements ───────────────────────────────────────────────────────────────────────────────────────────


async def _effective_acl(tx: Tx, item_id: UUID) -> list[str]:
    """The ACL that applies to an item: its own, an ancestor's or the base's."""
    values = await queries.values(tx, "effective_acl", item=item_id)
    return (values[0] if values else None) or []


async def _chunk_numbers_of_item(tx: Tx, set_id: UUID, item_id: UUID) -> list[int]:
    """The numbers of an item's live chunks."""
    return await queries.values(tx, "chunk_numbers_of_item", set=set_id, item=item_id)


async def _is_in_scope(tx: Tx, base_id: UUID, item_id: UUID, scope: Scope) -> bool:
    """Whether an item is in a scope."""
    return (await queries.values(tx, "is_in_scope", base=base_id, item=item_id, **scope.parameters()))[0]


async def _nearest_rank(tx: Tx, set_id: UUID, vector: Vector, nos: Sequence[int]) -> _NearestRank | None:
    """The similarity and rank of the nearest of these chunks."""
    return await queries.maybe(
        tx, _NearestRank, "nearest_rank", set=set_id, vector=vector_literal(vector), nos=list(nos)
    )
