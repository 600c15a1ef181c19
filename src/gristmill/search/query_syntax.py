"""Parses the syntax of keyword queries. Pure functions.

    wheel stones       any of the words; more matches and rarer words score higher
    "mill stone"       a phrase that every hit must contain
    -water  -"a b"     a word or phrase that no hit may contain
    grind*             any word with this prefix of at least two characters

A minus excludes only after a space and before a letter or a quotation mark, so that `-40 °C` and `high-speed` are plain
words.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gristmill.search.lexer import Token, fold, lex, query_tokens

_PART = re.compile(
    r'(?P<minus>(?:^|(?<=\s))-(?=["“]|[^\W\d_]))?(?:["“](?P<phrase>[^"“”]+)["”]|(?P<prefix>[^\W_]{2,})\*|(?P<words>[^\s"“”]+))'
)
MAX_TERMS = 64  # a longer query is a document: further terms add cost but no meaning

Names = tuple[str, ...]


@dataclass(frozen=True)
class Term:
    """One search term: its lexemes in the languages of the base, or a prefix. `weight` is how often the query has it."""

    names: Names
    weight: float = 1.0
    prefix: bool = False


@dataclass(frozen=True)
class Phrase:
    """Adjacent words, each given by its possible lexemes."""

    words: tuple[Names, ...]

    def is_in(self, text: str) -> bool:
        """Whether `text` contains the phrase."""
        lexemes_at: dict[int, set[str]] = {}
        for token in lex(text):
            lexemes_at.setdefault(token.position, set()).add(token.lexeme)
        return any(self._matches_at(lexemes_at, start) for start in lexemes_at)

    def _matches_at(self, lexemes_at: dict[int, set[str]], start: int) -> bool:
        return all(
            not lexemes_at.get(start + offset, set()).isdisjoint(names)
            for offset, names in enumerate(self.words)
        )


@dataclass(frozen=True)
class ParsedQuery:
    """The terms to score by, and the phrases and terms that hits must or must not contain."""

    terms: tuple[Term, ...]
    phrases: tuple[Phrase, ...] = ()
    excluded: tuple[Term, ...] = ()
    excluded_phrases: tuple[Phrase, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The lexemes of all terms except prefixes."""
        return frozenset(name for term in self.terms if not term.prefix for name in term.names)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes to match."""
        return tuple(name for term in self.terms if term.prefix for name in term.names)


def parse(text: str, languages: Collection[str]) -> ParsedQuery:
    """Parse a query for a base with texts in these languages."""
    weights: dict[tuple[Names, bool], float] = {}
    phrases: list[Phrase] = []
    excluded: list[Term] = []
    excluded_phrases: list[Phrase] = []
    for part in _PART.finditer(text):
        is_excluded = part["minus"] is not None
        if part["prefix"] is not None:
            terms = [Term((fold(part["prefix"]),), prefix=True)]
        else:
            tokens = list(query_tokens(part["phrase"] or part["words"], languages))
            terms = [Term(names) for _, names in tokens]
            phrase = _phrase(tokens)
            if part["phrase"] is not None and phrase is not None:
                (excluded_phrases if is_excluded else phrases).append(phrase)
                terms = [] if is_excluded else terms
        if is_excluded:
            excluded += terms[:1]
            continue
        for term in terms:
            weights[term.names, term.prefix] = weights.get((term.names, term.prefix), 0.0) + 1
    weighted_terms = list(weights.items())[:MAX_TERMS]
    return ParsedQuery(
        tuple(Term(names, weight, prefix) for (names, prefix), weight in weighted_terms),
        tuple(phrases),
        tuple(excluded),
        tuple(excluded_phrases),
    )


def without_syntax(text: str) -> str:
    """The query as plain text for the embedder, without operators and excluded parts."""
    parts = [
        part["phrase"] or part["prefix"] or part["words"]
        for part in _PART.finditer(text)
        if not part["minus"]
    ]
    return " ".join(parts) or text


def _phrase(tokens: Sequence[tuple[Token, Names]]) -> Phrase | None:
    lexemes_at: dict[int, list[str]] = {}
    for token, names in tokens:
        lexemes_at.setdefault(token.position, []).extend(names)
    return Phrase(tuple(tuple(names) for _, names in sorted(lexemes_at.items()))) if lexemes_at else None
