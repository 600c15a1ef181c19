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
from gristmill.search import store, upkeep
from gristmill.search.hit import Ask, Target
from gristmill.search.query import Searcher
from gristmill.search.scope import NO_FILTERS, Filters, Scope
from gristmill.search.text import TermAt, TextLeg

DEPTH = 100


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
    terms: Sequence[TermAt]
    acl: Sequence[str]


async def why_not(db: Database, searcher: Searcher, target: Target, ask: Ask, item: Item) -> WhyNot:
    """Tell why `item` is not found."""
    asked = replace(ask, limit=DEPTH, explain=True, rerank=False, collapse=False)
    hits = await searcher.search([target], asked)
    items = list(dict.fromkeys(hit.item_id for hit in hits))
    rank = items.index(item.id) + 1 if item.id in items else None
    async with store.reading(db) as tx:
        acl = await upkeep.effective_acl(tx, item.id)
        nos = await upkeep.nos_of_item(tx, item.base_id, item.id)
        hidden = await _hidden(tx, ask, item, acl)
    reasons = [*_state(item), *hidden]
    # How it would rank if everybody saw it.
    seen = await searcher.ask(target, replace(asked, viewer=ADMIN, filters=NO_FILTERS))
    best, score = _best(seen.words, nos)
    text_rank = seen.words.rank_of(score) if best is not None and score > 0 else None
    near = await _near(db, searcher, target, ask, nos)
    terms = seen.words.explain(best) if best is not None else []
    if nos and rank is None:
        reasons += _lacks(seen.words, terms, text_rank, near)
    return WhyNot(
        rank=rank,
        reasons=reasons,
        text_rank=text_rank,
        text_score=round(score, 4) if text_rank else None,
        vector_rank=near.rank if near else None,
        similarity=near.similarity if near else None,
        terms=terms,
        acl=acl,
    )


def _state(item: Item) -> list[Reason]:
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


async def _hidden(tx: Tx, ask: Ask, item: Item, acl: Sequence[str]) -> list[Reason]:
    reasons: list[Reason] = []
    if not ask.viewer.sees(acl):
        told = ", ".join(acl) if acl else "nobody"
        reasons.append(Reason("acl", f"It may be seen by {told}; none of these names who asks."))
    for name, alone in _each(ask.filters):
        if item.live_version is not None and not await upkeep.passes(tx, item.base_id, item.id, alone):
            reasons.append(Reason("filter", f"The filter {name} leaves it out."))
    return reasons


def _each(filters: Filters) -> list[tuple[str, Scope]]:
    """Every condition by itself."""
    alone = {
        "types": replace(NO_FILTERS, types=filters.types),
        "under": replace(NO_FILTERS, under=filters.under),
        "metadata": replace(NO_FILTERS, metadata=filters.metadata),
        "createdAfter": replace(NO_FILTERS, created_after=filters.created_after),
        "createdBefore": replace(NO_FILTERS, created_before=filters.created_before),
        "updatedAfter": replace(NO_FILTERS, updated_after=filters.updated_after),
        "updatedBefore": replace(NO_FILTERS, updated_before=filters.updated_before),
    }
    return [(name, Scope(ADMIN, one)) for name, one in alone.items() if one != NO_FILTERS]


def _best(words: TextLeg, nos: Sequence[int]) -> tuple[int | None, float]:
    scores = words.scores_of(nos)
    if not scores:
        return None, 0.0
    best = max(scores, key=lambda no: (scores[no], -no))
    return best, scores[best]


async def _near(
    db: Database, searcher: Searcher, target: Target, ask: Ask, nos: Sequence[int]
) -> upkeep.Near | None:
    if target.embedder is None or not nos:
        return None
    vector = await searcher.vector(target.embedder, ask.query)
    async with store.reading(db) as tx:
        return await upkeep.near(tx, target.base.id, vector, nos)


def _lacks(
    words: TextLeg, terms: Sequence[TermAt], text_rank: int | None, near: upkeep.Near | None
) -> list[Reason]:
    reasons: list[Reason] = []
    missing = [term.term for term in terms if not term.count]
    if terms and len(missing) == len(terms):
        reasons.append(Reason("no_words", "None of the question's words is in it."))
    elif missing:
        reasons.append(Reason("missing_words", "Its best chunk lacks: " + ", ".join(missing) + "."))
    question = words.question
    if question.phrases or question.excluded or question.excluded_phrases:
        reasons.append(
            Reason(
                "syntax", "The question demands a phrase, or excludes words; without that it may be found."
            )
        )
    ranks = [f"{text_rank} by words"] if text_rank else []
    if near is not None:
        ranks.append(f"{near.rank} by vector")
    if ranks:
        told = " and ".join(ranks)
        reasons.append(
            Reason("ranked_below", f"Its best chunk ranks {told}; the best {DEPTH} of each are taken.")
        )
    return reasons
