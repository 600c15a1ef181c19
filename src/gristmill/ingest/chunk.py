"""Split content into chunks that fit an embedder, with exact offsets and their headings.

    parts of any size ─▶ lines ─▶ atoms, each with its tokens and its rank (blocks.py) ─▶ window ─▶ chunks

The content arrives in parts and is never held as a whole: the chunker keeps the last part, a line (lines.py), and the atoms
of one chunk. An atom is a line; a line that would fill half a chunk is split into sentences, then words, then slices. Atoms
are packed until the next one doesn't fit; then the window is split at its best rank, so that a chunk ends before a heading
rather than within a section, between blocks rather than within one, and a heading stays with the text below it.

Guarantees: `content[start:end] == text`; only white space is left out; the chunks don't depend on how the content was split
into parts; no chunk has more than `max_tokens` by the tokenizer's own count, unless a single character has. Counts are sums
over words (tokens.py): a window near the limit, or split inside a word, is counted again as a whole, and shortened if
necessary. Time is linear in the length of any content.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from gristmill.embedding.embedder import Embedder
from gristmill.ingest.blocks import BLOCK, INSIDE, LINE, PART, SENTENCE, WORD, MarkdownStructure, Path
from gristmill.ingest.lines import ContentLine, LineSplitter
from gristmill.ingest.tokens import token_counter

DEFAULT_TOKENS = 256
# Must change whenever the same content would be split differently.
RECIPE = "lines/3"
# How full a chunk must be to end before each rank; a heading that comes too early counts as a block.
_MIN_FILL_AT_HEADING = 0.5
_MIN_FILL = {
    **dict.fromkeys(range(1, BLOCK), _MIN_FILL_AT_HEADING),
    BLOCK: 0.25,
    PART: 0.25,
    LINE: 0.25,
    SENTENCE: 0.125,
    WORD: 0.0625,
    INSIDE: 0.0,
}
# Sums above this share of the limit are counted again by the tokenizer itself.
_RECOUNT_ABOVE = 0.98
# Longer tokens carry no meaning: rows of symbols, or a tokenizer that counts any long word as one token.
_CHARACTERS_PER_TOKEN = 32
# Lines counted per call: enough to save calls, few enough to let other threads run.
_LINES_PER_COUNT = 512
_FEED_SIZE = 1 << 20

# Bounded repeats: a row of dots must not be scanned again from each dot.
_SENTENCE_END = re.compile(r"[。！？；…]{1,8}[\"'”’」』）】》]{0,4}|[.!?]{1,3}[\"'”’)\]]{0,4}(?=[ \t\r\n])")
_CLAUSE_END = re.compile(r"[，、：]|(?<=[^ \t\r\n])(?=[ \t\r\n])")


@dataclass(frozen=True)
class TextChunk:
    """A chunk without its vector: its place in the content in characters, the headings above it, its first page, and how many
    tokens it has, if they were counted."""

    index: int
    text: str
    start: int
    end: int
    headings: tuple[str, ...]
    page: int | None = None
    tokens: int | None = field(default=None, compare=False)


class _Atom(NamedTuple):
    start: int
    text: str
    tokens: int
    rank: int
    path: Path


def token_limit(embedder: Embedder, chunking: dict[str, Any]) -> int:
    """How many tokens a chunk of a base may have: the setting, but at most the embedder's limit."""
    return min(int(chunking.get("maxTokens", DEFAULT_TOKENS)), embedder.max_tokens)


