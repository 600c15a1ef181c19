"""The Universal Sentence Encoder (multilingual, version 3) as an ONNX graph that onnxruntime runs fast on a CPU.

Three stacks of convolutions look at 2, 3 and 5 neighbouring words each. Their outputs and the words themselves are summed over
the text, and four dense layers make the vector. A convolution is a matrix product over shifted copies of its input, so that
it is int8 like the other products (`onnx_graph.py`). What comes after the sum is a single row, and stays float32.

A change that affects the vectors must change the identity in local_models.py.
"""

from dataclasses import dataclass

import numpy as np

from gristmill.embedding.onnx_graph import GraphBuilder, quantise
from gristmill.embedding.universal_pack import TABLES, UniversalPack

DIMENSIONS = 512
_WIDTH = 256  # of a convolution
# How many neighbours a stack looks at, and how many of them stand before the word.
STACKS = ((2, 0), (3, 1), (5, 2))


def convert(pack: UniversalPack, *, exact: bool = False) -> bytes:
    """The serialised model; `exact` leaves the matrices in float32, to measure what int8 costs."""
    encoder = _UniversalEncoder(pack, exact=exact)
    words = encoder.embed("ids")
    features = [words.values, *(encoder.stack(words, size, before) for size, before in STACKS)]
    return encoder.finish(features)


@dataclass(frozen=True)
class _Words:
    """The words of a text: rows of the table, what scales and shifts each of them, and the result."""

    rows: str
    scales: str
    offsets: str
    values: str


class _UniversalEncoder:
    """The encoder's parts. Every method adds nodes and returns the name of their output."""

    def __init__(self, pack: UniversalPack, *, exact: bool) -> None:
        self._pack = pack
        self._graph = GraphBuilder(exact=exact)

    def embed(self, ids: str) -> "_Words":
        """The words, (1, tokens, 512)."""
        graph, pack = self._graph, self._pack
        rows = graph.add("Gather", [graph.constant("words", pack.words), ids])
        table = graph.add("Mod", [ids, graph.constant("tables", np.array(TABLES, np.int64))])
        scales = graph.add("Gather", [graph.constant("scales", pack.scales[:, np.newaxis]), table])
        offsets = graph.add("Gather", [graph.constant("offsets", pack.offsets[:, np.newaxis]), table])
        values = graph.add("Add", [graph.add("Mul", [graph.add("Cast", [rows], to=1), scales]), offsets])
        return _Words(rows, scales, offsets, values)

    def stack(self, words: "_Words", size: int, before: int) -> str:
        """A projection and two convolutions, each with its input added to its output."""
        x = self._project(words, f"proj{size}", f"proj_b{size}")
        x = self._norm(x, f"ln_g{size}", f"ln_b{size}")
        for layer in (1, 2):
            neighbours = self._neighbours(x, size, before)
            product = self._linear(neighbours, f"w{layer}_{size}", f"b{layer}_{size}")
            x = self._graph.add("Add", [self._graph.add("Relu", [product]), x])
        return x

    def _project(self, words: "_Words", weights: str, bias: str) -> str:
        """The words by a matrix. Their rows are integers already: quantising their values once more, with one scale for all
        of them, would cost most of the precision (cosine to the exact vectors .978 at worst, this way .999)."""
        graph, plain = self._graph, self._pack.plain
        quantised, scales = quantise(plain[weights])
        inputs = [words.rows, graph.constant(f"{weights}.int8", quantised)]
        product = graph.add("Cast", [graph.add("MatMulInteger", inputs)], to=1)
        product = graph.add("Mul", [product, graph.constant(f"{weights}.scales", scales)])
        product = graph.add("Mul", [product, words.scales])
        # Of the quantised matrix, so that its errors cancel out: rows are far from zero, and their offsets take that back.
        sums = graph.constant(f"{weights}.sums", (quantised * scales).sum(axis=0))
        rest = graph.add("Add", [graph.add("Mul", [words.offsets, sums]), graph.constant(bias, plain[bias])])
        return graph.add("Add", [product, rest])

    def _neighbours(self, x: str, size: int, before: int) -> str:
        """Each word's neighbours beside each other; outside the text they are zero."""
        graph = self._graph
        after = size - 1 - before
        padded = graph.add("Pad", [x, graph.integers(0, before, 0, 0, after, 0)])
        shifted: list[str] = []
        for offset in range(size):
            # To the end of the padded text, less what other copies reach further.
            end = offset - size + 1
            bounds = [graph.integers(offset), graph.integers(end if end < 0 else 1 << 31), graph.integers(1)]
            shifted.append(graph.add("Slice", [padded, *bounds]))
        return graph.add("Concat", shifted, axis=2)

    def finish(self, features: list[str]) -> bytes:
        """Sum over the text, and the dense layers."""
        graph, plain = self._graph, self._pack.plain
        x = self._norm(graph.add("Concat", features, axis=2), "ln_g", "ln_b")
        length = graph.add("Cast", [graph.add("Shape", [x], start=1, end=2)], to=1)
        total = self._product(graph.add("ReduceSum", [x, graph.integers(1)], keepdims=0), "cnn_W")
        bias = graph.add("Mul", [graph.constant("cnn_b", plain["cnn_b"]), length])
        mean = graph.add("Div", [graph.add("Add", [total, bias]), graph.add("Sqrt", [length])])
        hidden = graph.add("Relu", [self._product(mean, "d0")])
        hidden = graph.add("Add", [self._product(mean, "p1"), self._product(hidden, "d1")])
        hidden = graph.add("Relu", [hidden])
        last = graph.add("Relu", [self._product(hidden, "d2")])
        last = graph.add("Add", [self._product(hidden, "p3"), self._product(last, "d3")])
        return graph.serialise("universal", graph.add("Tanh", [last]), DIMENSIONS)

    def _product(self, x: str, name: str) -> str:
        return self._graph.add("MatMul", [x, self._graph.constant(name, self._pack.plain[name])])

    def _linear(self, x: str, weights: str, bias: str) -> str:
        plain = self._pack.plain
        return self._graph.linear(x, plain[weights], self._graph.constant(bias, plain[bias]), weights)

    def _norm(self, x: str, weights: str, bias: str) -> str:
        plain = self._pack.plain
        return self._graph.norm(x, plain[weights], plain[bias], weights, self._pack.epsilon)
