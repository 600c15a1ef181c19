"""The search engine of the settings, and the index of each base that is in it."""

import asyncio
from collections import defaultdict

from gristmill.catalog import Base, BaseId
from gristmill.search.index.engine import Engine, EngineIndex, Health, IndexUnavailable, Space


class EngineIndexes:
    """Gives each base in the engine its index; prepares an index when it is first used."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine
        self._prepared: dict[Space, EngineIndex] = {}
        self._locks: defaultdict[Space, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(self, base: Base) -> EngineIndex:
        """The index that has the points of a base."""
        if self.engine is None:
            raise IndexUnavailable(
                "This base is in a search engine, and this process knows none. Set GRISTMILL_INDEX_URL and restart."
            )
        space = Space(base.embedder_identity, base.dimensions)
        async with self._locks[space]:
            if space not in self._prepared:
                self._prepared[space] = await self.engine.prepare(space)
        return self._prepared[space]

    async def drop(self, base_id: BaseId) -> None:
        """Remove all points of a base that is gone."""
        if self.engine is not None:
            await self.engine.drop(base_id)

    async def health(self) -> Health | None:
        """The health of the engine; None if there is none."""
        return None if self.engine is None else await self.engine.health()

    async def close(self) -> None:
        """Close the connections."""
        if self.engine is not None:
            await self.engine.close()


NO_ENGINE = EngineIndexes()
