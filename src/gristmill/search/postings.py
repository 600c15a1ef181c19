"""Which chunks of a segment hold a lexeme, and how often, in few bytes. Pure.

    first byte    then, for the n chunks that hold it, by their place in the segment
    0             n places of 4 bytes, n counts of 1
    1             n places of 2 bytes, n counts of 1     segments of at most 65,536 chunks
    2             a bit for each chunk, n counts of 1    lexemes that many chunks hold

A count above 255 is 255: BM25 has long stopped growing there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]
Counts = NDArray[np.uint8]

_WIDE, _NARROW, _BITS = b"\0", b"\1", b"\2"


@dataclass(frozen=True, slots=True)
class Postings:
    """Places in a segment, rising, and the count at each."""

    places: Places
    counts: Counts


def pack(postings: Postings, chunks: int) -> bytes:
    """The bytes for a segment of so many chunks."""
    places, counts = postings.places, postings.counts
    width = 2 if chunks <= 1 << 16 else 4
    if len(places) * width > (chunks + 7) // 8:
        held = np.zeros(chunks, bool)
        held[places] = True
        return _BITS + np.packbits(held).tobytes() + counts.tobytes()
    if width == 2:
        return _NARROW + places.astype(">u2").tobytes() + counts.tobytes()
    return _WIDE + places.astype(">i4").tobytes() + counts.tobytes()


def unpack(data: bytes, chunks: int) -> Postings:
    """What `pack` packed."""
    form = data[:1]
    if form == _BITS:
        end = 1 + (chunks + 7) // 8
        held = np.unpackbits(np.frombuffer(data, np.uint8, end - 1, 1), count=chunks)
        places = np.flatnonzero(held).astype(np.int32)
        return Postings(places, np.frombuffer(data, np.uint8, offset=end))
    width, kind = (2, ">u2") if form == _NARROW else (4, ">i4")
    count = (len(data) - 1) // (width + 1)
    places = np.frombuffer(data, kind, count, 1).astype(np.int32)
    return Postings(places, np.frombuffer(data, np.uint8, count, 1 + width * count))


def join(parts: Sequence[tuple[Postings, NDArray[np.int64]]]) -> Postings | None:
    """The postings of several segments as those of one; each brings the new place of its chunks, -1 for those that
    are gone. None when nothing is left."""
    places = np.concatenate([moved[postings.places] for postings, moved in parts])
    counts = np.concatenate([postings.counts for postings, _ in parts])
    left = places >= 0
    places, counts = places[left], counts[left]
    if not len(places):
        return None
    order = np.argsort(places, kind="stable")
    return Postings(places[order].astype(np.int32), counts[order])
