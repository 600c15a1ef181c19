"""The local models in PyTorch, for many texts at once, with the weights of `granite_pack.py` and `universal_pack.py`.

On a GPU they compute in float16, and texts of different lengths lie behind each other without padding. The vectors are those
of the exact models, to a cosine of .9999; the int8 graphs of the CPU differ more from them (`granite.py`, `universal.py`).
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gristmill.embedding import granite_pack, universal_pack
from gristmill.embedding.gpu.batches import OutOfMemory
from gristmill.embedding.gpu.protocol import HalfVectors, Tokens
from gristmill.embedding.universal import STACKS

# PyTorch is an extra, and may be missing where types are checked: a tensor is Any.
Tensor = Any
_FLASH_ATTENTION = (8, 0)  # the compute capability that its kernels need
_PADDED_TOKENS = 1 << 16  # of a part of a batch that is padded to the length of its longest text


def load_torch() -> Any:
    """PyTorch."""
    return cast(Any, importlib.import_module("torch"))


class _TorchModel(ABC):
    dimensions: int

    def __init__(self, device: str) -> None:
        self._torch = load_torch()
        self._device = device
        self._dtype = self._torch.float16 if device == "cuda" else self._torch.float32

    @abstractmethod
    def embed(self, texts: Sequence[Tokens]) -> Tensor:
        """The vectors of texts with their special tokens, (texts, dimensions), of length 1, on the device. Returns before the
        device has computed them."""

    def start(self, texts: Sequence[Tokens]) -> Callable[[], HalfVectors]:
        """Start to compute the vectors. Returns what waits for them."""
        try:
            vectors = self.embed(texts).to(self._torch.float16)
            if self._device != "cuda":
                return vectors.numpy
            pinned = self._torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
        except self._torch.OutOfMemoryError as error:
            self._torch.cuda.empty_cache()
            raise OutOfMemory from error
        pinned.copy_(vectors, non_blocking=True)
        event = self._torch.cuda.Event()
        event.record()

        def wait() -> HalfVectors:
            event.synchronize()
            return pinned.numpy()

        return wait

    def _load(self, values: NDArray[np.float32]) -> Tensor:
        return self._torch.tensor(values).to(self._device, self._dtype)

    def _send(self, values: NDArray[np.int32]) -> Tensor:
        """The values on the device, without waiting for it."""
        tensor = self._torch.from_numpy(np.ascontiguousarray(values))
        return tensor.pin_memory().to(self._device, non_blocking=True) if self._device == "cuda" else tensor


class GraniteModel(_TorchModel):
    """granite-embedding-30m-english."""

    dimensions = 384

    def __init__(self, device: str) -> None:
        super().__init__(device)
        torch = self._torch
        pack = granite_pack.read(granite_pack.find())
        self._heads: int = pack.arch["heads"]
        self._epsilon: float = pack.arch["layer_norm_eps"]
        self._layers: int = pack.arch["layers"]
        self._weights = {
            name: self._load(values)
            for name, values in (
                *((name, matrix.dense()) for name, matrix in pack.grouped.items()),
                *pack.plain.items(),
            )
        }
        # All tokens are of type 0, and positions start at the offset.
        self._positions = self._load(
            pack.plain["pos_emb"][pack.arch["position_offset"] :] + pack.plain["type_emb"][0]
        )
        self._varlen: Any = None
        if device == "cuda" and torch.cuda.get_device_capability() >= _FLASH_ATTENTION:
            self._varlen = importlib.import_module("torch.nn.attention.varlen").varlen_attn

    def embed(self, texts: Sequence[Tokens]) -> Tensor:
        """The last hidden state of each text's first token."""
        torch, functional = self._torch, self._torch.nn.functional
        lengths = np.array([len(text) for text in texts], np.int32)
        starts = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        positions = np.arange(starts[-1], dtype=np.int32) - np.repeat(starts[:-1], lengths)
        with torch.inference_mode():
            ids = self._send(np.concatenate(texts).astype(np.int32))
            bounds = self._send(starts)
            x = functional.embedding(ids, self._weights["word_emb"]) + functional.embedding(
                self._send(positions), self._positions
            )
            x = self._norm(x, "emb_ln")
            longest = int(lengths.max())
            for layer in range(self._layers - 1):
                qkv = self._linear(x, f"l{layer}.qkv").unflatten(-1, (3, self._heads, -1))
                attended = self._attend(*qkv.unbind(1), bounds, bounds, longest, longest)
                x = self._feed_forward(x, attended, f"l{layer}")
            return functional.normalize(self._last_layer(x, bounds, longest, len(texts)).float(), dim=-1)

    def _last_layer(self, x: Tensor, bounds: Tensor, longest: int, count: int) -> Tensor:
        """Only the first tokens; the others contribute keys and values."""
        name = f"l{self._layers - 1}"
        weights, bias = self._weights[f"{name}.qkv.w"], self._weights[f"{name}.qkv.b"]
        width = self.dimensions
        linear = self._torch.nn.functional.linear
        first = x[bounds[:-1].long()]
        query = linear(first, weights[:width], bias[:width]).unflatten(-1, (self._heads, -1))
        both = linear(x, weights[width:], bias[width:]).unflatten(-1, (2, self._heads, -1))
        single = self._torch.arange(count + 1, dtype=self._torch.int32, device=self._device)
        attended = self._attend(query, *both.unbind(1), single, bounds, 1, longest)
        return self._feed_forward(first, attended, name)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, bounds: Tensor, key_bounds: Tensor, *longest: int
    ) -> Tensor:
        """Attention within each text, for tensors (tokens, heads, width)."""
        if self._varlen is not None:
            attended = self._varlen(query, key, value, bounds, key_bounds, *longest)
            return attended.flatten(1)
        torch = self._torch
        (query, inside), (key, key_inside), (value, _) = (
            self._pad(tensor, tensor_bounds, length)
            for tensor, tensor_bounds, length in (
                (query, bounds, longest[0]),
                (key, key_bounds, longest[1]),
                (value, key_bounds, longest[1]),
            )
        )
        attended = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=key_inside[:, None, None, :]
        )
        return attended.transpose(1, 2)[inside].flatten(1)

    def _pad(self, tensor: Tensor, bounds: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """The tensor as (texts, heads, tokens, width), and which of these tokens are inside their text."""
        torch = self._torch
        inside = torch.arange(longest, device=self._device) < bounds.diff()[:, None]
        padded = tensor.new_zeros((*inside.shape, *tensor.shape[1:]))
        padded[inside] = tensor
        return padded.transpose(1, 2), inside

    def _feed_forward(self, x: Tensor, attended: Tensor, name: str) -> Tensor:
        x = self._norm(x + self._linear(attended, f"{name}.ao"), f"{name}.aln")
        inner = self._torch.nn.functional.gelu(self._linear(x, f"{name}.f1"))
        return self._norm(x + self._linear(inner, f"{name}.f2"), f"{name}.fln")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return self._torch.nn.functional.linear(x, self._weights[f"{name}.w"], self._weights[f"{name}.b"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weights, bias = self._weights[f"{name}.w"], self._weights[f"{name}.b"]
        return self._torch.nn.functional.layer_norm(x, (self.dimensions,), weights, bias, self._epsilon)


class UniversalModel(_TorchModel):
    """The Universal Sentence Encoder (multilingual, version 3)."""

    dimensions = 512

    def __init__(self, device: str) -> None:
        super().__init__(device)
        torch = self._torch
        pack = universal_pack.read(universal_pack.find())
        self._epsilon = pack.epsilon
        self._weights = {
            name: torch.tensor(values).to(device, torch.float32 if name in _DENSE else self._dtype)
            for name, values in pack.plain.items()
        }
        tables = np.arange(len(pack.words)) % universal_pack.TABLES
        words = pack.words * pack.scales[tables, np.newaxis] + pack.offsets[tables, np.newaxis]
        self._words = self._load(words)

    def embed(self, texts: Sequence[Tokens]) -> Tensor:
        """Texts of similar length together, each part padded to its longest one."""
        torch = self._torch
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        parts: list[list[int]] = [[]]
        for place in order:  # ascending, so that the newest is the longest of its part
            if (len(parts[-1]) + 1) * len(texts[place]) > _PADDED_TOKENS and parts[-1]:
                parts.append([])
            parts[-1].append(place)
        with torch.inference_mode():
            vectors = torch.cat([self._embed_part([texts[place] for place in part]) for part in parts])
            back = self._send(np.argsort(np.array(order)).astype(np.int32))
            return vectors[back.long()]

    def _embed_part(self, texts: Sequence[Tokens]) -> Tensor:
        functional = self._torch.nn.functional
        lengths = np.array([len(text) for text in texts], np.int32)
        padded = np.zeros((len(texts), int(lengths.max())), np.int32)
        inside = np.arange(padded.shape[1]) < lengths[:, np.newaxis]
        padded[inside] = np.concatenate(texts)
        mask = self._send(inside.astype(np.int32)).to(self._dtype)[:, :, None]
        words = functional.embedding(self._send(padded), self._words)
        features = [words, *(self._stack(words, mask, size, before) for size, before in STACKS)]
        x = self._norm(self._torch.cat(features, dim=-1), "ln_g", "ln_b") * mask
        length = self._send(lengths).float()[:, None]
        weights = self._weights
        total = x.sum(dim=1, dtype=self._torch.float32) @ weights["cnn_W"] + weights["cnn_b"] * length
        mean = total / length.sqrt()
        hidden = functional.relu(mean @ weights["d0"])
        hidden = functional.relu(mean @ weights["p1"] + hidden @ weights["d1"])
        last = functional.relu(hidden @ weights["d2"])
        last = hidden @ weights["p3"] + last @ weights["d3"]
        return functional.normalize(last.tanh(), dim=-1)

    def _stack(self, words: Tensor, mask: Tensor, size: int, before: int) -> Tensor:
        functional, weights = self._torch.nn.functional, self._weights
        x = words @ weights[f"proj{size}"] + weights[f"proj_b{size}"]
        x = self._norm(x, f"ln_g{size}", f"ln_b{size}") * mask
        for layer in (1, 2):
            padded = functional.pad(x, (0, 0, before, size - 1 - before))
            neighbours = self._torch.cat(
                [padded[:, shift : shift + x.shape[1]] for shift in range(size)], dim=-1
            )
            product = neighbours @ weights[f"w{layer}_{size}"] + weights[f"b{layer}_{size}"]
            x = (functional.relu(product) + x) * mask
        return x

    def _norm(self, x: Tensor, weights: str, bias: str) -> Tensor:
        scale, shift = self._weights[weights].to(x.dtype), self._weights[bias].to(x.dtype)
        return self._torch.nn.functional.layer_norm(x, (x.shape[-1],), scale, shift, self._epsilon)


# What comes after the sum over a text, a single row.
_DENSE = frozenset({"cnn_W", "cnn_b", "d0", "p1", "d1", "d2", "p3", "d3"})
TORCH_MODELS: dict[str, type[GraniteModel] | type[UniversalModel]] = {
    "granite-30m-en": GraniteModel,
    "use-multilingual": UniversalModel,
}
