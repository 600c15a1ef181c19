"""gunzip: inflated piece by piece, so that whoever counts the pieces stops a bomb before it unfolds."""

import zlib
from collections.abc import Iterator

MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 64 * 1024


class Gunzip:
    """One gzip stream of any number of members. Raises `zlib.error` when it is none."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._ended = False

    @property
    def is_complete(self) -> bool:
        """Whether the last member has come to its end."""
        return self._ended

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` inflates to, in pieces of at most 64 KiB, each made when it is asked for."""
        while data:
            if self._ended:
                if not data.startswith(MAGIC[: len(data)]):
                    return  # padding after the last member, as tape archives have
                self._member, self._ended = zlib.decompressobj(_GZIP), False
            # Output may be left inside when all input has gone in: a full piece means to ask again.
            piece = self._member.decompress(data, _PIECE)
            while piece:
                yield piece
                piece = self._member.decompress(self._member.unconsumed_tail, _PIECE)
            self._ended = self._member.eof
            data = self._member.unused_data if self._ended else self._member.unconsumed_tail
