"""Builds ONNX graphs that onnxruntime runs fast on a CPU. Every method adds nodes and returns the name of their output.

Matrices are int8, one scale per output column, and activations are quantised as they come, with one scale per run. So a run
takes one text: its vector then depends on that text alone. Weights have 7 bits (±63), not 8: processors without VNNI add pairs
of products in 16 bits, which 8 would overflow.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
_MAX_INT = 63


class GraphBuilder:
    """A graph under construction; with `exact`, its matrices stay float32, to measure what int8 costs."""

    def __init__(self, *, exact: bool = False) -> None:
        self._exact = exact
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def add(self, kind: str, inputs: Sequence[str], *, domain: str = "", **attributes: float | str) -> str:
        """Add a node with one output."""
        output = f"{kind}.{len(self._nodes)}"
        node = helper.make_node(kind, inputs, [output], domain=domain)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self._nodes.append(node)
        return output

    def split(self, x: str, parts: int, axis: int) -> list[str]:
        """Split a tensor into equal parts."""
        outputs = [f"{x}.{part}" for part in range(parts)]
        self._nodes.append(helper.make_node("Split", [x], outputs, axis=axis, num_outputs=parts))
        return outputs

    def integers(self, *numbers: int) -> str:
        """A constant list of integers, such as a shape."""
        return self.constant(f"integers.{numbers}", np.array(numbers, np.int64))

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        """A constant tensor."""
        self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def linear(self, x: str, weights: NDArray[np.float32], bias: str, name: str) -> str:
        """x · weights + bias."""
        if self._exact:
            product = self.add("MatMul", [x, self.constant(f"{name}.w", weights)])
            return self.add("Add", [product, bias]) if bias else product
        quantised, scales = quantise(weights)
        inputs = [x, self.constant(f"{name}.int8", quantised), self.constant(f"{name}.scales", scales)]
        return self.add("DynamicQuantizeMatMul", [*inputs, "", bias], domain=MICROSOFT)

    def norm(
        self, x: str, weights: NDArray[np.float32], bias: NDArray[np.float32], name: str, epsilon: float
    ) -> str:
        """Layer normalisation over the last axis. Not fused with an addition: that takes four times as long."""
        constants = [self.constant(f"{name}.w", weights), self.constant(f"{name}.b", bias)]
        return self.add("LayerNormalization", [x, *constants], axis=-1, epsilon=epsilon)

    def serialise(self, name: str, x: str, dimensions: int) -> bytes:
        """The model: `ids` (texts, tokens), all of one length, to `vectors` (texts, dimensions) of length 1."""
        self._nodes.append(helper.make_node("LpNormalization", [x], ["vectors"], axis=-1, p=2))
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"])],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", dimensions])],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        # The IR version is pinned, because a newer `onnx` would write one that an older onnxruntime rejects.
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def quantise(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A matrix as integers, and the scale of each column."""
    scales = np.abs(weights).max(axis=0) / np.float32(_MAX_INT)
    return np.rint(weights / scales).astype(np.int8), scales
