"""What is inside documents: kept with their contents, and filed as children of the items that have them.

The caller of what files has the base's turn to itself, and has proved the lease of the document's job.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class ContentAttachment:
    """A document that was found inside another: its path there, and its bytes, which are kept as a blob."""

    number: int
    name: str
    blob: bytes
    size: int

    @property
    def identity_hash(self) -> bytes:
        """What makes it the same thing as another inside the same content."""
        return hashlib.sha256(self.name.encode() + b"\0" + self.blob).digest()[:16]


@dataclass(frozen=True)
class AttachmentItem:
    """An embedded document that is filed."""

    id: ItemId
    source_key: str
    blob: bytes | None
    status: str
    listed_version: int


async def insert_attachments(tx: Tx, attachments: Sequence[tuple[bytes, ContentAttachment]]) -> None:
    """Keep what was found inside contents; what is there stays as it is."""
    if attachments:
        await queries.run(
            tx,
            "keep_embedded",
            contents=[content for content, _ in attachments],
            marks=[attachment.identity_hash for _, attachment in attachments],
            numbers=[attachment.number for _, attachment in attachments],
            names=[attachment.name for _, attachment in attachments],
            blobs=[attachment.blob for _, attachment in attachments],
            sizes=[attachment.size for _, attachment in attachments],
        )


async def content_attachments(tx: Tx, content: bytes) -> list[ContentAttachment]:
    """The documents that were found inside a content, in order."""
    return await queries.many(tx, ContentAttachment, "embedded_in", content=content)


async def attachment_items(tx: Tx, parent_id: ItemId) -> list[AttachmentItem]:
    """The embedded documents that are filed below a document."""
    return await queries.many(tx, AttachmentItem, "children_of", parent=parent_id)


async def count_other_attachments(tx: Tx, item_id: ItemId) -> int:
    """How many embedded documents the outermost document above this one holds, beside this one's own children."""
    return (await queries.values(tx, "embedded_elsewhere", id=item_id))[0]


async def has_filed_attachments(tx: Tx, item_id: ItemId, version: int, content: bytes) -> bool:
    """Whether the embedded documents of a version are filed, as this content has them."""
    return bool(await queries.values(tx, "filed_for", id=item_id, version=version, content=content))


async def request_attachment_versions(
    tx: Tx, attachments: Sequence[tuple[ItemId, ContentAttachment]], version: int
) -> list[Item]:
    """Want children anew, with the bytes that their document has for them now."""
    if not attachments:
        return []
    return await queries.many(
        tx,
        Item,
        "refile",
        version=version,
        ids=[item_id for item_id, _ in attachments],
        blobs=[attachment.blob for _, attachment in attachments],
        sizes=[attachment.size for _, attachment in attachments],
    )


async def mark_still_listed(tx: Tx, ids: Sequence[ItemId], version: int) -> None:
    """Leave children as they are: their document's new version has them too."""
    if ids:
        await queries.run(tx, "stay_filed", ids=list(ids), version=version)


async def mark_attachments_filed(tx: Tx, item_id: ItemId, version: int, content: bytes) -> None:
    """The embedded documents of a version are filed, as this content has them."""
    await queries.run(tx, "set_filed", id=item_id, version=version, content=content)
