"""gunzip: decompresses piece by piece, so that a caller that counts can stop a bomb before it expands."""

import zlib
from collections.abc import Iterator

MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 64 * 1024


class Gunzip:
    """One gzip stream of any number of members. Raises `zlib.error` for anything else."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._ended = False

    @property
    def is_complete(self) -> bool:
        """Whether the last member is complete."""
        return self._ended

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress `data` lazily, in pieces of at most 64 KiB."""
        while data:
            if self._ended:
                if not data.startswith(MAGIC[: len(data)]):
                    return  # padding after the last member, as on tapes
                self._member, self._ended = zlib.decompressobj(_GZIP), False
            # The decompressor may hold output after it took all input: repeat until it returns nothing.
            piece = self._member.decompress(data, _PIECE)
            while piece:
                yield piece
                piece = self._member.decompress(self._member.unconsumed_tail, _PIECE)
            self._ended = self._member.eof
            data = self._member.unused_data if self._ended else self._member.unconsumed_tail
