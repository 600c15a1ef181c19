"""Keyword search: the visible chunks that match the query best, by BM25.

    read      segments and postings, in one snapshot: chunks published a moment ago are included
    score     every chunk that contains a term, in a thread
    check     the best ones against the table, batch by batch, until enough of them are visible

If most of a batch is hidden from the viewer, the next batch is larger; if few items are in scope, only their chunks are
scored. So a search never returns fewer hits than exist.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np

from gristmill.catalog import Base
from gristmill.db import Database, Tx
from gristmill.search import bm25, document_scores, spelling, store
from gristmill.search.coverage import TermCounts
from gristmill.search.fuse import Candidate
from gristmill.search.inverted_index import Postings
from gristmill.search.mistyped_words import (
    MAX_CHECKED_CHUNKS,
    MAX_CORRECTED_WORDS,
    correct_terms,
    corrections_by_word,
)
from gristmill.search.query_syntax import Names, ParsedQuery, Term, parse
from gristmill.search.scope import NO_FILTERS, Scope
from gristmill.search.segment import Mask, Numbers
from gristmill.search.segment_cache import SegmentCache
from gristmill.search.selectivity import Selectivity
from gristmill.search.snapshot import Snapshot
from gristmill.search.synonyms import Groups

MAX_PREFIX_EXPANSIONS = 64  # lexemes that one prefix expands to
_FIRST_BATCH = 200
_GROWTH = 4
_PHRASE_BATCH = 200


@dataclass(frozen=True)
class KeywordResults:
    """The candidates, and the scores of all chunks to explain them."""

    candidates: list[Candidate]
    parsed_query: ParsedQuery
    snapshot: Snapshot = field(repr=False)
    terms: Sequence[tuple[Term, bm25.TermPostings]] = field(default=(), repr=False)
    scores: bm25.Scores = field(default_factory=lambda: np.zeros(0, np.float32), repr=False)
    mask: Mask | None = field(default=None, repr=False)  # the chunks that can be hits; None: all
    documents: bm25.DocumentStatistics | None = field(default=None, repr=False)
    corrections: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    @property
    def term_counts(self) -> TermCounts | None:
        """How many chunks have each term; None if the query was only parsed."""
        if self.documents is None:
            return None
        return TermCounts(self.snapshot.chunks, {term: postings.chunks for term, postings in self.terms})

    def scores_of(self, nos: Sequence[int]) -> dict[int, float]:
        """The scores of chunks, whether they are candidates or not."""
        ordinals = self.snapshot.ordinals_of(nos)
        return {no: float(self.scores[ordinal]) for no, ordinal in ordinals.items()}

    def rank_of(self, score: float) -> int:
        """The rank of a score among all chunks, including hidden ones."""
        return int(np.count_nonzero(self.scores > score)) + 1


async def search(
    db: Database,
    cache: SegmentCache,
    base: Base,
    scope: Scope,
    selectivity: Selectivity,
    query: str,
    limit: int,
    synonyms: Groups = (),
) -> KeywordResults:
    """The best `limit` chunks for a query, best first."""
    async with cache.turn("index", base.chunk_set), store.read_transaction(db) as tx:
        snapshot = _without_unlexed_segments(await cache.open(tx, base.chunk_set))
        parsed_query = parse(query, snapshot.languages, synonyms)
        terms_to_find = [*parsed_query.terms, *parsed_query.excluded]
        lexemes_by_term = {
            term: [
                *term.names[1:],
                *await cache.expand_prefix(
                    tx, base.chunk_set, term.names[0], MAX_PREFIX_EXPANSIONS, snapshot
                ),
            ]
            if term.prefix
            else [*term.names]
            for term in terms_to_find
        }
        lexemes = sorted({lexeme for of_term in lexemes_by_term.values() for lexeme in of_term})
        postings = await cache.find_postings(tx, base.chunk_set, lexemes, snapshot) if lexemes else {}
        unknown = await _unknown_words(tx, base, scope, selectivity, parsed_query, postings, snapshot)
        corrections = await cache.similar_lexemes(tx, base.chunk_set, unknown, snapshot) if unknown else {}
        if corrections:
            parsed_query = correct_terms(parsed_query, corrections)
            lexemes_by_term = {term: [*term.names] for term in parsed_query.terms} | lexemes_by_term
            similar = sorted({lexeme for lexemes in corrections.values() for lexeme in lexemes})
            postings = {**postings, **await cache.find_postings(tx, base.chunk_set, similar, snapshot)}
    results, ranked = await asyncio.to_thread(
        _score, parsed_query, lexemes_by_term, postings, snapshot, selectivity
    )
    results = replace(results, corrections=corrections_by_word(parsed_query, corrections))
    async with store.read_transaction(db) as tx:
        results.candidates.extend(await _visible_candidates(tx, base, scope, results, ranked, limit))
    return results


async def parse_for_base(
    db: Database, cache: SegmentCache, base: Base, query: str, synonyms: Groups = ()
) -> KeywordResults:
    """Only parse the query for the base's languages, without searching: highlights need it."""
    async with store.read_transaction(db) as tx:
        snapshot = await cache.open(tx, base.chunk_set)
    return KeywordResults([], parse(query, snapshot.languages, synonyms), snapshot)


