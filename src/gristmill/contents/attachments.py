"""Documents inside documents (attachments of mails, OLE objects, entries of archives): stored with the content that holds them.

Each attachment of an item's version is also filed as a child item; the catalog keeps those (`catalog/tree.py`).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.contents.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class ContentAttachment:
    """A document inside a content: its path there, and the blob of its bytes."""

    number: int
    name: str
    blob: bytes
    size: int

    @property
    def fingerprint(self) -> bytes:
        """Equal for attachments of equal name and bytes: a content holds each once."""
        return hashlib.sha256(self.name.encode() + b"\0" + self.blob).digest()[:16]


async def insert_attachments(tx: Tx, attachments: Sequence[tuple[bytes, ContentAttachment]]) -> None:
    """Store attachments of contents; those that exist stay as they are."""
    if attachments:
        await queries.run(
            tx,
            "insert_attachments",
            contents=[content for content, _ in attachments],
            fingerprints=[attachment.fingerprint for _, attachment in attachments],
            numbers=[attachment.number for _, attachment in attachments],
            names=[attachment.name for _, attachment in attachments],
            blobs=[attachment.blob for _, attachment in attachments],
            sizes=[attachment.size for _, attachment in attachments],
        )


async def content_attachments(tx: Tx, content: bytes) -> list[ContentAttachment]:
    """The attachments of a content, in order."""
    return await queries.many(tx, ContentAttachment, "content_attachments", content=content)
