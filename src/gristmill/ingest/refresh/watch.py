"""Watch folders: one watcher in each worker, one worker for each folder.

    every second    renew the leases of the folders that are watched here, and claim folders that no worker watches
    claimed         watch it, then compare it once: what changed before is not reported
    changed         hand the paths to the folder (`watched_folder.py`)
    killed          the leases expire; another worker claims the folders

One watch of the operating system serves all folders of a worker: the number of watches is limited.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from gristmill import catalog, clock, faults
from gristmill.catalog import ItemId, watches
from gristmill.catalog.watches import FreeWatch
from gristmill.db import Database
from gristmill.db.outage import Outage
from gristmill.errors import GristmillError, Unreadable
from gristmill.ingest.refresh.system_watch import SystemWatch
from gristmill.ingest.refresh.watch_limits import check_watchable
from gristmill.ingest.refresh.watched_folder import WatchedFolder
from gristmill.operations.source_factory import disk_access
from gristmill.sources.disk import DiskAccess

log = logging.getLogger(__name__)

_CHECK_INTERVAL = timedelta(seconds=1)
_CLAIM_BATCH = 50
_REFUSED_FOR = timedelta(minutes=5)  # before a folder that can't be watched is looked at again


class FolderWatcher:
    """Watches folders until it is stopped."""

    def __init__(self, db: Database, disk: DiskAccess, lease: timedelta) -> None:
        self._db, self._disk, self._lease = db, disk, lease
        self._owner = uuid4()
        self._folders: dict[ItemId, WatchedFolder] = {}
        self._tasks: dict[ItemId, asyncio.Task[None]] = {}
        self._refused: dict[ItemId, float] = {}
        self._system_watch: SystemWatch | None = None
        self._replacing = asyncio.Lock()  # of the system's watch

    async def run(self) -> None:
        """Watch until cancelled; then the folders are free for other workers."""
        # A slow disk holds up the checks of folders; the leases of what is watched do not wait for it.
        tasks = [
            asyncio.create_task(self._repeat(self._renew, "the leases of watched folders")),
            asyncio.create_task(self._repeat(self._check, "the watch of folders")),
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            await clock.cancel_tasks(tasks)
            await self._stop()

    async def _repeat(self, step: Callable[[], Awaitable[None]], name: str) -> None:
        outage, failures = Outage(log, "the database"), Outage(log, name)
        while True:
            try:
                await step()
                outage.clear()
                failures.clear()
            except GristmillError as error:
                await outage.wait(error.message)
            except Exception as error:  # a bug must not end the watch of all folders
                await failures.wait_unexpected(error)
            await clock.pause(min(_CHECK_INTERVAL, self._lease / 4))

    async def _renew(self) -> None:
        if not self._folders:
            return
        watched = list(self._folders)  # further ones may be claimed meanwhile
        async with self._db.transaction() as tx:
            held = await watches.renew_watches(tx, watched, self._owner, self._lease)
        await faults.point("watch.renewed")
        lost = [item_id for item_id in watched if item_id not in held]
        for item_id in lost:
            self._folders.pop(item_id, None)
            if (task := self._tasks.pop(item_id, None)) is not None:
                await clock.cancel_tasks([task])
        if lost:
            await self._follow()

    async def _check(self) -> None:
        await self._replace_folders()
        await self._claim()

    async def _replace_folders(self) -> None:
        """Watch again what was deleted, unmounted or replaced and is there again: nothing is known of what has changed in it."""
        watch = self._system_watch
        if watch is None:
            return
        if watch.is_over:
            self._system_watch = None
            await watch.stop()
            if (refusal := await self._follow()) is not None:
                await self._give_up(list(self._folders), refusal)
            self._compare(self._folders.values())
            return
        for path in await watch.find_outdated():
            folders = [folder for folder in self._folders.values() if folder.path == path]
            try:
                await watch.renew(path)
            except (OSError, RuntimeError) as error:
                await self._give_up([folder.root.id for folder in folders], _reason_of(error))
            else:
                self._compare(folders)

    def _compare(self, folders: Collection[WatchedFolder]) -> None:
        for folder in folders:
            folder.compare_all()

    async def _claim(self) -> None:
        self._refused = {item: at for item, at in self._refused.items() if at > time.monotonic()}
        async with self._db.connection() as tx:
            free = await watches.find_free_watches(tx, _CLAIM_BATCH, self._refused)
        watchable = [watch for watch in free if await self._is_watchable(watch)]
        claimed = [folder for watch in watchable if (folder := await self._claim_one(watch)) is not None]
        if claimed:
            await self._begin(claimed)

    async def _begin(self, claimed: Sequence[WatchedFolder]) -> None:
        """Watch claimed folders; if the operating system refuses all of them together, one by one."""
        self._folders |= {folder.root.id: folder for folder in claimed}
        refusal = await self._follow()
        if refusal is None:
            for folder in claimed:
                if folder.root.id in self._folders:  # still: its lease may have been lost meanwhile
                    task = asyncio.create_task(folder.run(), name=f"watch {folder.path}")
                    self._tasks[folder.root.id] = task
        elif len(claimed) == 1:
            await self._give_up([folder.root.id for folder in claimed], refusal)
        else:
            for folder in claimed:
                self._folders.pop(folder.root.id, None)
            for folder in claimed:
                await self._begin([folder])

    async def _is_watchable(self, watch: FreeWatch) -> bool:
        path = Path(watch.source["path"])
        await faults.point("watch.check")
        access = disk_access(self._disk, watch.source)
        error = await asyncio.to_thread(check_watchable, path, access, is_wanted=bool(watch.wanted))
        if error is not None:
            await self._refuse(watch.item_id, error.code, error.message)
        return error is None

    async def _claim_one(self, watch: FreeWatch) -> WatchedFolder | None:
        async with self._db.transaction() as tx:
            root = await catalog.find_item(tx, watch.item_id)
            if root is None or not await watches.claim_watch(tx, watch.item_id, self._owner, self._lease):
                return None
        return WatchedFolder(self._db, root, self._disk, self._owner)

    async def _refuse(self, item_id: ItemId, code: str, reason: str) -> None:
        self._refused[item_id] = time.monotonic() + _REFUSED_FOR.total_seconds()
        async with self._db.transaction() as tx:
            await watches.refuse_watch(tx, item_id, code, reason)

    # ── the operating system ─────────────────────────────────────────────────────────────────────────────

    async def _follow(self) -> str | None:
        """Watch the folders of now; why the operating system refuses, if it does. Those of before are then still watched."""
        async with self._replacing:
            paths = {folder.path for folder in self._folders.values()}
            try:
                if self._system_watch is None:
                    self._system_watch = await SystemWatch.start(paths, self._hand_out)
                else:
                    await self._system_watch.follow(paths)
            except (OSError, RuntimeError) as error:
                return _reason_of(error)
        return None

    async def _give_up(self, item_ids: list[ItemId], reason: str) -> None:
        error = Unreadable(
            f"The operating system refuses to watch it: {reason}. It is checked by its refresh schedule. Raise"
            " fs.inotify.max_user_watches and max_user_instances.",
            code="watch_refused",
        )
        async with self._db.transaction() as tx:
            await watches.release_watches(tx, item_ids, self._owner)
        for item_id in item_ids:
            self._folders.pop(item_id, None)
            if (task := self._tasks.pop(item_id, None)) is not None:
                await clock.cancel_tasks([task])
            await self._refuse(item_id, error.code, error.message)
        await self._follow()

    def _hand_out(self, paths: set[Path]) -> None:
        """Give changed paths to the folders that they are in; an added folder may be inside another one."""
        for folder in self._folders.values():
            inside = {path for path in paths if path.is_relative_to(folder.path)}
            if inside:
                folder.add(inside)

    async def _stop(self) -> None:
        await clock.cancel_tasks(self._tasks.values())
        if self._system_watch is not None:
            await self._system_watch.stop()
        if self._folders:
            async with self._db.transaction() as tx:
                await watches.release_watches(tx, list(self._folders), self._owner)


def _reason_of(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
