"""A base whose embedder is exchanged: its notes, the embedders, and what a search of it returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill import catalog
from gristmill.catalog import ADMIN, Base, ChunkSetId, Swap, Viewer
from gristmill.db import Database
from gristmill.embedding import Embedders
from gristmill.embedding.embedder import Vectors, unit_vectors
from gristmill.operations import bases, swap_embedder
from gristmill.search import Hit, Mode, Searcher, SearchRequest, Target
from gristmill.settings import Settings
from tests.embedding.hashed import HashedEmbedder
from tests.embedding.probes import without_probes
from tests.ingest.counting import CountingEmbedder
from tests.operations.manual_worker import ManualWorker, note_to_add

WORDS = [
    "rye",
    "oats",
    "barley",
    "millet",
    "spelt",
    "wheat",
    "maize",
    "sorghum",
    "quinoa",
    "teff",
    "bran",
    "flour",
    "husk",
    "sieve",
    "stone",
    "sack",
    "cart",
    "river",
    "wheel",
    "weir",
]
NOTES = 12


class RandomEmbedder(HashedEmbedder):
    """A bad model: the vector of a text says nothing about it."""

    def vector(self, text: str) -> Vectors:
        seed = np.frombuffer(text.encode()[:256].ljust(256, b"\0"), np.uint32)
        return unit_vectors(np.random.default_rng(seed).standard_normal(self.dimensions).astype(np.float32))


def other_embedder(name: str = "other", dimensions: int = 96) -> CountingEmbedder:
    """Another good embedder, which counts."""
    embedder = CountingEmbedder()
    embedder.name, embedder.dimensions, embedder.identity = name, dimensions, f"{name}/1/{dimensions}"
    return embedder


def bad_embedder() -> RandomEmbedder:
    """A bad embedder."""
    embedder = RandomEmbedder("bad", dimensions=48)
    embedder.identity = "random/1"
    return embedder


def text_of(number: int) -> str:
    """Some sentences in words that other texts have too, and one of its own."""
    words = [WORDS[(number * 7 + step * (number + 3)) % len(WORDS)] for step in range(24)]
    sentences = [" ".join(words[at : at + 8]) for at in (0, 8, 16)]
    return (
        f"# The {WORDS[number % 20]} of mill {number}\n\n"
        + ". ".join(sentences)
        + f". Mill number{number} grinds."
    )


@dataclass
class SwapSetup:
    """A base of notes, a worker, and the embedders."""

    worker: ManualWorker
    base: Base
    embedders: dict[str, Any]
    registry: Embedders

    @classmethod
    async def start(cls, db: Database, settings: Settings, embedder: str = "hashed") -> "SwapSetup":
        """A base of twelve notes with an embedder."""
        embedders: dict[str, Any] = {
            "hashed": CountingEmbedder(),
            "other": other_embedder(),
            "bad": bad_embedder(),
        }
        worker = await ManualWorker.start(
            db, settings, embedders["hashed"], others={name: embedders[name] for name in ("other", "bad")}
        )
        registry = Embedders(settings, settings.cache_dir, embedders)
        base = await bases.create(db, "one", embedders[embedder], {})
        setup = cls(worker, base, embedders, registry)
        await setup.fill()
        return setup

    @property
    def db(self) -> Database:
        """The database."""
        return self.worker.db

    @property
    def paid(self) -> list[str]:
        """The texts that the other embedder got."""
        return without_probes(self.embedders["other"].texts)

    async def fill(self, notes: int = NOTES) -> None:
        """Add notes and index them."""
        await self.worker.add(self.base, *(note_to_add(f"note-{n}", text_of(n)) for n in range(notes)))
        await self.worker.work()

    async def current(self) -> Base:
        """The base as it is now."""
        async with self.db.connection() as tx:
            base = await catalog.find_base(tx, self.base.id)
        assert base is not None
        return base

    async def swap(self, name: str = "other", **more: Any) -> Swap:
        """Ask for another embedder."""
        return await swap_embedder.swap(self.db, self.base.id, self.embedders[name], **more)

    async def last(self) -> Swap:
        """The latest swap."""
        async with self.db.connection() as tx:
            swap = await catalog.last_swap(tx, self.base.id)
        assert swap is not None
        return swap

    async def work(self) -> None:
        """Run all jobs, delayed ones too."""
        await self.worker.make_due()
        while await self.worker.work():
            await self.worker.make_due()

    async def search(self, query: str, mode: Mode = "hybrid", viewer: Viewer = ADMIN) -> list[Hit]:
        """Search as the server does."""
        base = await self.current()
        request = SearchRequest(query, mode=mode, viewer=viewer, limit=50)
        target = Target(base, self.embedders[base.embedder])
        return await Searcher(self.db, cache_bytes=2**20).search([target], request)

    async def sets_of(self, hits: Sequence[Hit]) -> set[ChunkSetId]:
        """The sets that hits come from."""
        rows = await self.worker.rows(
            "select distinct set_id from chunk where id = any (%s)", [hit.chunk_id for hit in hits]
        )
        return {row[0] for row in rows}

    async def find_incomplete(self) -> list[Any]:
        """Items of which the live set has not exactly the live version, or vectors of another size; by a query of its own."""
        base = await self.current()
        return await self.worker.rows(
            "select i.title, i.chunk_count from item i where i.base_id = %s and i.live_version is not null and ("
            " not exists (select from chunk c where c.set_id = %s and c.item_id = i.id and c.version = i.live_version)"
            " or i.chunk_count <> (select count(*) from chunk c where c.set_id = %s and c.item_id = i.id)"
            " or exists (select from chunk c where c.set_id = %s and c.item_id = i.id"
            "             and vector_dims(c.embedding) <> %s))",
            base.id,
            *[base.chunk_set] * 3,
            base.dimensions,
        )

    async def assert_healthy(self) -> None:
        """Assert that nothing is missing, stuck or left over."""
        assert await self.find_incomplete() == []
        await self.worker.assert_healthy()
        assert await self.worker.reconcile() == {}
