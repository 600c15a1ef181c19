"""The port: texts in, vectors out, whoever computes them.

What holds for every embedder, and `tests/embedding/test_contract.py` checks for each:

- A vector has length 1, so that the dot product of two is their cosine.
- `identity` changes whenever the vectors would, and never otherwise: vectors are kept and reused by it.
- `name`, `identity`, `dimensions` and `max_tokens` cost nothing; only work loads a model.
- The n-th vector belongs to the n-th text, however the work was cut and in whatever order it was done.
- A cancelled call leaves the embedder as it was.

On failure: `SetupError` when the model can't be had, `Transient` or `Permanent` when a piece of work failed.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

Vectors: TypeAlias = NDArray[np.float32]


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


def normalised(vectors: Vectors) -> Vectors:
    """The same directions at length 1; a vector of zeros has none and stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
