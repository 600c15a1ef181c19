"""Readiness: whether this process can work, and if not, why.

    check        required   passes when
    database     yes        it responds
    schema       yes        it is the version of this release
    workers      no         a process runs jobs
    embedder     no         the default embedder embedded a short text within the last minute
    index        no         the search engine of the settings responds; skipped without one
    disk         no         a gibibyte is free for uploads; skipped when they are stored elsewhere

Without a required check no request can be served; without the others some work waits, and reads are served. Checks change
nothing and never wait long: a slow embedder is reported as such, while its probe goes on.
"""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from gristmill import jobs
from gristmill.db import Database, DatabaseUnavailable
from gristmill.db.migrate import list_migrations
from gristmill.embedding import Embedder
from gristmill.errors import GristmillError
from gristmill.integrity import store
from gristmill.search.index.engine_indexes import NO_ENGINE, EngineIndexes

MIN_FREE_BYTES = 1 << 30
_EMBEDDER_TIMEOUT = 1.0  # seconds that a check waits for the embedder
_INDEX_TIMEOUT = 1.0  # seconds that a check waits for the search engine
_RECHECK_AFTER_SUCCESS = 60.0  # seconds: a probe may cost money
_RECHECK_AFTER_FAILURE = 5.0  # seconds: a failure may have passed


@dataclass(frozen=True)
class ReadinessCheck:
    """The result of one check."""

    name: str
    ok: bool
    why: str | None = None
    required: bool = False


class Readiness:
    """Checks what a process depends on; cheap enough to run for every probe."""

    def __init__(
        self, db: Database, embedder: Embedder, folder: Path | None, indexes: EngineIndexes = NO_ENGINE
    ) -> None:
        self._db, self._embedder, self._folder, self._indexes = db, embedder, folder, indexes
        self._schema = list_migrations()[-1].number
        self._probe_task: asyncio.Task[ReadinessCheck] | None = None
        self._next_probe_at = 0.0

    async def run_checks(self) -> list[ReadinessCheck]:
        """All checks; without a database those that need it are left out."""
        return [
            *await self._check_database(),
            await self._check_embedder(),
            *await self._check_index(),
            *self._check_disk(),
        ]

    async def close(self) -> None:
        """Stop the probe of the embedder."""
        if self._probe_task is not None:
            self._probe_task.cancel()
            await asyncio.gather(self._probe_task, return_exceptions=True)

    async def _check_database(self) -> list[ReadinessCheck]:
        try:
            async with self._db.connection() as tx:
                schema = await store.schema_number(tx)
                workers = await jobs.count_workers(tx)
        except DatabaseUnavailable as error:
            return [ReadinessCheck("database", False, error.message, required=True)]
        mismatch = f"The schema is {schema}, but this release needs {self._schema}. Start the same release everywhere."
        no_workers = "No process runs jobs. Start `gristmill serve` or `gristmill worker`."
        return [
            ReadinessCheck("database", True, required=True),
            ReadinessCheck(
                "schema", schema == self._schema, None if schema == self._schema else mismatch, required=True
            ),
            ReadinessCheck("workers", workers > 0, None if workers else no_workers),
        ]

    async def _check_embedder(self) -> ReadinessCheck:
        if self._probe_task is None or (self._probe_task.done() and monotonic() > self._next_probe_at):
            self._probe_task = asyncio.create_task(self._probe_embedder(), name="embedder check")
        done, _ = await asyncio.wait([self._probe_task], timeout=_EMBEDDER_TIMEOUT)
        if done:
            return self._probe_task.result()
        return ReadinessCheck("embedder", False, f"{self._embedder.name} is loading or slow to respond.")

    async def _probe_embedder(self) -> ReadinessCheck:
        try:
            await self._embedder.embed_query("Does the embedder respond?")
        except GristmillError as error:
            self._next_probe_at = monotonic() + _RECHECK_AFTER_FAILURE
            # The message may name hosts, and anyone can call this endpoint.
            return ReadinessCheck(
                "embedder", False, f"{self._embedder.name} does not respond ({error.code})."
            )
        self._next_probe_at = monotonic() + _RECHECK_AFTER_SUCCESS
        return ReadinessCheck("embedder", True)

    async def _check_index(self) -> list[ReadinessCheck]:
        try:
            health = await asyncio.wait_for(self._indexes.health(), _INDEX_TIMEOUT)
        except TimeoutError:
            return [ReadinessCheck("index", False, "The search engine is slow to respond.")]
        if health is None:
            return []
        is_down = health.status == "down"
        why = (
            "The search engine can't be reached, or lacks data. Searches in its bases fail until it is back."
        )
        return [ReadinessCheck("index", not is_down, why if is_down else None)]

    def _check_disk(self) -> list[ReadinessCheck]:
        if self._folder is None:
            return []
        existing = next(place for place in (self._folder, *self._folder.parents) if place.exists())
        has_enough = shutil.disk_usage(existing).free >= MIN_FREE_BYTES
        return [
            ReadinessCheck(
                "disk",
                has_enough,
                None if has_enough else "Less than 1 GiB of disk space is free. Free some space.",
            )
        ]