async def _unknown_words(
    tx: Tx,
    base: Base,
    scope: Scope,
    selectivity: Selectivity,
    parsed_query: ParsedQuery,
    postings: Mapping[str, Sequence[tuple[int, Postings]]],
    snapshot: Snapshot,
) -> list[Names]:
    """The plain words that no chunk has: no visible one, so that hidden documents don't show in what is corrected."""
    is_restricted = scope.viewer.principals is not None
    ordinals_by_word: dict[Names, Numbers] = {}
    for names, word in parsed_query.plain_words:
        parts = [part for name in names for part in postings.get(name, ())]
        count = sum(len(of_segment.ordinals) for _, of_segment in parts)
        if len(word) >= spelling.MIN_LETTERS and count <= (MAX_CHECKED_CHUNKS if is_restricted else 0):
            ordinals = [
                snapshot.starts[position] + of_segment.ordinals.astype(np.int64)
                for position, of_segment in parts
            ]
            ordinals_by_word[names] = np.concatenate([*ordinals, np.empty(0, np.int64)])
    if not ordinals_by_word:
        return []
    checked = np.unique(np.concatenate([*ordinals_by_word.values()]))
    checked = _in_scope(checked, scope, selectivity, snapshot)
    nos: list[int] = snapshot.nos_at(checked).tolist()
    visible_nos = await store.visible_chunk_ids(tx, base, Scope(scope.viewer), nos) if nos else {}
    visible = checked[[no in visible_nos for no in nos]] if nos else checked
    unknown = [names for names, of_word in ordinals_by_word.items() if not np.isin(of_word, visible).any()]
    return unknown[:MAX_CORRECTED_WORDS]


def _in_scope(ordinals: Numbers, scope: Scope, selectivity: Selectivity, snapshot: Snapshot) -> Numbers:
    """The chunks that the viewer may see, as far as the list of items says; not with filters, which it follows too."""
    if selectivity.keys is None or scope.filters != NO_FILTERS:
        return ordinals
    return ordinals[np.isin(snapshot.items_at(ordinals), selectivity.keys)]


def _without_unlexed_segments(snapshot: Snapshot) -> Snapshot:
    """The snapshot without segments that have not been lexed yet."""
    if all(row.lexer_version > 0 for row in snapshot.rows):
        return snapshot
    positions = [position for position, row in enumerate(snapshot.rows) if row.lexer_version > 0]
    return Snapshot(
        [snapshot.rows[position] for position in positions],
        [snapshot.segments[position] for position in positions],
    )


def _score(
    parsed_query: ParsedQuery,
    lexemes_by_term: Mapping[Term, Sequence[str]],
    postings: Mapping[str, Sequence[tuple[int, Postings]]],
    snapshot: Snapshot,
    selectivity: Selectivity,
) -> tuple[KeywordResults, bm25.Scores]:
    """Results without candidates yet, and the scores to rank by: 0 for chunks that can't be hits."""
    postings_by_term = {
        term: bm25.combine_postings(
            term.weight, [part for lexeme in lexemes for part in postings.get(lexeme, ())]
        )
        for term, lexemes in lexemes_by_term.items()
    }
    terms = [(term, postings_by_term[term]) for term in parsed_query.terms]
    scores = bm25.score(
        [term_postings for _, term_postings in terms], snapshot.lengths, tokens=snapshot.tokens
    )
    mask = _candidate_mask(parsed_query, postings_by_term, snapshot, selectivity)
    ranked = scores if mask is None else np.where(mask, scores, np.float32(0))
    documents = document_scores.measure_documents(snapshot, [term_postings for _, term_postings in terms])
    return KeywordResults([], parsed_query, snapshot, terms, scores, mask, documents), ranked


