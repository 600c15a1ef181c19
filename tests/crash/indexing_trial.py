"""Indexes a folder with a worker that is killed repeatedly, and reports the result.

The kills come at random moments: after some more texts, and then a little later, so that they interrupt the
reading, the embedding and the writing. Each restart continues from what the last one left.
"""

import random
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from gristmill import clock
from gristmill.catalog import BaseId, NewItem
from gristmill.db import Database
from gristmill.db.migrate import migrate
from gristmill.integrity import invariants
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases
from gristmill.operations.source_factory import FolderSource
from tests.crash.event_consumers import Daemon
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment
from tests.wait_until import wait_until

ROOT = Path(__file__).parents[2]
WIDE = QueueLimits(lane=10_000_000, total=10_000_000)

Index = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class TrialResult:
    """The final index, the number of texts embedded for it, and how often the worker was killed."""

    index: Index
    statuses: dict[str, int]
    texts_embedded: int
    kills: int
    violations: list[Any]


@dataclass(frozen=True)
class IndexingTrial:
    """An indexing of `folder` in the database at `url`; each text takes the embedder `pause` seconds."""

    url: str
    folder: Path
    scratch: Path
    cache_dir: Path
    pause: float
    dimensions: int = 64
    lease: str = "PT1S"
    slots: int = 32
    limit: float = 60.0

    async def run(self, kills: list[tuple[int, float]]) -> TrialResult:
        """Index the folder; each kill is a number of further texts and a delay in seconds."""
        await migrate(self.url)
        db = Database(self.url)
        await db.open()
        daemon = self._daemon()
        try:
            base_id = await self._add(db)
            await daemon.start()
            for texts, delay in kills:
                if not await self._wait_for_texts(db, base_id, self._count() + texts):
                    break
                await clock.pause(timedelta(seconds=delay))
                await daemon.restart_after_kill()
            await wait_until(lambda: _at_rest(db, base_id), limit=self.limit, every=0.1)
            return TrialResult(
                await index(db, base_id),
                await _statuses(db, base_id),
                self._count(),
                daemon.kills,
                await _violations(db),
            )
        finally:
            daemon.kill()
            await db.close()

    def _daemon(self) -> Daemon:
        settings = {
            "database_url": self.url,
            "lease": self.lease,
            "embedder": "hashed",
            "log_level": "error",
            "worker_slots": str(self.slots),
        }
        env = {**environment(self.scratch / "data", self.cache_dir, **settings), "PYTHONPATH": str(ROOT)}
        arguments = ["tests.ingest.worker", str(self.dimensions), str(self.pause), str(self._count_file)]
        return Daemon(arguments, env, self.scratch / "log")

    @property
    def _count_file(self) -> Path:
        return self.scratch / "counted"

    def _count(self) -> int:
        return self._count_file.stat().st_size if self._count_file.exists() else 0

    async def _add(self, db: Database) -> BaseId:
        base = await bases.create(db, "killed", HashedEmbedder(dimensions=self.dimensions), {})
        new = NewItem(
            "directory", "folder", str(self.folder), source={"path": str(self.folder), "local": True}
        )
        await add.add(db, base.id, [add.ItemToAdd(new, FolderSource(self.folder))], WIDE)
        return base.id

    async def _wait_for_texts(self, db: Database, base_id: BaseId, texts: int) -> bool:
        """Wait until so many texts are embedded; False when all was done before."""

        async def progress() -> str | None:
            if self._count() >= texts:
                return "worked"
            return "done" if await _at_rest(db, base_id) else None

        return await wait_until(progress, limit=self.limit, every=0.01) == "worked"


def kill_schedule(rng: random.Random, kills: int, texts: int, max_delay: float) -> list[tuple[int, float]]:
    """Kills at random moments of the first nine tenths of a run of `texts` texts."""
    each = 0.9 * texts / kills
    return [
        (rng.randint(round(each / 2), round(1.5 * each)), rng.uniform(0, max_delay)) for _ in range(kills)
    ]


async def index(db: Database, base_id: BaseId) -> Index:
    """The searchable chunks of each item."""
    async with db.connection() as tx:
        rows = await (
            await tx.execute(
                'select i.source_key, c.index, c.text, c.start, c."end", c.headings, c.embedding::text'
                "  from item i join chunk c on c.item_id = i.id and c.set_id = i.base_id"
                "                          and c.version = i.live_version"
                " where i.base_id = %s order by 1, 2",
                [base_id],
            )
        ).fetchall()
    chunks: Index = {}
    for key, *chunk in rows:
        chunks.setdefault(key, []).append(tuple(chunk))
    return chunks


def differing_items(first: Index, second: Index) -> list[str]:
    """The items whose chunks differ."""
    return sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key))


async def _at_rest(db: Database, base_id: BaseId) -> bool:
    async with db.connection() as tx:
        row = await (await tx.execute("select ingested from base where id = %s", [base_id])).fetchone()
    return bool(row and row[0])


async def _statuses(db: Database, base_id: BaseId) -> dict[str, int]:
    async with db.connection() as tx:
        cursor = await tx.execute(
            "select coalesce(error_code, status), count(*)::int from item"
            " where base_id = %s and type <> 'directory' group by 1",
            [base_id],
        )
        return dict(await cursor.fetchall())


async def _violations(db: Database) -> list[Any]:
    async with db.connection() as tx:
        return list(await invariants.find_violations(tx))
