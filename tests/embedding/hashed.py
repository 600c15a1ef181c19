"""An embedder for tests: words hashed into a few dimensions, the same vector for the same text, at once."""

import re
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from gristmill.embedding import embedder
from gristmill.embedding.embedder import Vectors

_CJK = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_PIECES = re.compile(rf"{_CJK}+|[^\W_]+")


class HashedEmbedder:
    """Texts that share words, or pairs of Chinese characters, are near; a token is a word or a character."""

    def __init__(self, name: str = "hashed", *, dimensions: int = 64, max_tokens: int = 512) -> None:
        self.name = name
        self.dimensions = dimensions
        self.max_tokens = max_tokens
        self.strengths: Mapping[str, float] | None = None
        self.identity = f"hashed/1/{dimensions}"
        self.tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
        apart = pre_tokenizers.Split(Regex(_CJK), "isolated")
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), apart])

    def count_tokens(self, text: str) -> int:
        return embedder.count_tokens(self.tokenizer, text)

    async def load(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        vectors = [self.vector(text) for text in texts]
        return np.stack(vectors) if vectors else np.empty((0, self.dimensions), np.float32)

    async def embed_query(self, text: str) -> Vectors:
        return self.vector(text)

    def vector(self, text: str) -> Vectors:
        """The vector of `text`; one without words has a direction too."""
        counts = np.zeros(self.dimensions, np.float32)
        for feature in _features(text) or [""]:
            digest = zlib.crc32(feature.encode(errors="replace"))
            counts[(digest >> 1) % self.dimensions] += 1 if digest & 1 else -1
        if not counts.any():  # all cancelled each other out
            counts[0] = 1
        return embedder.unit_vectors(counts)


def _features(text: str) -> list[str]:
    features: list[str] = []
    for piece in _PIECES.findall(text.lower()):
        if re.match(_CJK, piece):
            features += [piece[at : at + 2] for at in range(max(1, len(piece) - 1))]
        else:
            features.append(piece)
    return features
