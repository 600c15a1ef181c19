"""One watched folder: collects the paths that changed, and applies them in batches, for as long as this worker has its watch.

    few paths change        each is compared with its item, and only these
    a burst of paths        one comparison of the whole folder, by a job. So it is when the operating system's queue of changes overflows,
                            which is reported as a change of the folder itself
    a path is gone          removed `REMOVAL_DELAY` later, unless it is back: a moved file leaves one path and appears at another
    it is being listed      a comparison by a job, which waits for the listing

A worker that is killed loses the paths that it had collected. Its successor compares the folder once.
"""

import asyncio
import logging
import time
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from gristmill import catalog, clock, faults, jobs
from gristmill.catalog import Item, watches
from gristmill.db import Database, Tx
from gristmill.db.outage import Outage
from gristmill.errors import GristmillError, WorkError
from gristmill.ingest.refresh.folder_changes import FolderWriter
from gristmill.ingest.refresh.folder_scan import FolderComparison, folder_rules
from gristmill.ingest.source_changes import Interrupted
from gristmill.jobs import NewJob, Priority
from gristmill.sources.disk import DiskAccess
from gristmill.work import RefreshContainer

log = logging.getLogger(__name__)

BURST = 2_000
REMOVAL_DELAY = timedelta(seconds=1)
_FEW = 10  # changes that someone may wait for
_RETRY_DELAY = timedelta(seconds=1)


class WatchedFolder:
    """Applies the changes of one folder."""

    def __init__(self, db: Database, root: Item, disk: DiskAccess, owner: UUID) -> None:
        self._db, self.root, self._disk, self._owner = db, root, disk, owner
        self.path = Path(root.source["path"])
        self._changed: set[Path] = set()
        self._gone: dict[str, float] = {}
        self._must_compare = True  # what changed before the watch began
        self._wake = asyncio.Event()
        self._wake.set()

    def add(self, paths: set[Path]) -> None:
        """Note paths that changed. The folder itself is among them if more has changed than is known."""
        if self._must_compare:
            return
        self._changed |= paths
        if self.path in self._changed or len(self._changed) >= BURST:
            self.compare_all()
        self._wake.set()

    def compare_all(self) -> None:
        """Compare the whole folder: more has changed than is known."""
        self._must_compare = True
        self._changed.clear()
        self._gone.clear()
        self._wake.set()

    async def run(self) -> None:
        """Apply changes until cancelled."""
        outage, failures = Outage(log, "the database"), Outage(log, f"the watch of {self.path}")
        while True:
            await clock.wait(self._wake, self._until_removal())
            self._wake.clear()
            try:
                await self._apply()
                outage.clear()
                failures.clear()
            except GristmillError as error:
                self.compare_all()
                await outage.wait(error.message)
            except Exception as error:  # a bug must not end the watch
                self.compare_all()
                await failures.wait_unexpected(error)

    def _until_removal(self) -> timedelta | None:
        if self._must_compare:
            return _RETRY_DELAY
        if not self._gone:
            return None
        return timedelta(seconds=max(0.0, min(self._gone.values()) - time.monotonic()))

    async def _apply(self) -> None:
        if self._must_compare:
            self._must_compare = False  # what changes from here on, the comparison may have passed already
            self._must_compare = not await self._queue_comparison() or self._must_compare
            return
        paths, self._changed = self._changed, set()
        due = [path for path, at in self._gone.items() if at <= time.monotonic()]
        if not paths and not due:
            return
        await faults.point("watch.changed")
        try:
            await self._apply_paths(paths, due)
        except Interrupted:
            self.compare_all()
        except WorkError:
            self.compare_all()  # the job reports the error

    async def _apply_paths(self, paths: set[Path], due: list[str]) -> None:
        rules = await folder_rules(self._db, self.root)
        if rules is None:
            return
        priority = Priority.INTERACTIVE if len(paths) <= _FEW else Priority.NORMAL
        writer = FolderWriter(self._db, self.root, self._prove_watch, uuid4())
        scan = FolderComparison(self._db, self.root, rules, self._disk, writer)
        if paths:
            gone = await scan.compare_paths(sorted(paths), priority)
            at = time.monotonic() + REMOVAL_DELAY.total_seconds()
            self._gone |= dict.fromkeys(gone, at)
        if due:
            await scan.remove(due, priority)
            for path in due:
                self._gone.pop(path, None)

    async def _prove_watch(self, tx: Tx) -> bool:
        return await watches.fence_watch(tx, self.root.id, self._owner)

    async def _queue_comparison(self) -> bool:
        """Queue a comparison of the whole folder; False if one is at work already, which may have passed what changed."""
        async with self._db.transaction() as tx:
            base = await catalog.find_base(tx, self.root.base_id)
            if base is None or not await self._prove_watch(tx):
                return True
            work = RefreshContainer(base.id, self.root.id)
            (job,) = await jobs.enqueue(tx, NewJob(work, lane=base.lane, priority=Priority.NORMAL))
        await faults.point("watch.queued")
        return job.created
