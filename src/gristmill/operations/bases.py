"""Making and finding knowledge bases."""

from typing import Any

from gristmill import catalog
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.embedding import Embedder
from gristmill.errors import Conflict


async def create(db: Database, name: str, embedder: Embedder, chunking: dict[str, Any]) -> Base:
    """Create a base whose vectors `embedder` makes; its name must be free."""
    async with db.transaction() as tx:
        created = await catalog.insert_base(
            tx,
            name=name,
            embedder=embedder.name,
            embedder_identity=embedder.identity,
            dimensions=embedder.dimensions,
            chunking=chunking,
        )
        if created is None:
            raise Conflict(f"A knowledge base named {name!r} exists already.", code="base_name_taken")
        return created
