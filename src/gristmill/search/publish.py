"""Makes a version searchable: chunks are written beside what answers, then one transaction switches.

    begin    nothing of the version is there (an earlier attempt's rows are dropped)
    write    batches, each in a fenced transaction of its own
    publish  item → completed with the new version, the old version's rows gone, the job done: all or nothing

Killed anywhere before publish: the old version answers, and the next attempt begins again.
"""

from collections.abc import Sequence

from gristmill import catalog, faults, jobs
from gristmill.catalog import Item
from gristmill.db import Database
from gristmill.jobs import Job
from gristmill.search import store
from gristmill.search.rows import Chunk


async def begin(db: Database, job: Job, item: Item, version: int) -> None:
    """Clear the place for `version`."""
    async with db.transaction() as tx:
        await jobs.fence(tx, job)
        await store.drop_version(tx, item.base_id, item.id, version)


async def write(db: Database, job: Job, item: Item, version: int, chunks: Sequence[Chunk]) -> None:
    """Write one batch of the version."""
    async with db.transaction() as tx:
        await jobs.fence(tx, job)
        await store.write(tx, item.base_id, item.id, version, chunks)


async def publish(
    db: Database, job: Job, item: Item, version: int, *, chunks: int, warnings: Sequence[str]
) -> bool:
    """Switch to `version` and complete the job; False when the version is no longer wanted."""
    async with db.transaction() as tx:
        await jobs.complete(tx, job)
        published = await catalog.publish(tx, item.id, version, chunks=chunks, warnings=warnings)
        if published:
            await store.drop_other_versions(tx, item.base_id, item.id, version)
        else:
            await store.drop_version(tx, item.base_id, item.id, version)
        await faults.point("publish.before_commit")
    await faults.point("publish.committed")
    return published
