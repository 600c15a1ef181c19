"""Counting tokens: many short texts, as the embedder's own tokenizer counts, at a fraction of its cost.

A text is taken apart into words, each with the space before it, and the counts of words are remembered: a tokenizer
does 2 MB/s on one core, and of the words of real text one in twenty is new. Where no token of a tokenizer crosses
the space before a word (`additive`), the sum over the words is what the tokenizer itself would say, give or take
a token at odd white space. For any other it is an estimate, and `exact` has the last word.
"""

import functools
import json
import os
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

from tokenizers import Tokenizer

# Whoever counts has a thread already. A pool of its own would take the embedder's cores, and a process that has one
# is warned about, on stderr, whenever it forks.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# GPT-2's rule, which others are coarser than: one space goes with the word after it, and of a longer run of white
# space the last character stands alone. Only what everybody takes for white space.
WORDS = re.compile(r" ?[^ \t\r\n]+|[ \t\r\n]+(?=[ \t\r\n][^ \t\r\n])|[ \t\r\n]+")
# What is remembered, in words and in characters, some 12 MB; then it starts anew.
_MAX_WORDS, _MAX_CHARACTERS = 80_000, 2_000_000
_WORD_LOCAL = frozenset({"ByteLevel", "Whitespace", "WhitespaceSplit", "BertPreTokenizer"})


class TokenCounter:
    """Counts for one tokenizer; may be used by many threads at once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.additive = _is_additive(tokenizer)
        self._tokenizer = tokenizer
        self._known: dict[str, int] = {}
        self._characters = 0

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, by its words."""
        word_lists = list(map(WORDS.findall, texts))
        if len(self._known) > _MAX_WORDS or self._characters > _MAX_CHARACTERS:
            self._known, self._characters = {}, 0
        # Threads that meet here only count a word twice: nothing is ever taken out of the dict they hold.
        known = self._known
        new = list(set(chain.from_iterable(word_lists)).difference(known))
        if new:
            known.update(zip(new, self._encode(new), strict=True))
            self._characters += sum(map(len, new))
        count = known.__getitem__
        return [sum(map(count, words)) for words in word_lists]

    def count(self, text: str) -> int:
        """Tokens of one text, by its words."""
        return self.counts([text])[0]

    def exact(self, text: str) -> int:
        """Tokens of one text, as the tokenizer itself says."""
        return self._encode([text])[0]

    def _encode(self, texts: list[str]) -> list[int]:
        # It lets other threads run meanwhile, and leaves out the offsets, which nobody needs here.
        return list(map(len, self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)))


@functools.lru_cache(maxsize=16)
def token_counter(tokenizer: Tokenizer) -> TokenCounter:
    """The counter of `tokenizer`, the same for all who ask, with what it remembers."""
    return TokenCounter(tokenizer)


def _is_additive(tokenizer: Tokenizer) -> bool:
    untyped = cast(Any, tokenizer)  # these two have no types
    if untyped.normalizer is not None or untyped.pre_tokenizer is None:
        return False
    rules = json.loads(untyped.pre_tokenizer.__getstate__())
    first = rules["pretokenizers"][0] if rules["type"] == "Sequence" else rules
    return first["type"] in _WORD_LOCAL and first.get("use_regex", True) and not first.get("add_prefix_space")
