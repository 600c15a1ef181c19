"""A worker and a searcher for bases in one kind of index, for tests that say the same of every index."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gristmill.catalog import ADMIN, Base, BaseId, IndexKind, Item, NewItem, Viewer
from gristmill.db import Database
from gristmill.ingest.update_index import queue_updates
from gristmill.operations import bases
from gristmill.operations.add import ItemToAdd
from gristmill.search import Filters, Hit, Searcher, SearchRequest, Target
from gristmill.search.index import opensearch_queries as queries
from gristmill.search.index.engine import Space
from gristmill.search.index.engine_indexes import NO_ENGINE, EngineIndexes
from gristmill.search.index.opensearch import OpenSearch
from gristmill.settings import Settings
from gristmill.sources import NoteSource
from tests.embedding.hashed import HashedEmbedder
from tests.operations.manual_worker import ManualWorker
from tests.search.opensearch_cluster import Cluster

EMBEDDER = HashedEmbedder()
PREFIX = "test"  # of the indexes that tests share
_JOBS = 200


@dataclass
class IndexSetup:
    """Writes and searches bases as the program does."""

    kind: IndexKind
    db: Database
    worker: ManualWorker
    searcher: Searcher = field(repr=False)

    @classmethod
    async def start(
        cls, kind: IndexKind, db: Database, settings: Settings, indexes: EngineIndexes = NO_ENGINE
    ) -> "IndexSetup":
        """A worker and a searcher with this search engine."""
        worker = await ManualWorker.start(db, settings, EMBEDDER, indexes=indexes)
        return cls(kind, db, worker, Searcher(db, cache_bytes=2**22, indexes=indexes))

    async def base(self, name: str = "mill", chunking: dict[str, Any] | None = None, **fields: Any) -> Base:
        """A new base in this index."""
        return await bases.create(self.db, name, EMBEDDER, chunking or {}, index_kind=self.kind, **fields)

    async def add(self, base: Base, *entries: ItemToAdd, **options: Any) -> list[Item]:
        """Add items and index them."""
        items = await self.worker.add(base, *entries, **options)
        await self.work()
        return items

    async def add_notes(self, base: Base, *texts: str) -> list[Item]:
        """Add notes whose titles are their texts, and index them."""
        return await self.add(base, *(note(text) for text in texts))

    async def work(self) -> None:
        """Run all jobs, many at once, until there are none, and until the engine has learnt everything."""
        while await queue_updates(self.db) + len(claimed := await self.worker.claim(_JOBS)):
            await asyncio.gather(*(self.worker.run(job) for job in claimed))

    async def search(
        self,
        base: Base,
        query: str,
        mode: Any = "text",
        *,
        viewer: Viewer = ADMIN,
        filters: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[Hit]:
        """The hits of a search."""
        request = SearchRequest(query, mode=mode, viewer=viewer, filters=Filters(**filters or {}), **options)
        return await self.searcher.search([Target(base, EMBEDDER)], request)

    async def titles(self, base: Base, query: str, mode: Any = "text", **options: Any) -> list[str]:
        """The titles of the hits of a search."""
        return [hit.title for hit in await self.search(base, query, mode, **options)]


def note(text: str, title: str | None = None, **fields: Any) -> ItemToAdd:
    """A note to add."""
    title = title or text
    return ItemToAdd(NewItem("note", title, title, body=text, **fields), NoteSource(text, title))


@asynccontextmanager
async def connect(cluster: Cluster) -> AsyncGenerator[EngineIndexes]:
    """The indexes that tests share in a cluster."""
    indexes = EngineIndexes(OpenSearch(cluster.urls, prefix=PREFIX))
    try:
        yield indexes
    finally:
        await indexes.close()


def points(cluster: Cluster, base: BaseId) -> list[dict[str, Any]]:
    """All points of a base that the cluster has, by number: what was written, whether searches see it or not."""
    cluster.http.post(f"{cluster.urls[0]}/{PREFIX}-*/_refresh").raise_for_status()
    body = {"query": {"term": {"base": str(base)}}, "size": 10_000, "sort": [{"no": "asc"}]}
    answer = cluster.http.post(f"{cluster.urls[0]}/{PREFIX}-*/_search", json=body).raise_for_status().json()
    return [hit["_source"] for hit in answer["hits"]["hits"]]


def copy_points(cluster: Cluster, base: BaseId, copy: BaseId) -> None:
    """Copy all points of a base to another id."""
    lines: list[Any] = []
    for point in points(cluster, base):
        lines += [{"create": queries.address(copy, point["no"])}, {**point, "base": str(copy)}]
    if lines:
        bulk(cluster, *lines)


def bulk(cluster: Cluster, *lines: Any) -> None:
    """Change documents of the index behind the program's back."""
    alias = f"{PREFIX}-{Space(EMBEDDER.identity, EMBEDDER.dimensions).key}"
    answer = cluster.http.post(
        f"{cluster.urls[0]}/{alias}/_bulk?refresh=true",
        content="".join(f"{json.dumps(line)}\n" for line in lines),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert not answer.raise_for_status().json()["errors"]