def token_overlap(embedder: Embedder, chunking: dict[str, Any]) -> int:
    """How many tokens of a chunk the next one may repeat: the setting, but at most half a chunk."""
    return min(int(chunking.get("overlapTokens", 0)), token_limit(embedder, chunking) // 2)


def split(text: str, tokenizer: Tokenizer, tokens: int) -> list[TextChunk]:
    """The chunks of a complete `text`, of at most `tokens` tokens each."""
    chunker = Chunker(tokenizer, tokens)
    batches = [chunker.feed(text[at : at + _FEED_SIZE]) for at in range(0, len(text), _FEED_SIZE)]
    return [chunk for chunks in [*batches, chunker.finish()] for chunk in chunks]


class Chunker:
    """Splits one document; `overlap` is how many tokens of a chunk the next one may repeat, in whole atoms.

    Its state can be pickled, without the tokenizer: `use_tokenizer` before the next call."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, overlap: int = 0) -> None:
        self._counter = token_counter(tokenizer)
        self._limit = max_tokens
        self._max_characters = max_tokens * _CHARACTERS_PER_TOKEN
        self._overlap = min(overlap, max_tokens // 2)
        self._lines = LineSplitter()
        self._structure = MarkdownStructure()
        self._waiting: list[ContentLine] = []  # the last line, until the one after it is seen
        self._window: list[_Atom] = []
        self._repeated = 0  # how many atoms of the window the chunk before contains too
        self._tokens = 0  # of the window
        self._characters = 0
        self.characters_fed = 0
        self._next_start = 0  # where the next line begins
        self._pages: list[tuple[int, int | None]] = []
        self._count = 0

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Count with this tokenizer, which must be the same one as before."""
        self._counter = token_counter(tokenizer)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the counter, which is large and shared."""
        return {name: value for name, value in vars(self).items() if name != "_counter"}

    def feed(self, text: str, page: int | None = None) -> list[TextChunk]:
        """Add the next part of the content, from page `page`, and return the chunks that it completes."""
        if text and (not self._pages or self._pages[-1][1] != page):
            self._pages.append((self.characters_fed, page))
        self.characters_fed += len(text)
        lines = self._waiting + self._lines.feed(text)
        self._waiting = lines[-1:]
        return list(self._pack(lines))

    def finish(self) -> list[TextChunk]:
        """End the content, and return its last chunks."""
        lines = self._waiting + self._lines.finish()
        chunks = list(self._pack([*lines, ContentLine("", continues=False)]))
        while len(self._window) > self._repeated:
            chunks += self._cut(len(self._window))
        return chunks

    def _pack(self, lines: Sequence[ContentLine]) -> Iterator[TextChunk]:
        """Pack all lines but the last, which is only needed to rank the one before it."""
        limit, max_characters, rank_line = self._limit, self._max_characters, self._structure.rank
        for at in range(0, len(lines) - 1, _LINES_PER_COUNT):
            group = lines[at : at + _LINES_PER_COUNT + 1]
            counts = self._counter.counts([line.text for line in group[:-1]])
            for (text, continues), tokens, following in zip(group, counts, group[1:], strict=False):
                if continues:
                    rank = WORD if text[0] in " \t" else INSIDE
                else:
                    rank = rank_line(text, following.text)
                length = len(text)
                atom = _Atom(self._next_start, text, tokens, rank, self._structure.path)
                self._next_start += length
                # What `_is_small`, `_fits` and `_append` do, without the calls: this is done for every line.
                if 2 * tokens <= limit and 2 * length <= max_characters:
                    if (
                        self._window
                        and self._tokens + tokens <= limit
                        and self._characters + length <= max_characters
                    ):
                        self._window.append(atom)
                        self._tokens += tokens
                        self._characters += length
                    else:
                        yield from self._add(atom)
                else:
                    for part in self._split_atom(atom, _SENTENCE_END, SENTENCE):
                        yield from self._add(part)

    def _add(self, atom: _Atom) -> Iterator[TextChunk]:
        while self._window and not self._fits(atom.tokens, atom.text):
            if len(self._window) == self._repeated:
                self._begin([])
            else:
                yield from self._cut(self._best_cut(len(self._window), atom.rank))
        if self._window:
            self._append(atom)
        else:
            self._begin([atom])

    def _append(self, atom: _Atom) -> None:
        self._window.append(atom)
        self._tokens += atom.tokens
        self._characters += len(atom.text)

    def _fits(self, tokens: int, text: str) -> bool:
        """Whether the window has room for one more atom."""
        return self._tokens + tokens <= self._limit and self._characters + len(text) <= self._max_characters

    def _is_small(self, tokens: int, text: str) -> bool:
        """Whether a text can be an atom: any two atoms must fit into one chunk."""
        return 2 * tokens <= self._limit and 2 * len(text) <= self._max_characters

    def _best_cut(self, upto: int, rank: int) -> int:
        """How many atoms the next chunk gets, at most `upto`; `rank` is that of the atom after those."""
        window, limit = self._window, self._limit
        fill = sum(atom.tokens for atom in window[:upto])
        best, best_rank = upto, INSIDE + 1
        for at in range(upto, self._repeated, -1):
            if rank < BLOCK and fill < limit * _MIN_FILL_AT_HEADING:
                rank = BLOCK
            if rank < best_rank and fill >= limit * _MIN_FILL[rank]:
                best, best_rank = at, rank
            rank = window[at - 1].rank
            fill -= window[at - 1].tokens
        return best

    def _cut(self, atoms: int) -> Iterator[TextChunk]:
        """Make a chunk of the window's first `atoms`, or of fewer if they are too long."""
        while self._is_too_long(atoms):
            if self._repeated:
                atoms -= self._repeated
                self._begin(self._window[self._repeated :])
            elif atoms > 1:
                atoms = self._best_cut(atoms - 1, self._window[atoms - 1].rank)
            elif len(self._window[0].text) > 1:
                self._begin([*self._halves(self._window[0]), *self._window[1:]])
            else:
                break
        first, texts = self._window[0], [atom.text for atom in self._window[:atoms]]
        tokens = sum([atom.tokens for atom in self._window[:atoms]])
        has_new_text = not all(map(str.isspace, texts[self._repeated :]))
        self._repeat(atoms)
        if has_new_text:
            joined = "".join(texts)
            text = joined.strip()
            before = joined.index(text[0])
            start = first.start + before
            tokens -= sum(self._counter.counts([joined[:before], joined[before + len(text) :]]))
            yield TextChunk(
                self._count,
                text,
                start,
                start + len(text),
                first.path,
                self._page(start),
                max(1, tokens),
            )
            self._count += 1

    def _is_too_long(self, atoms: int) -> bool:
        taken = self._window[:atoms]
        is_uncertain = not self._counter.additive or any(atom.rank == INSIDE for atom in taken)
        if not is_uncertain and sum(atom.tokens for atom in taken) <= self._limit * _RECOUNT_ABOVE:
            return False
        return self._counter.exact("".join(atom.text for atom in taken).strip()) > self._limit

    def _repeat(self, atoms: int) -> None:
        """Continue after the window's first `atoms`, with those that the next chunk repeats."""
        window = self._window
        at_heading = atoms < len(window) and window[atoms].rank < BLOCK
        # The next chunk must start after this one, which starts with its first non-blank atom.
        first = next((at for at, atom in enumerate(window) if not atom.text.isspace()), 0)
        keep, left = atoms, 0 if at_heading else self._overlap
        while left > 0 and keep > first + 1 and window[keep - 1].rank != INSIDE:
            left -= window[keep - 1].tokens
            keep -= left >= 0
        self._begin(window[keep:], repeated=atoms - keep)

    def _begin(self, atoms: list[_Atom], repeated: int = 0) -> None:
        """Make `atoms` the window. The first one loses its leading space, which may change its tokens."""
        if atoms and atoms[0].text[0] in " \t":
            first = atoms[0]
            atoms[0] = first._replace(tokens=self._counter.count(first.text.lstrip()))
        self._window, self._repeated = atoms, repeated
        self._tokens = sum(atom.tokens for atom in atoms)
        self._characters = sum(len(atom.text) for atom in atoms)

    def _split_atom(self, atom: _Atom, ends: re.Pattern[str], rank: int) -> Iterator[_Atom]:
        """Split a long atom into sentences, long sentences into words, and long words into slices."""
        cuts = [match.end() for match in ends.finditer(atom.text)]
        bounds = [0, *(cut for cut in cuts if cut < len(atom.text)), len(atom.text)]
        texts = [atom.text[start:end] for start, end in pairwise(bounds)]
        at = atom.start
        for text, tokens in self._group_neighbours(texts, 0 if rank == SENTENCE else self._limit // 8):
            part = _Atom(at, text, tokens, atom.rank if at == atom.start else rank, atom.path)
            at += len(text)
            if self._is_small(tokens, text):
                yield part
            elif rank == SENTENCE:
                yield from self._split_atom(part, _CLAUSE_END, WORD)
            else:
                yield from self._slices(part)

    def _group_neighbours(self, texts: list[str], limit: int) -> Iterator[tuple[str, int]]:
        """Join neighbours up to `limit` tokens."""
        group, size = "", 0
        for text, tokens in zip(texts, self._counter.counts(texts), strict=True):
            if group and size + tokens > limit:
                yield group, size
                group, size = "", 0
            group += text
            size += tokens
        yield group, size

    def _slices(self, atom: _Atom) -> Iterator[_Atom]:
        step = min(len(atom.text) * self._limit // (4 * max(1, atom.tokens)), self._max_characters // 4)
        if len(atom.text) == 1 or not step:
            yield atom
            return
        texts = [atom.text[at : at + step] for at in range(0, len(atom.text), step)]
        at = atom.start
        for text, tokens in zip(texts, self._counter.counts(texts), strict=True):
            part = _Atom(at, text, tokens, atom.rank if at == atom.start else INSIDE, atom.path)
            at += len(text)
            if 2 * tokens > self._limit and len(text) > 1:
                yield from self._slices(part)
            else:
                yield part

    def _halves(self, atom: _Atom) -> list[_Atom]:
        middle = len(atom.text) // 2
        texts = [atom.text[:middle], atom.text[middle:]]
        counts = self._counter.counts(texts)
        return [
            atom._replace(text=texts[0], tokens=counts[0]),
            _Atom(atom.start + middle, texts[1], counts[1], INSIDE, atom.path),
        ]

    def _page(self, start: int) -> int | None:
        while len(self._pages) > 1 and self._pages[1][0] <= start:
            self._pages.pop(0)
        return self._pages[0][1]
