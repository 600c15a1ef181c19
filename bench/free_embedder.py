"""An embedder that costs nothing: the vector is a digest of the text, so no text is near another."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from gristmill.embedding.embedder import Vectors
from tests.embedding.hashed import HashedEmbedder


class FreeEmbedder(HashedEmbedder):
    """Its tokens are words; a vector takes a few microseconds."""

    def __init__(self, *, dimensions: int = 384) -> None:
        super().__init__("free", dimensions=dimensions)
        self.identity = f"free/1/{dimensions}"

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> Vectors:
        digest = hashlib.shake_128(text.encode(errors="replace")).digest(self.dimensions)
        vector = np.frombuffer(digest, np.int8).astype(np.float32)
        vector += np.float32(0.5)
        vector /= np.float32(math.sqrt(vector @ vector))
        return vector
