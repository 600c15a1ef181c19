"""How much of a query the words of a chunk cover. Pure functions.

Each word of the query says as much as it is rare in the base. Words that nearly every text or every question has say nothing:
stop words, and Chinese characters such as 的 or 什么. The coverage of a chunk is the share of the query's information whose
words it has, from 0 to 1. As evidence it is weighed down for a short query, in which two words may be together by chance.

A rarity is capped: a word of one chunk in a hundred says as much as one that no chunk has. For viewers who don't see everything,
all words say the same: else scores would reveal whether a document that they can't see has a word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from gristmill.search import bm25
from gristmill.search.language_detection import detect_language
from gristmill.search.lexer import fold, is_unspaced, lexemes_from_cache, split_words
from gristmill.search.query_syntax import Term
from gristmill.search.stop_words import stop_lexemes

_MIN_SHARE = 0.01  # of the base's chunks; a rarer word counts as if it were in so many
# Information that no chunk has, so that little is known by two or three words: in words that no chunk has, or pairs of characters.
_PRIOR, _UNSPACED_PRIOR = 0.87, 1.74
_GUESS = 0.5  # what a chunk with a corrected word, or with a synonym, has of the word that was asked for
# Characters of small words and of questions; a pair that has one of them says little.
_FUNCTION_CHARACTERS = frozenset(
    fold(
        "的了是在和与及也就都而着吗呢吧之什么哪谁何怎几被把从由对于为以其这那该此有些个种样不很会能可要多少请"
    )
)


@dataclass(frozen=True)
class TermCounts:
    """How many of a base's chunks have each term of a query."""

    chunks: int
    by_term: Mapping[Term, int] = field(default_factory=dict[Term, int])

    def without_frequencies(self) -> Self:
        """As if no chunk had any of the terms."""
        return replace(self, by_term=dict.fromkeys(self.by_term, 0))


@dataclass(frozen=True)
class Coverage:
    """The share of the query's information that a chunk has, and whether it has every word that says something; `share` is less
    for a short query, `plain_share` is not."""

    share: float
    plain_share: float
    is_complete: bool


def measure_coverage(query: str, counts: TermCounts, texts: Sequence[str]) -> Coverage:
    """How much of the query a chunk covers; `texts` are its text, title and headings."""
    language = detect_language(texts[0], split_words(texts[0]))
    chunk_lexemes = {
        lexeme
        for text in texts
        for word in split_words(text)
        for lexeme in lexemes_from_cache(word, language)
    }
    stop_words = stop_lexemes(language) | stop_lexemes(detect_language(query))
    terms = _informative_terms(counts, stop_words)
    total = matched = 0.0
    for term, information in terms.items():
        is_guess = term.weight < 1
        total += information if not is_guess else 0.0
        if _has(chunk_lexemes, term):
            matched += _GUESS * information if is_guess else information
    if not total:  # every word of the query was corrected
        total = sum(terms.values())
    matched = min(matched, total)
    unspaced = sum(is_unspaced(term.names[0]) for term in terms)
    prior = (_UNSPACED_PRIOR if 2 * unspaced > len(terms) else _PRIOR) * _rarity(0, counts.chunks)
    plain_share = matched / total if total else 0.0
    return Coverage(matched / (total + prior), plain_share, matched > 0.999 * total > 0)


def _informative_terms(counts: TermCounts, stop_words: frozenset[str]) -> dict[Term, float]:
    """The information of the terms that say something; of a query of small words alone, that of all."""
    rarities = {term: _rarity(chunks, counts.chunks) for term, chunks in counts.by_term.items()}
    informative = {
        term: rarity
        for term, rarity in rarities.items()
        if stop_words.isdisjoint(term.names) and not _is_function(term)
    }
    # A pair of characters is nearer to a word than one: characters count only where there are no pairs.
    longer = {term: rarity for term, rarity in informative.items() if not _is_single(term)}
    return longer or informative or rarities


def _rarity(chunks: int, of: int) -> float:
    return bm25.idf(max(1, chunks, round(_MIN_SHARE * of)), max(1, of))


def _is_function(term: Term) -> bool:
    return is_unspaced(term.names[0]) and not _FUNCTION_CHARACTERS.isdisjoint(term.names[0])


def _is_single(term: Term) -> bool:
    return is_unspaced(term.names[0]) and len(term.names[0]) == 1


def _has(chunk_lexemes: set[str], term: Term) -> bool:
    if term.prefix:
        return any(lexeme.startswith(term.names[0]) or lexeme in term.names for lexeme in chunk_lexemes)
    return not chunk_lexemes.isdisjoint(term.names)
