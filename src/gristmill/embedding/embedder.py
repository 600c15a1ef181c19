"""The port: texts in, vectors out, whoever computes them.

What holds for every embedder, and `tests/embedding/test_contract.py` checks for each:

- A vector has length 1, so that the dot product of two is their cosine.
- `identity` changes whenever the vectors would, and never otherwise: vectors are kept and reused by it.
- `name`, `identity`, `dimensions` and `max_tokens` cost nothing; only work loads a model.
- The n-th vector belongs to the n-th text, however the work was cut and in whatever order it was done.
- A cancelled call leaves the embedder as it was.

On failure: `SetupError` when the model can't be had, else

    Paced        a Transient that says when to come back: the provider asked for time, is over its limits or does not
                 answer. Nothing is wrong with the work: whoever waits for it should sleep until then, and count nothing
    TextRefused  a Permanent that is about a text, maybe one of many: the others may go well (bisect.py finds it)
    Permanent    any other: about the provider and its settings, and so about every text
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gristmill.errors import Permanent, Transient

Vectors: TypeAlias = NDArray[np.float32]


class EmbedderPaused(Transient):
    """Not now, and through no fault of the work: come back after `pause`."""

    code = "embedder_paced"

    def __init__(self, message: str, *, pause: timedelta, code: str | None = None) -> None:
        super().__init__(message, code=code, retry_after=pause)
        self.pause = pause


class TextRefused(Permanent):
    """No vectors for these texts; with fewer of them it may be otherwise."""

    code = "embedder_refused"


class Embedder(Protocol):
    """Turns documents and queries into vectors of one space."""

    @property
    def name(self) -> str:
        """What bases call it."""
        ...

    @property
    def identity(self) -> str:
        """Names the vectors' space: two embedders of one identity give the same vectors. Holds no secret."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Longest text that is embedded whole, as `count_tokens` counts."""
        ...

    @property
    def english_only(self) -> bool:
        """Whether texts in other languages get vectors that say nothing."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """What `count_tokens` counts with, without truncation or padding; instant after `load`."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text`, without those that the model puts around every text."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row for each text, in their order."""
        ...

    async def embed_query(self, text: str) -> Vectors:
        """The vector of one query; never waits behind documents."""
        ...

    async def load(self) -> None:
        """Get ready now what the first call would otherwise wait for."""
        ...

    async def close(self) -> None:
        """Let go of threads and connections, once what runs has ended; nothing can be embedded after."""
        ...


def count_tokens(tokenizer: Tokenizer, text: str) -> int:
    """Tokens of `text` alone."""
    return len(tokenizer.encode(text, add_special_tokens=False))


def unit_vectors(vectors: Vectors) -> Vectors:
    """The same directions at length 1; a vector of zeros has none and stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
