"""Granite in plain numpy and float32, as its paper's architecture says: what the fast graph is held against."""

import math

import numpy as np
from numpy.typing import NDArray

from gristmill.embedding.pack import Pack

Array = NDArray[np.float32]


class Granite:
    """The model with its weights as the pack gives them."""

    def __init__(self, pack: Pack) -> None:
        self._arch = pack.arch
        self._weights = {**pack.plain, **{name: matrix.dense() for name, matrix in pack.grouped.items()}}

    def embed(self, ids: list[int]) -> Array:
        """The vector of one text, given as tokens with the marks around them."""
        weights, offset = self._weights, self._arch["position_offset"]
        x = weights["word_emb"][ids] + weights["pos_emb"][offset : offset + len(ids)] + weights["type_emb"][0]
        x = self._norm(x, "emb_ln")
        for layer in range(self._arch["layers"]):
            x = self._norm(x + self._attention(x, f"l{layer}"), f"l{layer}.aln")
            inner = self._linear(x, f"l{layer}.f1")
            gelu = (inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))).astype(np.float32)
            x = self._norm(x + self._linear(gelu, f"l{layer}.f2"), f"l{layer}.fln")
        return x[0] / np.linalg.norm(x[0])

    def _attention(self, x: Array, layer: str) -> Array:
        heads: int = self._arch["heads"]
        parts = np.split(self._linear(x, f"{layer}.qkv"), 3, axis=1)
        query, key, value = (part.reshape(len(x), heads, -1).transpose(1, 0, 2) for part in parts)
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[2])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return self._linear((weights @ value).transpose(1, 0, 2).reshape(len(x), -1), f"{layer}.ao")

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self._weights[f"{name}.w"].T + self._weights[f"{name}.b"]

    def _norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt(x.var(axis=-1, keepdims=True) + self._arch["layer_norm_eps"])
        return centred / spread * self._weights[f"{name}.w"] + self._weights[f"{name}.b"]


_erf = np.vectorize(math.erf)
