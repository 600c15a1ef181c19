"""Explains the keyword scores of hits, with numbers that reveal nothing of what the viewer can't see.

Searches score with the statistics of the whole base. In an explanation these would reveal how many hidden chunks contain a
word, and so whether any does. So the scores are computed again for the explanation, as if the base had nothing but what the
viewer can see; for viewers who see everything that changes nothing. Filters don't count: they hide nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from gristmill.catalog import Viewer
from gristmill.db import Database
from gristmill.search import bm25, document_scores, store
from gristmill.search.keyword_search import KeywordResults
from gristmill.search.scope import Scope
from gristmill.search.segment import Mask, Numbers, item_key

_ALL_ITEMS = 2**31 - 1


@dataclass(frozen=True)
class TermContribution:
    """The contribution of one term to a chunk's score, and how many visible chunks contain the term."""

    term: str
    count: int
    chunks: int
    score: float


@dataclass(frozen=True)
class KeywordExplanation:
    """A chunk's score, with the share of its document's, and the contributions to its own."""

    score: float
    terms: Sequence[TermContribution]


async def explain_chunks(
    db: Database, base_id: UUID, viewer: Viewer, results: KeywordResults, nos: Sequence[int]
) -> dict[int, KeywordExplanation]:
    """Explain the keyword scores of these chunks, by number, to a viewer who can see them."""
    keys: Numbers | None = None
    if viewer.principals is not None:
        async with store.read_transaction(db) as tx:
            items = await store.items_in_scope(tx, base_id, Scope(viewer), _ALL_ITEMS)
        keys = np.array([item_key(item) for item in items], np.int64)
    return await asyncio.to_thread(_explain, results, keys, nos)


def _explain(
    results: KeywordResults, keys: Numbers | None, nos: Sequence[int]
) -> dict[int, KeywordExplanation]:
    snapshot = results.snapshot
    visible: Mask | None = None if keys is None else snapshot.mask_of_items(keys)
    terms = [(term, bm25.within(postings, snapshot.starts, visible)) for term, postings in results.terms]
    parts = [bm25.score([postings], snapshot.lengths, visible) for _, postings in terms]
    scores = bm25.score([postings for _, postings in terms], snapshot.lengths, visible)
    if results.mask is not None:
        scores = np.where(results.mask, scores, np.float32(0))
    postings_of_terms = [postings for _, postings in terms]
    documents = document_scores.measure_documents(snapshot, postings_of_terms, visible)
    explanations: dict[int, KeywordExplanation] = {}
    for no, ordinal in snapshot.ordinals_of(nos).items():
        key = snapshot.items_at(np.array([ordinal]))
        of_document = document_scores.score_documents(snapshot, postings_of_terms, documents, key)
        score = bm25.with_documents(scores[[ordinal]], of_document)[0]
        contributions = [
            TermContribution(
                term.names[0] + ("*" if term.prefix else ""),
                postings.count_at(*snapshot.place_of(ordinal)),
                postings.chunks,
                round(float(part[ordinal]), 4),
            )
            for (term, postings), part in zip(terms, parts, strict=True)
        ]
        explanations[no] = KeywordExplanation(float(score), contributions)
    return explanations
