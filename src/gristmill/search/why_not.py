"""Why an item is not among the hits of a question, or where it is.

    what keeps it out          its state, its text that was never extracted, these eyes, each filter by itself
    what it is to the legs     its best chunk's score and rank by words and by vector, among all chunks of the base
    what it lacks              words that are not in it, phrases, words that were excluded

For people who may see the item anyway: it says that it exists, and who may see it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gristmill.catalog import ADMIN, Item, ItemStatus
from gristmill.db import Database, Tx
from gristmill.search import compaction_store, store
from gristmill.search.keyword_search import KeywordResults, TermContribution
from gristmill.search.model import SearchRequest, Target
from gristmill.search.scope import NO_FILTERS, Filters, Scope
from gristmill.search.searcher import Searcher

SEARCH_DEPTH = 100


@dataclass(frozen=True)
class Reason:
    """One thing that keeps an item out, or puts it behind others."""

    code: str
    message: str


@dataclass(frozen=True)
class WhyNot:
    """Where the item stands, for these eyes and filters; ranks are those of its best chunk, None where it has none."""

    rank: int | None
    reasons: Sequence[Reason]
    text_rank: int | None
    text_score: float | None
    vector_rank: int | None
    similarity: float | None
    terms: Sequence[TermContribution]
    acl: Sequence[str]


async def explain_missing(
    db: Database, searcher: Searcher, target: Target, request: SearchRequest, item: Item
) -> WhyNot:
    """Tell why `item` is not found."""
    deep_request = replace(request, limit=SEARCH_DEPTH, explain=True, rerank=False, collapse=False)
    hits = await searcher.search([target], deep_request)
    items = list(dict.fromkeys(hit.item_id for hit in hits))
    rank = items.index(item.id) + 1 if item.id in items else None
    async with store.read_transaction(db) as tx:
        acl = await compaction_store.effective_acl(tx, item.id)
        nos = await compaction_store.chunk_numbers_of_item(tx, item.base_id, item.id)
        visibility = await _visibility_reasons(tx, request, item, acl)
    reasons = [*_state_reasons(item), *visibility]
    # How it would rank if everybody saw it.
    unrestricted = await searcher.search_base(target, replace(deep_request, viewer=ADMIN, filters=NO_FILTERS))
    best, score = _best_chunk(unrestricted.keyword, nos)
    text_rank = unrestricted.keyword.rank_of(score) if best is not None and score > 0 else None
    vector_rank = await _vector_rank(db, searcher, target, request, nos)
    terms = unrestricted.keyword.explain(best) if best is not None else []
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


def _state_reasons(item: Item) -> list[Reason]:
    if item.live_version is not None and item.chunk_count:
        return []
    if item.is_container:
        return [Reason("is_container", f"A {item.type} has no text of its own; ask about what is in it.")]
    if item.status is ItemStatus.FAILED:
        return [
            Reason(
                "never_extracted",
                f"Its text was never extracted: {item.error_code}: {item.error_message}",
            )
        ]
    if item.live_version is None:
        return [Reason("not_ready", f"It is {item.status}; nothing of it is searchable yet.")]
    return [Reason("no_text", "It was read and has no text: " + ", ".join(item.warnings or ["empty"]) + ".")]


async def _visibility_reasons(tx: Tx, request: SearchRequest, item: Item, acl: Sequence[str]) -> list[Reason]:
    reasons: list[Reason] = []
    if not request.viewer.sees(acl):
        principals = ", ".join(acl) if acl else "nobody"
        reasons.append(Reason("acl", f"It may be seen by {principals}; none of these names who asks."))
    for name, scope in _single_filters(request.filters):
        if item.live_version is not None and not await compaction_store.is_in_scope(
            tx, item.base_id, item.id, scope
        ):
            reasons.append(Reason("filter", f"The filter {name} leaves it out."))
    return reasons


def _single_filters(filters: Filters) -> list[tuple[str, Scope]]:
    """Every condition by itself."""
    filters_by_name = {
        "types": replace(NO_FILTERS, types=filters.types),
        "under": replace(NO_FILTERS, under=filters.under),
        "metadata": replace(NO_FILTERS, metadata=filters.metadata),
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


def _best_chunk(keyword: KeywordResults, nos: Sequence[int]) -> tuple[int | None, float]:
    scores = keyword.scores_of(nos)
    if not scores:
        return None, 0.0
    best = max(scores, key=lambda no: (scores[no], -no))
    return best, scores[best]


async def _vector_rank(
    db: Database, searcher: Searcher, target: Target, request: SearchRequest, nos: Sequence[int]
) -> compaction_store.NearestRank | None:
    if target.embedder is None or not nos:
        return None
    vector = await searcher.query_vector(target.embedder, request.query)
    async with store.read_transaction(db) as tx:
        return await compaction_store.nearest_rank(tx, target.base.id, vector, nos)


def _ranking_reasons(
    keyword: KeywordResults,
    terms: Sequence[TermContribution],
    text_rank: int | None,
    vector_rank: compaction_store.NearestRank | None,
) -> list[Reason]:
    reasons: list[Reason] = []
    missing = [term.term for term in terms if not term.count]
    if terms and len(missing) == len(terms):
        reasons.append(Reason("no_words", "None of the question's words is in it."))
    elif missing:
        reasons.append(Reason("missing_words", "Its best chunk lacks: " + ", ".join(missing) + "."))
    parsed_query = keyword.parsed_query
    if parsed_query.phrases or parsed_query.excluded or parsed_query.excluded_phrases:
        reasons.append(
            Reason(
                "syntax", "The question demands a phrase, or excludes words; without that it may be found."
            )
        )
    ranks = [f"{text_rank} by words"] if text_rank else []
    if vector_rank is not None:
        ranks.append(f"{vector_rank.rank} by vector")
    if ranks:
        rank_text = " and ".join(ranks)
        reasons.append(
            Reason(
                "ranked_below",
                f"Its best chunk ranks {rank_text}; the best {SEARCH_DEPTH} of each are taken.",
            )
        )
    return reasons
