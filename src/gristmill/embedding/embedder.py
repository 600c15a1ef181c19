"""The port: texts in, vectors out, whatever computes them.

Every embedder guarantees this, and `tests/embedding/test_contract.py` checks it for each of them:

- A vector has length 1, so that the dot product of two vectors is their cosine.
- `identity` changes exactly when the vectors would change: it is the key under which vectors are stored and reused.
- `name`, `identity`, `dimensions` and `max_tokens` are cheap; only embedding loads a model.
- The n-th vector belongs to the n-th text, however the work is split and ordered.
- Cancelling a call leaves the embedder usable.

On failure: `SetupError` when the model isn't available, else

    EmbedderPaused   a Transient that says when to retry: the provider asked for a pause, is at its limits or does not
                     answer. Nothing is wrong with the texts, so the caller should wait and not count an attempt
    TextRefused      a Permanent about a text, maybe one of many: the others may succeed (bisect.py finds the bad one)
    BadAnswer        a Transient about a response; in a batch, the others may succeed, and it does not pause the stage
    Permanent        any other error: about the provider or its settings, and so about every text
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gristmill.errors import Permanent, Transient

Vectors: TypeAlias = NDArray[np.float32]
BAD_ANSWER_ATTEMPTS = 4


class EmbedderPaused(Transient):
    """The provider can't take the request now: retry after `pause`. Nothing is wrong with the texts."""

    code = "embedder_paced"

    def __init__(self, message: str, *, pause: timedelta, code: str | None = None) -> None:
        super().__init__(message, code=code, retry_after=pause)
        self.pause = pause


class TextRefused(Permanent):
    """The provider rejected these texts; it may accept some of them on their own."""

    code = "embedder_refused"


class BadAnswer(Transient):
    """The provider's response has no good vector for each of these texts. The next one may have: the document is tried
    some times more, and other documents are not held up."""

    code = "embedder_bad_answer"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message, code=code, max_attempts=BAD_ANSWER_ATTEMPTS)


class Embedder(Protocol):
    """Turns documents and queries into vectors of one space."""

    @property
    def name(self) -> str:
        """The name that bases use for it."""
        ...

    @property
    def identity(self) -> str:
        """Identifies the vector space: two embedders with one identity give the same vectors. Contains no secret."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Length of the longest text that is embedded without truncation, in tokens of `count_tokens`."""
        ...

    @property
    def strengths(self) -> Mapping[str, float] | None:
        """How well it knows languages, from 0 to 1; one that is missing gets meaningless vectors. None if it isn't known."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer behind `count_tokens`, without truncation or padding; instant after `load`."""
        ...

    def count_tokens(self, text: str) -> int:
        """Number of tokens in `text`, without the special tokens that the model adds."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row for each text, in order."""
        ...

    async def embed_query(self, text: str) -> Vectors:
        """The vector of one query. Queries never queue behind documents."""
        ...

    async def load(self) -> None:
        """Load now what the first call would otherwise have to wait for."""
        ...

    async def close(self) -> None:
        """Wait for running calls, then release threads and connections. Later calls fail."""
        ...


def count_tokens(tokenizer: Tokenizer, text: str) -> int:
    """Number of tokens in `text`, without special tokens."""
    return len(tokenizer.encode(text, add_special_tokens=False))


def unit_vectors(vectors: Vectors) -> Vectors:
    """The vectors scaled to length 1. A zero vector has no direction and stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
