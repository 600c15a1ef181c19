"""granite-embedding-30m-english as an ONNX graph that onnxruntime runs fast on a CPU.

A RoBERTa encoder: 6 layers of 12 heads, width 384; a text's vector is the last hidden state of its first token. The
graph takes `ids` (texts, tokens), all of one length, and returns `vectors` (texts, 384) of length 1. It is
written in its final form, so onnxruntime has nothing left to optimise. Design decisions, measured on two cores:

- Matrices are int8, one scale per output column, and activations are quantised as they come, with one scale
  per run. So a run takes one text: its vector then depends on that text alone, and batching padded texts
  gained nothing (48 texts/s of 200 tokens, alone as well as in batches of four and eight).
- 7 bits (±63), not 8: processors without VNNI add pairs of products in 16 bits, which 8 would overflow.
- A few channels are left out of the int8 product (`OUTLIERS`).
- The word table stays as it is in the pack, int8 in groups of 64: exact, and a quarter of float32's memory.
- Add and LayerNormalization, not the fused SkipLayerNormalization, which takes four times as long.
- The last layer computes only the first token; the other tokens contribute keys and values: 14 % less work.

A change that affects the vectors must increase `RECIPE` in local.py.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from gristmill.embedding.pack import Pack

# Input channels that are huge for the first or the last token of any text (up to 257, where the others stay
# below 8), measured over English, Chinese, code and noise. With them in the int8 product, the common scale leaves the
# others no resolution: cosine to the exact vectors .957 on average and .87 at worst, without them .997 and .99.
OUTLIERS = {"l0.f2": [573], "l1.f1": [334], "l2.f1": [334], "l3.f2": [768, 846]}

_MAX_INT = 63
_MICROSOFT = "com.microsoft"


def convert(pack: Pack, *, exact: bool = False) -> bytes:
    """The serialised model; `exact` leaves the matrices in float32, to measure what int8 costs."""
    graph = _Graph(pack, exact=exact)
    x = graph.embed("ids")
    layers: int = pack.arch["layers"]
    for layer in range(layers):
        x = graph.layer(x, f"l{layer}", last=layer == layers - 1)
    return graph.finish(x)


class _Graph:
    """A graph under construction. Every method adds nodes and returns the name of their output."""

    def __init__(self, pack: Pack, *, exact: bool) -> None:
        self._pack = pack
        self._exact = exact
        self._hidden: int = pack.arch["hidden"]
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def embed(self, ids: str) -> str:
        """Words and positions."""
        table = self._pack.grouped["word_emb"]
        values = self._add("Cast", [self._add("Gather", [self._constant("words", table.values), ids])], to=1)
        scales = self._add("Gather", [self._constant("word_scales", table.scales[:, :, np.newaxis]), ids])
        groups = self._add("Mul", [values, scales])
        words = self._add("Reshape", [groups, self._integers(0, 0, self._hidden)])
        # All tokens are of type 0, and positions start at the offset: both are constants of the graph.
        plain = self._pack.plain
        positions = plain["pos_emb"][self._pack.arch["position_offset"] :] + plain["type_emb"][0]
        length = self._add("Shape", [ids], start=1, end=2)
        used = self._add("Slice", [self._constant("positions", positions), self._integers(0), length])
        return self._norm(self._add("Add", [words, used]), "emb_ln")

    def layer(self, x: str, name: str, *, last: bool) -> str:
        """One layer of the encoder; the last one returns only the first token."""
        if last:
            rest = self._hidden
            queried = self._add("Slice", [x, *(self._integers(number) for number in (0, 1, 1))])
            query = self._linear(queried, f"{name}.qkv", slice(0, rest), suffix=".q")
            both = self._linear(x, f"{name}.qkv", slice(rest, None), suffix=".kv")
            heads = [query, *self._split(both, 2)]
        else:
            queried = x
            heads = self._split(self._linear(x, f"{name}.qkv"), 3)
        attended = self._add(
            "MultiHeadAttention", heads, domain=_MICROSOFT, num_heads=self._pack.arch["heads"]
        )
        attended = self._add("Add", [queried, self._linear(attended, f"{name}.ao")])
        attended = self._norm(attended, f"{name}.aln")
        # Microsoft's Gelu is the exact one (erf) that the model was trained with.
        inner = self._add("Gelu", [self._linear(attended, f"{name}.f1")], domain=_MICROSOFT)
        return self._norm(self._add("Add", [attended, self._linear(inner, f"{name}.f2")]), f"{name}.fln")

    def finish(self, x: str) -> bytes:
        """Name the inputs and outputs, and serialise."""
        pooled = self._add("Squeeze", [x, self._integers(1)])
        self._nodes.append(helper.make_node("LpNormalization", [pooled], ["vectors"], axis=-1, p=2))
        graph = helper.make_graph(
            self._nodes,
            "granite",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"])],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", self._hidden])],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_MICROSOFT, 1)]
        # The IR version is pinned, because a newer `onnx` would write one that an older onnxruntime rejects.
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()

    def _linear(self, x: str, name: str, rows: slice = slice(None), suffix: str = "") -> str:
        weights = self._pack.grouped[f"{name}.w"].dense()[rows].T
        bias = self._constant(f"{name}.b{suffix}", self._pack.plain[f"{name}.b"][rows])
        if self._exact:
            product = self._add("MatMul", [x, self._constant(f"{name}.w{suffix}", weights)])
            return self._add("Add", [product, bias])
        outliers = OUTLIERS.get(name)
        if outliers is None:
            return self._int8_product(x, weights, bias, name + suffix)
        mask = np.ones(len(weights), np.float32)
        mask[outliers] = 0
        rest = self._add("Mul", [x, self._constant(f"{name}.kept", mask)])
        outlier_inputs = self._add("Gather", [x, self._integers(*outliers)], axis=-1)
        product = self._add("MatMul", [outlier_inputs, self._constant(f"{name}.outliers", weights[outliers])])
        # Zeroed in the weights too, so that they don't widen the columns' scales.
        rest = self._int8_product(rest, weights * mask[:, np.newaxis], bias, name)
        return self._add("Add", [rest, product])

    def _int8_product(self, x: str, weights: NDArray[np.float32], bias: str, name: str) -> str:
        scales = np.abs(weights).max(axis=0) / np.float32(_MAX_INT)
        quantised = np.rint(weights / scales).astype(np.int8)
        inputs = [x, self._constant(f"{name}.int8", quantised), self._constant(f"{name}.scales", scales)]
        return self._add("DynamicQuantizeMatMul", [*inputs, "", bias], domain=_MICROSOFT)

    def _norm(self, x: str, name: str) -> str:
        weights = [self._constant(f"{name}.{part}", self._pack.plain[f"{name}.{part}"]) for part in "wb"]
        epsilon: float = self._pack.arch["layer_norm_eps"]
        return self._add("LayerNormalization", [x, *weights], axis=-1, epsilon=epsilon)

    def _split(self, x: str, parts: int) -> list[str]:
        outputs = [f"{x}.{part}" for part in range(parts)]
        self._nodes.append(helper.make_node("Split", [x], outputs, axis=2, num_outputs=parts))
        return outputs

    def _add(self, kind: str, inputs: Sequence[str], *, domain: str = "", **attributes: float) -> str:
        output = f"{kind}.{len(self._nodes)}"
        node = helper.make_node(kind, inputs, [output], domain=domain)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self._nodes.append(node)
        return output

    def _integers(self, *numbers: int) -> str:
        return self._constant(f"integers.{numbers}", np.array(numbers, np.int64))

    def _constant(self, name: str, values: NDArray[np.generic]) -> str:
        self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name
