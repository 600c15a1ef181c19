"""Finds the lexemes that mistyped words of a query may mean, for a base in a search engine.

The engine proposes lexemes of all bases in a shard; those count that the base has. Whether a word is unknown, and so corrected,
depends on visible chunks alone: hidden documents don't show.
"""

from gristmill.catalog import BaseId
from gristmill.search import spelling
from gristmill.search.index.engine import EVERY_POINT, EngineIndex, KeywordLeg, PointFilter
from gristmill.search.mistyped_words import MAX_CHECKED_CHUNKS, MAX_CORRECTED_WORDS
from gristmill.search.query_syntax import Names, ParsedQuery, Term


async def find_corrections(
    index: EngineIndex, base: BaseId, parsed_query: ParsedQuery, leg: KeywordLeg, visible: PointFilter
) -> dict[Names, list[str]]:
    """Lexemes in place of words that no point which `visible` passes has. No request is made if all words are known."""
    unknown = await _unknown_words(index, base, parsed_query, leg, visible)
    words = {name for names in unknown for name in names if spelling.can_be_mistyped(name)}
    similar = await index.similar_words(base, sorted(words)) if words else {}
    candidates = sorted({lexeme for lexemes in similar.values() for lexeme in lexemes})
    if not candidates:
        return {}
    statistics = await index.statistics(base, [Term((lexeme,)) for lexeme in candidates], EVERY_POINT)
    chunks = dict(zip(candidates, statistics.by_term, strict=True))
    corrections: dict[Names, list[str]] = {}
    for names in unknown:
        ranked = (
            spelling.nearest(name, {lexeme: chunks[lexeme] for lexeme in similar[name] if chunks[lexeme]})
            for name in names
            if name in similar
        )
        if nearest := next(filter(None, ranked), None):
            corrections[names] = nearest
    return corrections


async def _unknown_words(
    index: EngineIndex, base: BaseId, parsed_query: ParsedQuery, leg: KeywordLeg, visible: PointFilter
) -> list[Names]:
    chunks = {
        term.names: count
        for term, count in zip(leg.terms, leg.statistics.by_term, strict=True)
        if not term.prefix
    }
    limit = 0 if visible == EVERY_POINT else MAX_CHECKED_CHUNKS
    rare = [
        names
        for names, word in parsed_query.plain_words
        if len(word) >= spelling.MIN_LETTERS and chunks.get(names, 0) <= limit
    ]
    if not rare or visible == EVERY_POINT:
        return rare[:MAX_CORRECTED_WORDS]
    statistics = await index.statistics(base, [Term(names) for names in rare], visible)
    unknown = [names for names, count in zip(rare, statistics.by_term, strict=True) if not count]
    return unknown[:MAX_CORRECTED_WORDS]
