"""Whether this process can do its work, and what keeps it from it.

    check        required   holds when
    database     yes        it answers
    schema       yes        it is the one that this release knows
    workers      no         some process runs jobs
    embedder     no         the default embedder answered a short question, within the last minute
    disk         no         a gibibyte is free for uploads; not looked at when they are kept elsewhere

Without what is required nothing can be answered; without the rest something waits, and reads are served. Looking changes nothing,
and never waits long: an embedder that takes its time is told as such, and asked on meanwhile.
"""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from gristmill import jobs
from gristmill.db import Database, DatabaseUnavailable, Queries
from gristmill.db.migrate import known_migrations
from gristmill.embedding import Embedder
from gristmill.errors import GristmillError

MIN_FREE_BYTES = 1 << 30
_EMBEDDER_TIMEOUT = 1.0  # seconds that a look waits for the embedder
_RECHECK_AFTER_SUCCESS, _RECHECK_AFTER_FAILURE = (
    60.0,
    5.0,
)  # seconds: an answer may cost money, a failure may have passed

queries = Queries(__package__ or "gristmill.operations")


@dataclass(frozen=True)
class ReadinessCheck:
    """One thing that was looked at."""

    name: str
    ok: bool
    why: str | None = None
    required: bool = False


class Readiness:
    """What a process leans on; asked as often as anybody likes."""

    def __init__(self, db: Database, embedder: Embedder, folder: Path | None) -> None:
        self._db, self._embedder, self._folder = db, embedder, folder
        self._schema = known_migrations()[-1].number
        self._probe_task: asyncio.Task[ReadinessCheck] | None = None
        self._next_probe_at = 0.0

    async def run_checks(self) -> list[ReadinessCheck]:
        """All checks; those on a database that does not answer are left out."""
        return [*await self._check_database(), await self._check_embedder(), *self._check_disk()]

    async def close(self) -> None:
        """Ask no longer."""
        if self._probe_task is not None:
            self._probe_task.cancel()
            await asyncio.gather(self._probe_task, return_exceptions=True)

    async def _check_database(self) -> list[ReadinessCheck]:
        try:
            async with self._db.connection() as tx:
                schema = (await queries.values(tx, "schema_number"))[0]
                workers = await jobs.count_workers(tx)
        except DatabaseUnavailable as error:
            return [ReadinessCheck("database", False, error.message, required=True)]
        mismatch = (
            f"It is {schema}, and this release knows {self._schema}: start the same release everywhere."
        )
        no_workers = "No process runs jobs: start `gristmill serve` or `gristmill worker`."
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
        return ReadinessCheck(
            "embedder", False, f"{self._embedder.name} is being loaded, or takes long to answer."
        )

    async def _probe_embedder(self) -> ReadinessCheck:
        try:
            await self._embedder.embed_query("Does the mill turn?")
        except GristmillError as error:
            self._next_probe_at = monotonic() + _RECHECK_AFTER_FAILURE
            # Its words may name hosts; whoever asks this may be anybody.
            return ReadinessCheck("embedder", False, f"{self._embedder.name} does not answer ({error.code}).")
        self._next_probe_at = monotonic() + _RECHECK_AFTER_SUCCESS
        return ReadinessCheck("embedder", True)

    def _check_disk(self) -> list[ReadinessCheck]:
        if self._folder is None:
            return []
        existing = next(place for place in (self._folder, *self._folder.parents) if place.exists())
        has_enough = shutil.disk_usage(existing).free >= MIN_FREE_BYTES
        return [
            ReadinessCheck(
                "disk", has_enough, None if has_enough else "Less than 1 GiB is free: free some space."
            )
        ]
