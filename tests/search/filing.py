"""Documents that are there at once: filed, written and published as a worker would, without one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gristmill import catalog
from gristmill.catalog import Base, Item, ItemId, NewItem
from gristmill.db import Database, Tx
from gristmill.search import Chunk, publish
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
    made: list[Chunk] = []
    start = 0
    for index, text in enumerate(texts):
        made.append(
            Chunk(index, text, start, start + len(text), (), EMBEDDER.vector(text).astype(np.float32))
        )
        start += len(text) + 1
    return made


async def file_note(
    tx: Tx,
    base: Base,
    title: str,
    *texts: str,
    parent: ItemId | None = None,
    acl: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Item:
    """A note of these chunks, searchable."""
    body = "\n".join(texts)
    new = NewItem("note", title, title, body=body, acl=acl, metadata=metadata or {})
    (item,) = await catalog.insert_items(tx, base.id, parent, [new])
    await catalog.keep_content(tx, item.id, 1, digest=item.id.bytes * 2, text=body, title=title)
    await publish.write(tx, item, 1, chunks_of(texts))
    await catalog.publish(tx, item.id, 1, chunks=len(texts), warnings=[])
    return item


async def file_folder(
    tx: Tx, base: Base, title: str, parent: ItemId | None = None, acl: list[str] | None = None
) -> Item:
    """A container that is listed."""
    new = NewItem("directory", title, title, acl=acl)
    (item,) = await catalog.insert_items(tx, base.id, parent, [new])
    await catalog.set_expanded(tx, item.id, 1)
    return item
