"""Count the tokens of many short texts at a fraction of the cost of the embedder's tokenizer.

A text is split into words or parts of words, each with the space before it, and their counts are cached: a tokenizer does 2 MB/s
on one core, and only one in thirty parts of real text is new. If no token of a tokenizer crosses the space before a word
(`additive`), the sum over the words equals the tokenizer's own count, give or take a token at unusual white space. For
other tokenizers it is an estimate, and `exact` decides.
"""

import functools
import json
import os
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

from tokenizers import Tokenizer

# Counting already runs in a thread. The library's own pool would take the embedder's cores, and it prints a warning on
# stderr whenever the process forks.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Only characters that all tokenizers treat as white space. One space belongs to the word after it, and the last character of
# a longer run of white space is separate: that is GPT-2's rule, and other tokenizers' rules are coarser.
_SPACES = r"[ \t\r\n]+(?=[ \t\r\n][^ \t\r\n])|[ \t\r\n]+"
_SIGNS = r"!-/:-@\[-^`{-~"  # ASCII punctuation but the underscore
WORDS = re.compile(rf" ?[^ \t\r\n]+|{_SPACES}")
# Words cut where these rules cut as well: "(foo.bar)," is new, its parts were met before. What is not ASCII stays with its
# neighbours, so that a piece is rarely finer than a tokenizer's own; then the sum is a little too high.
_PIECES = {
    # letters, digits and others, with contractions
    "ByteLevel": re.compile(rf" ?[^ \t\r\n0-9_{_SIGNS}]+(?:'[a-z]+)?| ?[0-9]+| ?[_{_SIGNS}]+|{_SPACES}"),
    # letters, digits and underscores, and others
    "Whitespace": re.compile(rf" ?[^ \t\r\n{_SIGNS}]+| ?[{_SIGNS}]+|{_SPACES}"),
}
# The cache is cleared beyond these sizes, some 12 MB.
_MAX_WORDS, _MAX_CHARACTERS = 80_000, 2_000_000
_WORD_LOCAL = frozenset({"ByteLevel", "Whitespace", "WhitespaceSplit", "BertPreTokenizer"})


class TokenCounter:
    """Counts tokens of one tokenizer. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        rule = _word_rule(tokenizer)
        self.additive = rule is not None
        self._pieces = _PIECES.get(rule or "", WORDS)
        self._tokenizer = tokenizer
        self._known: dict[str, int] = {}
        self._characters = 0

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text, summed over its words."""
        word_lists = list(map(self._pieces.findall, texts))
        if len(self._known) > _MAX_WORDS or self._characters > _MAX_CHARACTERS:
            self._known, self._characters = {}, 0
        # Concurrent threads at worst count a word twice: entries are never removed from the dict they hold.
        known = self._known
        new = list(set(chain.from_iterable(word_lists)).difference(known))
        if new:
            known.update(zip(new, self._encode(new), strict=True))
            self._characters += sum(map(len, new))
        count = known.__getitem__
        return [sum(map(count, words)) for words in word_lists]

    def count(self, text: str) -> int:
        """Number of tokens of one text, summed over its words."""
        return self.counts([text])[0]

    def exact(self, text: str) -> int:
        """Number of tokens of one text, by the tokenizer itself."""
        return self._encode([text])[0]

    def _encode(self, texts: list[str]) -> list[int]:
        # The fast variant releases the GIL and skips the offsets, which are not needed here.
        return list(map(len, self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)))


@functools.lru_cache(maxsize=16)
def token_counter(tokenizer: Tokenizer) -> TokenCounter:
    """The counter of `tokenizer`, shared by all callers together with its cache."""
    return TokenCounter(tokenizer)


def _word_rule(tokenizer: Tokenizer) -> str | None:
    """The rule by which a tokenizer splits texts first, if no token of it crosses the space before a word."""
    untyped = cast(Any, tokenizer)  # its attributes have no types
    if untyped.normalizer is not None or untyped.pre_tokenizer is None:
        return None
    rules = json.loads(untyped.pre_tokenizer.__getstate__())
    first = rules["pretokenizers"][0] if rules["type"] == "Sequence" else rules
    is_local = first["type"] in _WORD_LOCAL and first.get("use_regex", True)
    return first["type"] if is_local and not first.get("add_prefix_space") else None
