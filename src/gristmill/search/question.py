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

from gristmill.search.lexer import Token, fold, forms, lex

_PART = re.compile(
    r'(?P<minus>(?:^|(?<=\s))-(?=["“]|[^\W\d_]))?(?:["“](?P<phrase>[^"“”]+)["”]|(?P<prefix>[^\W_]{2,})\*|(?P<words>[^\s"“”]+))'
)
MOST_TERMS = 64  # a longer question is a document: what comes after this adds cost, and no meaning

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

    def stands_in(self, text: str) -> bool:
        """Whether `text` has the phrase."""
        places: dict[int, set[str]] = {}
        for token in lex(text):
            places.setdefault(token.position, set()).add(token.lexeme)
        return any(self._from(places, start) for start in places)

    def _from(self, places: dict[int, set[str]], start: int) -> bool:
        return all(
            not places.get(start + place, set()).isdisjoint(names) for place, names in enumerate(self.words)
        )


@dataclass(frozen=True)
class Question:
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


def parse(text: str, languages: Collection[str]) -> Question:
    """Take `text` apart, for texts of these languages."""
    wanted: dict[tuple[Names, bool], float] = {}
    phrases: list[Phrase] = []
    excluded: list[Term] = []
    excluded_phrases: list[Phrase] = []
    for part in _PART.finditer(text):
        without = part["minus"] is not None
        if part["prefix"] is not None:
            terms = [Term((fold(part["prefix"]),), prefix=True)]
        else:
            found = list(forms(part["phrase"] or part["words"], languages))
            terms = [Term(names) for _, names in found]
            phrase = _phrase(found)
            if part["phrase"] is not None and phrase is not None:
                (excluded_phrases if without else phrases).append(phrase)
                terms = [] if without else terms
        if without:
            excluded += terms[:1]
            continue
        for term in terms:
            wanted[term.names, term.prefix] = wanted.get((term.names, term.prefix), 0.0) + 1
    kept = list(wanted.items())[:MOST_TERMS]
    return Question(
        tuple(Term(names, weight, prefix) for (names, prefix), weight in kept),
        tuple(phrases),
        tuple(excluded),
        tuple(excluded_phrases),
    )


def without_syntax(text: str) -> str:
    """The question as a sentence, for the embedder: what is excluded says nothing about what is meant."""
    kept = [
        part["phrase"] or part["prefix"] or part["words"]
        for part in _PART.finditer(text)
        if not part["minus"]
    ]
    return " ".join(kept) or text


def _phrase(found: Sequence[tuple[Token, Names]]) -> Phrase | None:
    places: dict[int, list[str]] = {}
    for token, names in found:
        places.setdefault(token.position, []).extend(names)
    return Phrase(tuple(tuple(names) for _, names in sorted(places.items()))) if places else None
