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
from gristmill.db import Database, Queries, Unavailable
from gristmill.db.migrate import known
from gristmill.embedding import Embedder
from gristmill.errors import GristmillError

LOW_DISK = 1 << 30
_PATIENCE = 1.0  # seconds that a look waits for the embedder
_ASK_AGAIN, _ASK_SOON = 60.0, 5.0  # seconds: an answer may cost money, a failure may have passed

queries = Queries(__package__ or "gristmill.operations")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    why: str | None = None
    required: bool = False


class Readiness:
    """What a process leans on; asked as often as anybody likes."""

    def __init__(self, db: Database, embedder: Embedder, folder: Path | None) -> None:
        self._db, self._embedder, self._folder = db, embedder, folder
        self._schema = known()[-1].number
        self._asked: asyncio.Task[Check] | None = None
        self._at = 0.0

    async def look(self) -> list[Check]:
        """All checks; those on a database that does not answer are left out."""
        return [*await self._stored(), await self._embeds(), *self._disk()]

    async def close(self) -> None:
        """Ask no longer."""
        if self._asked is not None:
            self._asked.cancel()
            await asyncio.gather(self._asked, return_exceptions=True)

    async def _stored(self) -> list[Check]:
        try:
            async with self._db.connection() as tx:
                schema = (await queries.values(tx, "schema_number"))[0]
                workers = await jobs.count_workers(tx)
        except Unavailable as error:
            return [Check("database", False, error.message, required=True)]
        told = f"It is {schema}, and this release knows {self._schema}: start the same release everywhere."
        idle = "No process runs jobs: start `gristmill serve` or `gristmill worker`."
        return [
            Check("database", True, required=True),
            Check("schema", schema == self._schema, None if schema == self._schema else told, required=True),
            Check("workers", workers > 0, None if workers else idle),
        ]

    async def _embeds(self) -> Check:
        if self._asked is None or (self._asked.done() and monotonic() > self._at):
            self._asked = asyncio.create_task(self._ask(), name="embedder check")
        done, _ = await asyncio.wait([self._asked], timeout=_PATIENCE)
        if done:
            return self._asked.result()
        return Check("embedder", False, f"{self._embedder.name} is being loaded, or takes long to answer.")

    async def _ask(self) -> Check:
        try:
            await self._embedder.embed_query("Does the mill turn?")
        except GristmillError as error:
            self._at = monotonic() + _ASK_SOON
            # Its words may name hosts; whoever asks this may be anybody.
            return Check("embedder", False, f"{self._embedder.name} does not answer ({error.code}).")
        self._at = monotonic() + _ASK_AGAIN
        return Check("embedder", True)

    def _disk(self) -> list[Check]:
        if self._folder is None:
            return []
        there = next(place for place in (self._folder, *self._folder.parents) if place.exists())
        enough = shutil.disk_usage(there).free >= LOW_DISK
        return [Check("disk", enough, None if enough else "Less than 1 GiB is free: free some space.")]
