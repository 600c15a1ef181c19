"""chunk: canonical content to pieces that an embedder takes, with exact offsets and their headings.

Pieces follow the document's structure (headings, paragraphs, lists, fences, sentences), are counted with the
embedder's own tokenizer, and are never longer than it takes. `content[start:end] == text`, always.
"""

import asyncio
import functools
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from semantic_text_splitter import MarkdownSplitter
from tokenizers import Tokenizer

from gristmill.embedding import Embedder

DEFAULT_TOKENS = 256
_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")


@dataclass(frozen=True)
class Piece:
    """A part of the content, in characters, and the headings that it stands under."""

    index: int
    text: str
    start: int
    end: int
    headings: tuple[str, ...]


async def chunk(text: str, embedder: Embedder, chunking: dict[str, Any]) -> list[Piece]:
    """The pieces of `text`, in order."""
    await embedder.load()
    limit = min(int(chunking.get("maxTokens", DEFAULT_TOKENS)), embedder.max_tokens)
    return await asyncio.to_thread(split, text, embedder.tokenizer, limit)


def split(text: str, tokenizer: Tokenizer, tokens: int) -> list[Piece]:
    """The pieces of `text`, none of more than `tokens`."""
    splitter = _splitter(tokenizer, tokens)
    headings = list(_headings(text))
    starts = [start for start, _ in headings]
    pieces: list[Piece] = []
    for start, piece in splitter.chunk_indices(text):
        # A piece that opens with its heading stands under it.
        above = bisect_right(starts, start)
        path = headings[above - 1][1] if above else ()
        pieces.append(Piece(len(pieces), piece, start, start + len(piece), path))
    return pieces


@functools.lru_cache(maxsize=32)
def _splitter(tokenizer: Tokenizer, tokens: int) -> MarkdownSplitter:
    """Kept, because making one copies the tokenizer with all its words: 0.1 s for the default embedder's."""
    return MarkdownSplitter.from_huggingface_tokenizer(tokenizer, tokens, trim=True)


def _headings(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    path: list[tuple[int, str]] = []
    fence: str | None = None
    offset = 0
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark is not None and fence is None:
            fence = mark.group(1)
        elif mark is not None and fence is not None and mark.group(1).startswith(fence):
            fence = None
        elif fence is None and (found := _HEADING.match(line.rstrip("\r\n"))) is not None:
            level = len(found.group(1))
            path = [entry for entry in path if entry[0] < level] + [(level, found.group(2))]
            yield offset, tuple(title for _, title in path)
        offset += len(line)