def _candidate_mask(
    parsed_query: ParsedQuery,
    postings_by_term: dict[Term, bm25.TermPostings],
    snapshot: Snapshot,
    selectivity: Selectivity,
) -> Mask | None:
    masks: list[Mask] = [] if selectivity.keys is None else [snapshot.mask_of_items(selectivity.keys)]
    for phrase in parsed_query.phrases:
        for names in phrase.words:
            for term, postings in postings_by_term.items():
                if not term.prefix and set(term.names) == set(names):
                    masks.append(bm25.term_mask(postings, snapshot.starts))
    masks += [~bm25.term_mask(postings_by_term[term], snapshot.starts) for term in parsed_query.excluded]
    return np.logical_and.reduce(masks) if masks else None


async def _visible_candidates(
    tx: Tx, base: Base, scope: Scope, results: KeywordResults, ranked: bm25.Scores, limit: int
) -> list[Candidate]:
    has_phrases = bool(results.parsed_query.phrases or results.parsed_query.excluded_phrases)
    candidates: list[Candidate] = []
    offset, batch = 0, _PHRASE_BATCH if has_phrases else _FIRST_BATCH
    while len(candidates) < limit:
        ranking = await asyncio.to_thread(_ranked_batch, results, ranked, offset, batch)
        if not ranking:
            break
        # To callers who see everything, as a rule the best ones are visible, and the others need not be checked.
        for part in (ranking[:limit], ranking[limit:]) if scope.is_everything else (ranking,):
            if part and len(candidates) < limit:
                chunk_ids = await store.visible_chunk_ids(tx, base, scope, [no for no, _ in part])
                if has_phrases:
                    chunk_ids = await matching_phrases(tx, base.chunk_set, results.parsed_query, chunk_ids)
                candidates += [Candidate(chunk_ids[no], no, score) for no, score in part if no in chunk_ids]
        offset, batch = offset + len(ranking), batch * _GROWTH
    return sorted(candidates, key=lambda hit: (-hit.score, hit.no))[:limit]


def _ranked_batch(
    results: KeywordResults, ranked: bm25.Scores, offset: int, batch: int
) -> list[tuple[int, float]]:
    """The numbers of the best chunks after the first `offset`, and their scores with those of their documents, best first."""
    snapshot = results.snapshot
    ordinals = bm25.top_ordinals(ranked, offset + batch)[offset:]
    scores = ranked[ordinals]
    if results.documents is not None and len(ordinals):
        terms = [postings for _, postings in results.terms]
        of_documents = document_scores.score_documents(
            snapshot, terms, results.documents, snapshot.items_at(ordinals)
        )
        scores = bm25.with_documents(scores, of_documents)
    numbers: list[int] = snapshot.nos_at(ordinals).tolist()
    return sorted(zip(numbers, scores.tolist(), strict=True), key=lambda entry: (-entry[1], entry[0]))


async def matching_phrases(
    tx: Tx, set_id: UUID, parsed_query: ParsedQuery, chunk_ids: dict[int, UUID]
) -> dict[int, UUID]:
    """The chunks whose text, title or headings contain every required phrase and no excluded one."""
    texts = await store.chunk_texts(tx, set_id, list(chunk_ids))

    def matching_numbers() -> set[int]:
        matching: set[int] = set()
        for chunk in texts:
            fields = (chunk.text, chunk.title, *chunk.headings)
            if all(any(p.is_in(f) for f in fields) for p in parsed_query.phrases) and not any(
                p.is_in(f) for p in parsed_query.excluded_phrases for f in fields
            ):
                matching.add(chunk.no)
        return matching

    matching = await asyncio.to_thread(matching_numbers)
    return {no: chunk_id for no, chunk_id in chunk_ids.items() if no in matching}
