"""Write files of a folder, and compare it with its items."""

import os
from pathlib import Path

from gristmill import jobs
from gristmill.catalog import Base, Item
from gristmill.jobs import NewJob
from gristmill.work import RefreshContainer
from tests.operations.manual_worker import ManualWorker

LONG_AGO = 1_700_000_000


def write(path: Path, text: str, at: int = LONG_AGO) -> None:
    """Write a file that was last changed at this time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(at * 10**9 + 1, at * 10**9 + 1))


async def compare(worker: ManualWorker, base: Base, root: Item) -> None:
    """Compare a folder with the disk, and index what differs."""
    async with worker.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(RefreshContainer(base.id, root.id), lane=base.lane))
    await worker.work()
