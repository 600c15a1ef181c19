"""The local models in plain numpy and float32, as their architectures say: what the fast graphs are held against."""

import math

import numpy as np
from numpy.typing import NDArray

from gristmill.embedding import granite_pack, universal_pack

Array = NDArray[np.float32]


class Granite:
    """The model with its weights as the pack gives them."""

    def __init__(self, pack: granite_pack.GranitePack) -> None:
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


class Universal:
    """The multilingual model with its weights as the pack gives them."""

    def __init__(self, pack: universal_pack.UniversalPack) -> None:
        self._pack, self._weights = pack, pack.plain

    def embed(self, ids: list[int]) -> Array:
        """The vector of one text, given as tokens with the marks around them."""
        pack, weights = self._pack, self._weights
        tables = [token % universal_pack.TABLES for token in ids]
        words = pack.words[ids] * pack.scales[tables, np.newaxis] + pack.offsets[tables, np.newaxis]
        features = [words, *(self._stack(words, size, before) for size, before in ((2, 0), (3, 1), (5, 2)))]
        total = self._norm(np.concatenate(features, axis=1), "ln_g", "ln_b").sum(axis=0)
        mean = (total @ weights["cnn_W"] + len(ids) * weights["cnn_b"]) / math.sqrt(len(ids))
        hidden = np.maximum(mean @ weights["p1"] + np.maximum(mean @ weights["d0"], 0) @ weights["d1"], 0)
        last = np.tanh(hidden @ weights["p3"] + np.maximum(hidden @ weights["d2"], 0) @ weights["d3"])
        return last / np.linalg.norm(last)

    def _stack(self, words: Array, size: int, before: int) -> Array:
        weights = self._weights
        x = words @ weights[f"proj{size}"] + weights[f"proj_b{size}"]
        x = self._norm(x, f"ln_g{size}", f"ln_b{size}")
        for layer in (1, 2):
            padded = np.pad(x, ((before, size - 1 - before), (0, 0)))
            windows = np.stack([padded[place : place + size].ravel() for place in range(len(x))])
            x = x + np.maximum(windows @ weights[f"w{layer}_{size}"] + weights[f"b{layer}_{size}"], 0)
        return x

    def _norm(self, x: Array, scale: str, shift: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt(x.var(axis=-1, keepdims=True) + self._pack.epsilon)
        return centred / spread * self._weights[scale] + self._weights[shift]


_erf = np.vectorize(math.erf)
