"""granite-embedding-30m-english as an ONNX graph that onnxruntime runs fast on a CPU.

A RoBERTa encoder: 6 layers of 12 heads, width 384; a text's vector is the last hidden state of its first token. The
graph is written in its final form, so onnxruntime has nothing left to optimise. Design decisions, measured on two cores:

- One text per run (`onnx_graph.py`): batching padded texts gained nothing (48 texts/s of 200 tokens, alone as well as in
  batches of four and eight).
- A few channels are left out of the int8 product (`OUTLIERS`).
- The word table stays as it is in the pack, int8 in groups of 64: exact, and a quarter of float32's memory.
- The last layer computes only the first token; the other tokens contribute keys and values: 14 % less work.

A change that affects the vectors must change the identity in local_models.py.
"""

import numpy as np

from gristmill.embedding.granite_pack import GranitePack
from gristmill.embedding.onnx_graph import MICROSOFT, GraphBuilder

# Input channels that are huge for the first or the last token of any text (up to 257, where the others stay
# below 8), measured over English, Chinese, code and noise. With them in the int8 product, the common scale leaves the
# others no resolution: cosine to the exact vectors .957 on average and .87 at worst, without them .997 and .99.
OUTLIERS = {"l0.f2": [573], "l1.f1": [334], "l2.f1": [334], "l3.f2": [768, 846]}


def convert(pack: GranitePack, *, exact: bool = False) -> bytes:
    """The serialised model; `exact` leaves the matrices in float32, to measure what int8 costs."""
    encoder = _GraniteEncoder(pack, exact=exact)
    x = encoder.embed("ids")
    layers: int = pack.arch["layers"]
    for layer in range(layers):
        x = encoder.layer(x, f"l{layer}", last=layer == layers - 1)
    return encoder.finish(x)


class _GraniteEncoder:
    """The encoder's parts. Every method adds nodes and returns the name of their output."""

    def __init__(self, pack: GranitePack, *, exact: bool) -> None:
        self._pack, self._exact = pack, exact
        self._graph = GraphBuilder(exact=exact)
        self._hidden: int = pack.arch["hidden"]

    def embed(self, ids: str) -> str:
        """Words and positions."""
        graph, table, plain = self._graph, self._pack.grouped["word_emb"], self._pack.plain
        values = graph.add("Cast", [graph.add("Gather", [graph.constant("words", table.values), ids])], to=1)
        scales = graph.add("Gather", [graph.constant("word_scales", table.scales[:, :, np.newaxis]), ids])
        groups = graph.add("Mul", [values, scales])
        words = graph.add("Reshape", [groups, graph.integers(0, 0, self._hidden)])
        # All tokens are of type 0, and positions start at the offset: both are constants of the graph.
        positions = plain["pos_emb"][self._pack.arch["position_offset"] :] + plain["type_emb"][0]
        length = graph.add("Shape", [ids], start=1, end=2)
        used = graph.add("Slice", [graph.constant("positions", positions), graph.integers(0), length])
        return self._norm(graph.add("Add", [words, used]), "emb_ln")

    def layer(self, x: str, name: str, *, last: bool) -> str:
        """One layer of the encoder; the last one returns only the first token."""
        graph = self._graph
        if last:
            rest = self._hidden
            queried = graph.add("Slice", [x, *(graph.integers(number) for number in (0, 1, 1))])
            query = self._linear(queried, f"{name}.qkv", slice(0, rest), suffix=".q")
            both = self._linear(x, f"{name}.qkv", slice(rest, None), suffix=".kv")
            heads = [query, *graph.split(both, 2, axis=2)]
        else:
            queried = x
            heads = graph.split(self._linear(x, f"{name}.qkv"), 3, axis=2)
        attended = graph.add(
            "MultiHeadAttention", heads, domain=MICROSOFT, num_heads=self._pack.arch["heads"]
        )
        attended = graph.add("Add", [queried, self._linear(attended, f"{name}.ao")])
        attended = self._norm(attended, f"{name}.aln")
        # Microsoft's Gelu is the exact one (erf) that the model was trained with.
        inner = graph.add("Gelu", [self._linear(attended, f"{name}.f1")], domain=MICROSOFT)
        return self._norm(graph.add("Add", [attended, self._linear(inner, f"{name}.f2")]), f"{name}.fln")

    def finish(self, x: str) -> bytes:
        """The vector of the first token."""
        pooled = self._graph.add("Squeeze", [x, self._graph.integers(1)])
        return self._graph.serialise("granite", pooled, self._hidden)

    def _linear(self, x: str, name: str, rows: slice = slice(None), suffix: str = "") -> str:
        graph = self._graph
        weights = self._pack.grouped[f"{name}.w"].dense()[rows].T
        bias = graph.constant(f"{name}.b{suffix}", self._pack.plain[f"{name}.b"][rows])
        outliers = None if self._exact else OUTLIERS.get(name)
        if outliers is None:
            return graph.linear(x, weights, bias, name + suffix)
        mask = np.ones(len(weights), np.float32)
        mask[outliers] = 0
        rest = graph.add("Mul", [x, graph.constant(f"{name}.kept", mask)])
        outlier_inputs = graph.add("Gather", [x, graph.integers(*outliers)], axis=-1)
        product = graph.add("MatMul", [outlier_inputs, graph.constant(f"{name}.outliers", weights[outliers])])
        # Zeroed in the weights too, so that they don't widen the columns' scales.
        rest = graph.linear(rest, weights * mask[:, np.newaxis], bias, name)
        return graph.add("Add", [rest, product])

    def _norm(self, x: str, name: str) -> str:
        weights, bias = (self._pack.plain[f"{name}.{part}"] for part in "wb")
        return self._graph.norm(x, weights, bias, name, self._pack.arch["layer_norm_eps"])
