"""The port: a source can be asked whether it is there, and read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Original:
    """What a source held when it was read.

    A source that is told more than the bytes passes it on: `media_type` and `charset` as the sender named
    them, `final_url` after redirects, and in `metadata` what tells later whether it changed (`etag`,
    `last_modified`).
    """

    data: bytes
    name: str
    media_type: str | None = None
    charset: str | None = None
    final_url: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


class Source(Protocol):
    """Something that a document can be read from."""

    async def probe(self) -> int:
        """Its size in bytes. Raises Permanent when it can't be read, Transient when it may be later."""
        ...

    async def read(self) -> Original:
        """Its bytes, under the same errors."""
        ...
