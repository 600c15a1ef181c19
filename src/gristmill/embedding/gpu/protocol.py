"""What a client and the GPU process send each other, over a socket of this machine.

    request     number, model, count │ lengths of the texts │ their tokens
    response    number, count, dimensions │ vectors

All integers are uint32, and vectors are float16, the precision in which they are stored.
"""

import asyncio
import struct
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Tokens: TypeAlias = NDArray[np.uint32]
HalfVectors: TypeAlias = NDArray[np.float16]
_HEADER = struct.Struct("<III")

# In the folder of the process.
SOCKET = "gpu.sock"
LOCK = "gpu.lock"  # held by the process as long as it lives


def tokens(ids: Sequence[int]) -> Tokens:
    """The tokens of a text."""
    return np.array(ids, np.uint32)


def encode_request(number: int, model: int, texts: Sequence[Tokens]) -> bytes:
    """The bytes of a request."""
    lengths = np.array([len(text) for text in texts], np.uint32)
    return b"".join(
        [_HEADER.pack(number, model, len(texts)), lengths.tobytes(), *(text.tobytes() for text in texts)]
    )


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int, list[Tokens]]:
    """Number, model and texts of the next request."""
    number, model, count = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    lengths = np.frombuffer(await reader.readexactly(4 * count), np.uint32)
    ids = np.frombuffer(await reader.readexactly(4 * int(lengths.sum())), np.uint32)
    return number, model, np.split(ids, np.cumsum(lengths)[:-1])


def encode_vectors(number: int, vectors: HalfVectors) -> bytes:
    """The bytes of a response."""
    return _HEADER.pack(number, *vectors.shape) + vectors.tobytes()


async def read_response(reader: asyncio.StreamReader) -> tuple[int, HalfVectors]:
    """The number of a request, and its vectors."""
    number, count, width = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    data = await reader.readexactly(2 * count * width)
    return number, np.frombuffer(data, np.float16).reshape(count, width)
