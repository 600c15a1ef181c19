"""The scores of the documents that chunks are part of, in the embedded index. Pure functions.

The words of a question are often spread over the chunks of a document, and a chunk by itself is a poor sample of what its
document is about. So a chunk ranks by its own score and, with less weight, by that of its document: BM25 as well, but with
the document's counts and length, among the documents of the base (`bm25.with_documents`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gristmill.search import bm25
from gristmill.search.bm25 import DocumentStatistics, TermPostings
from gristmill.search.inverted_index import Postings
from gristmill.search.segment import Mask, Numbers
from gristmill.search.snapshot import Snapshot

# The documents of a term in more chunks than this are estimated: from a block of its postings in some of the segments.
_MAX_COUNTED = 1 << 11
_MAX_PARTS = 8
_BLOCK = 1 << 9


def measure_documents(
    snapshot: Snapshot, terms: Sequence[TermPostings], visible: Mask | None = None
) -> DocumentStatistics:
    """How many documents there are and how many have each term. With a mask, `terms` are those of the marked chunks."""
    if visible is None:
        documents = snapshot.documents
        tokens = snapshot.tokens
    else:
        documents = len(np.unique(snapshot.items_at(np.flatnonzero(visible))))
        tokens = int(np.concatenate([*snapshot.lengths, np.empty(0, np.uint16)])[visible].sum(dtype=np.int64))
    by_term = [count_documents(snapshot, term) for term in terms]
    return DocumentStatistics(documents, tokens / max(documents, 1), by_term)


def score_documents(
    snapshot: Snapshot, terms: Sequence[TermPostings], statistics: DocumentStatistics, keys: Numbers
) -> NDArray[np.float64]:
    """The scores of the items with these keys; keys can be repeated."""
    distinct, places = np.unique(keys, return_inverse=True)
    parts = [
        (position, chunks.lengths, *chunks.items.find(distinct))
        for position, chunks in enumerate(snapshot.segments)
    ]
    parts = [part for part in parts if len(part[3])]
    if not parts:
        return np.zeros(len(keys))
    key_positions = np.concatenate([of_segment for _, _, of_segment, _ in parts])

    def sum_by_item(values: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        sums = np.bincount(key_positions, np.concatenate(values), minlength=len(distinct))
        return sums.astype(np.float64)

    lengths = sum_by_item([of_segment[ordinals] for _, of_segment, _, ordinals in parts])
    counts = [
        sum_by_item([_counts_at(postings.get(position), ordinals) for position, _, _, ordinals in parts])
        for postings in (dict(term.parts) for term in terms)
    ]
    return bm25.document_scores([term.weight for term in terms], counts, lengths, statistics)[places]


def _counts_at(postings: Postings | None, ordinals: Numbers) -> NDArray[Any]:
    """How often each of these chunks has the term."""
    if postings is None or not len(postings.ordinals):
        return np.zeros(len(ordinals), np.uint8)
    # With the same type on both sides, numpy does not convert all postings.
    sought = ordinals.astype(postings.ordinals.dtype)
    places = np.searchsorted(postings.ordinals, sought)
    places[places == len(postings.ordinals)] = 0
    return postings.counts[places] * (postings.ordinals[places] == sought)


def count_documents(snapshot: Snapshot, term: TermPostings) -> int:
    """The number of documents that have a term; of frequent ones an estimate. The chunks of a document can be in several
    segments: it counts once."""
    chunks, parts = term.chunks, term.parts
    if chunks > _MAX_COUNTED:
        step = max(1, len(parts) // _MAX_PARTS)
        parts = [(position, _first(postings)) for position, postings in parts[::step]]
    keys = [snapshot.segments[position].items.at(postings.ordinals) for position, postings in parts]
    counted = sum(map(len, keys))
    return round(len(np.unique(np.concatenate(keys))) * chunks / counted) if counted else 0


def _first(postings: Postings) -> Postings:
    return Postings(postings.ordinals[:_BLOCK], postings.counts[:_BLOCK])
