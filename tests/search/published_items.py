"""Creates published documents directly, without a worker."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gristmill import catalog, contents
from gristmill.catalog import Base, Item, ItemId, NewItem
from gristmill.contents import FinishedVersion, NewContentPart, NewVersion
from gristmill.db import Database, Tx
from gristmill.search import Chunk, publish
from gristmill.search.publish import VersionChunks
from tests.embedding.hashed import HashedEmbedder

EMBEDDER = HashedEmbedder()


async def new_base(db: Database, name: str = "mill", acl: Sequence[str] = ()) -> Base:
    async with db.transaction() as tx:
        base = await catalog.insert_base(
            tx,
            name=name,
            embedder=EMBEDDER.name,
            embedder_identity=EMBEDDER.identity,
            dimensions=EMBEDDER.dimensions,
            chunking={},
            acl=acl,
        )
    assert base is not None
    return base


def chunks_of(texts: Sequence[str]) -> list[Chunk]:
    chunks: list[Chunk] = []
    start = 0
    for index, text in enumerate(texts):
        chunks.append(
            Chunk(index, text, start, start + len(text), (), EMBEDDER.vector(text).astype(np.float32))
        )
        start += len(text) + 1
    return chunks


async def file_note(
    tx: Tx,
    base: Base,
    title: str,
    *texts: str,
    parent: ItemId | None = None,
    acl: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Item:
    """Create a published note with these chunks."""
    body = "\n".join(texts)
    new = NewItem("note", title, title, body=body, acl=acl, metadata=metadata or {})
    (item,) = await catalog.insert_items(tx, base.id, parent, [new])
    await write(tx, base, [(item, 1, chunks_of(texts))], content=body)
    await publish_version(tx, [item], 1, len(texts))
    return item


async def write(
    tx: Tx, base: Base, batch: Sequence[tuple[Item, int, Sequence[Chunk]]], content: str | None = None
) -> None:
    """Write chunks of versions that are not live yet, with their content if it is given."""
    for item, version, _ in batch if content is not None else ():
        digest = item.id.bytes * 2
        await contents.ensure_contents(tx, [digest])
        await contents.insert_content_parts(tx, [NewContentPart(digest, 0, content or "", None)])
        await contents.mark_contents_complete(tx, {digest: (len(content or ""), [])})
        await contents.save_versions(tx, [NewVersion(item.id, version, digest, "test")])
    versions = [VersionChunks(item.id, item.title, version, chunks) for item, version, chunks in batch]
    await publish.write(tx, base.chunk_set, publish.prepare_write(versions))


async def publish_version(tx: Tx, items: Sequence[Item], version: int, chunks: int) -> None:
    """Make a version of each item live."""
    await contents.publish(tx, [FinishedVersion(item.id, version, chunks, [], None, {}) for item in items])
    await catalog.derive_statuses_above(tx, [item.id for item in items])


async def file_folder(
    tx: Tx, base: Base, title: str, parent: ItemId | None = None, acl: list[str] | None = None
) -> Item:
    """Create an expanded folder."""
    new = NewItem("directory", title, title, acl=acl)
    (item,) = await catalog.insert_items(tx, base.id, parent, [new])
    await catalog.mark_expanded(tx, [catalog.ExpandedContainer(item.id, 1, {})])
    return item
