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
from dataclasses import dataclass, field

from gristmill.search.language_detection import ENGLISH
from gristmill.search.lexer import Token, fold, is_unspaced, lex, query_tokens
from gristmill.search.stop_words import stop_lexemes
from gristmill.search.synonyms import Groups, synonyms_of

_PART = re.compile(
    r'(?P<minus>(?:^|(?<=\s))-(?=["“]|[^\W\d_]))?(?:["“](?P<phrase>[^"“”]+)["”]|(?P<prefix>[^\W_]{2,})\*|(?P<words>[^\s"“”]+))'
)
_JOINS_WORDS = re.compile(r"[\w.'’‘]")
MAX_TERMS = 64  # a longer query is a document: further terms add cost but no meaning

Names = tuple[str, ...]


@dataclass(frozen=True)
class Term:
    """One search term: its lexemes in the languages of the base; or a prefix, with its lexemes as a word. Those are shorter: `service*`
    is also `servic`, as the index has `services`. `weight` is how often the query has it."""

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
    # The plain words of the query, as they are written, by their lexemes: not quoted, no numbers and no identifiers.
    plain_words: tuple[tuple[Names, str], ...] = field(default=(), compare=False)

    @property
    def names(self) -> frozenset[str]:
        """The lexemes of all terms except prefixes."""
        return frozenset(name for term in self.terms for name in term.names[term.prefix :])

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes to match."""
        return tuple(term.names[0] for term in self.terms if term.prefix)


def parse(text: str, languages: Collection[str], synonyms: Groups = ()) -> ParsedQuery:
    """Parse a query for a base with texts in these languages, and with these synonyms."""
    weights: dict[tuple[Names, bool], float] = {}
    phrases: list[Phrase] = []
    excluded: list[Term] = []
    excluded_phrases: list[Phrase] = []
    plain_words: dict[Names, str] = {}
    unquoted: set[Names] = set()
    for part in _PART.finditer(text):
        is_excluded = part["minus"] is not None
        if part["prefix"] is not None:
            terms = [Term(_prefix_names(part["prefix"], languages), prefix=True)]
        else:
            tokens = list(query_tokens(part["phrase"] or part["words"], languages))
            terms = [Term(names) for _, names in tokens]
            phrase = _phrase(tokens)
            if part["words"] is not None and not is_excluded:
                plain_words |= _plain_words(part["words"], tokens, languages)
                unquoted.update(names for _, names in tokens)
            if part["phrase"] is not None and phrase is not None:
                (excluded_phrases if is_excluded else phrases).append(phrase)
                terms = [] if is_excluded else terms
        if is_excluded:
            excluded += terms[:1]
            continue
        for term in terms:
            weights[term.names, term.prefix] = weights.get((term.names, term.prefix), 0.0) + 1
    additional, explained = synonyms_of(unquoted, synonyms, languages)
    for names, weight in additional.items():
        weights.setdefault((names, False), weight)
    weighted_terms = list(weights.items())[:MAX_TERMS]
    return ParsedQuery(
        tuple(Term(names, weight, prefix) for (names, prefix), weight in weighted_terms),
        tuple(phrases),
        tuple(excluded),
        tuple(excluded_phrases),
        tuple((names, word) for names, word in plain_words.items() if names not in explained),
    )


def _prefix_names(prefix: str, languages: Collection[str]) -> Names:
    """A prefix, and the lexemes of the word that it may be."""
    folded = fold(prefix)
    lexemes = {name for _, names in query_tokens(prefix, languages) for name in names}
    return (folded, *sorted(name for name in lexemes if not name.startswith(folded)))


def _plain_words(
    text: str, tokens: Sequence[tuple[Token, Names]], languages: Collection[str]
) -> dict[Names, str]:
    """The words that could be mistyped: of letters alone, neither within apostrophes nor part of a name of code."""
    stop_words = frozenset[str]().union(*map(stop_lexemes, languages or [ENGLISH]))
    words: dict[Names, str] = {}
    for token, names in tokens:
        word = text[token.start : token.end]
        neighbours = text[max(0, token.start - 1) : token.start] + text[token.end : token.end + 1]
        is_plain = word.isalpha() and (word.islower() or word.istitle()) and not is_unspaced(word)
        if is_plain and not _JOINS_WORDS.search(neighbours) and stop_words.isdisjoint(names):
            words[names] = word
    return words


def required_phrases(text: str) -> list[str]:
    """The phrases that every hit must contain, as they are written."""
    return [part["phrase"] for part in _PART.finditer(text) if part["phrase"] and not part["minus"]]


def relax_phrases(text: str) -> str:
    """The query with the words of its required phrases in place of the phrases, within apostrophes: who quotes a word has
    typed it with care."""
    parts = [
        " ".join(f"'{word}'" for word in part["phrase"].split())
        if part["phrase"] and not part["minus"]
        else part.group()
        for part in _PART.finditer(text)
    ]
    return " ".join(parts)


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
