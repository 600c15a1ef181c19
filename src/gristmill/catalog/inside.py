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
class EmbeddedDocument:
    """A document that was found inside another: its path there, and its bytes, which are kept as a blob."""

    number: int
    name: str
    blob: bytes
    size: int

    @property
    def mark(self) -> bytes:
        """What makes it the same thing as another inside the same content."""
        return hashlib.sha256(self.name.encode() + b"\0" + self.blob).digest()[:16]


@dataclass(frozen=True)
class Child:
    """An embedded document that is filed."""

    id: ItemId
    source_key: str
    blob: bytes | None
    status: str
    listed_version: int


async def keep_embedded(tx: Tx, found: Sequence[tuple[bytes, EmbeddedDocument]]) -> None:
    """Keep what was found inside contents; what is there stays as it is."""
    if found:
        await queries.run(
            tx,
            "keep_embedded",
            contents=[content for content, _ in found],
            marks=[one.mark for _, one in found],
            numbers=[one.number for _, one in found],
            names=[one.name for _, one in found],
            blobs=[one.blob for _, one in found],
            sizes=[one.size for _, one in found],
        )


async def embedded_in(tx: Tx, content: bytes) -> list[EmbeddedDocument]:
    """The documents that were found inside a content, in order."""
    return await queries.many(tx, EmbeddedDocument, "embedded_in", content=content)


async def children_of(tx: Tx, parent_id: ItemId) -> list[Child]:
    """The embedded documents that are filed below a document."""
    return await queries.many(tx, Child, "children_of", parent=parent_id)


async def embedded_elsewhere(tx: Tx, item_id: ItemId) -> int:
    """How many embedded documents the outermost document above this one holds, beside this one's own children."""
    return (await queries.values(tx, "embedded_elsewhere", id=item_id))[0]


async def is_filed(tx: Tx, item_id: ItemId, version: int, content: bytes) -> bool:
    """Whether the embedded documents of a version are filed, as this content has them."""
    return bool(await queries.values(tx, "filed_for", id=item_id, version=version, content=content))


async def refile(tx: Tx, found: Sequence[tuple[ItemId, EmbeddedDocument]], version: int) -> list[Item]:
    """Want children anew, with the bytes that their document has for them now."""
    if not found:
        return []
    return await queries.many(
        tx,
        Item,
        "refile",
        version=version,
        ids=[item_id for item_id, _ in found],
        blobs=[one.blob for _, one in found],
        sizes=[one.size for _, one in found],
    )


async def stay_filed(tx: Tx, ids: Sequence[ItemId], version: int) -> None:
    """Leave children as they are: their document's new version has them too."""
    if ids:
        await queries.run(tx, "stay_filed", ids=list(ids), version=version)


async def set_filed(tx: Tx, item_id: ItemId, version: int, content: bytes) -> None:
    """The embedded documents of a version are filed, as this content has them."""
    await queries.run(tx, "set_filed", id=item_id, version=version, content=content)
