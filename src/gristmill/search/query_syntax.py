"""A question in words, taken apart. Pure.

    wheel stones       any of the words; more and rarer ones count more
    "mill stone"       these words, next to each other; a hit must have them
    -water  -"a b"     a hit must not have it
    grind*             any word that begins so, from two characters on

A minus counts only before a letter or a quotation mark, and after a space: `-40 °C` and `high-speed` are what they say.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gristmill.search.lexer import Token, fold, lex, query_tokens

_PART = re.compile(
    r'(?P<minus>(?:^|(?<=\s))-(?=["“]|[^\W\d_]))?(?:["“](?P<phrase>[^"“”]+)["”]|(?P<prefix>[^\W_]{2,})\*|(?P<words>[^\s"“”]+))'
)
MAX_TERMS = 64  # a longer question is a document: what comes after this adds cost, and no meaning

Names = tuple[str, ...]


@dataclass(frozen=True)
class Term:
    """One thing to look for: by all its names, or by how they begin; `weight` is how often it was asked."""

    names: Names
    weight: float = 1.0
    prefix: bool = False


@dataclass(frozen=True)
class Phrase:
    """Words that stand next to each other, each by all its names."""

    words: tuple[Names, ...]

    def is_in(self, text: str) -> bool:
        """Whether `text` has the phrase."""
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
    """What to look for, what must be there, what must not."""

    terms: tuple[Term, ...]
    phrases: tuple[Phrase, ...] = ()
    excluded: tuple[Term, ...] = ()
    excluded_phrases: tuple[Phrase, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All that is looked for, but for prefixes."""
        return frozenset(name for term in self.terms if not term.prefix for name in term.names)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """How words may begin."""
        return tuple(name for term in self.terms if term.prefix for name in term.names)


def parse(text: str, languages: Collection[str]) -> ParsedQuery:
    """Take `text` apart, for texts of these languages."""
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
    """The question as a sentence, for the embedder: what is excluded says nothing about what is meant."""
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
