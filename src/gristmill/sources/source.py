"""The port: a source can be asked whether it is there, and read."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Original:
    """What a source held when it was read."""

    data: bytes
    name: str


class Source(Protocol):
    """Something that a document can be read from."""

    async def probe(self) -> int:
        """Its size in bytes. Raises Permanent when it can't be read, Transient when it may be later."""
        ...

    async def read(self) -> Original:
        """Its bytes, under the same errors."""
        ...
