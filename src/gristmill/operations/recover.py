"""recover: make bases ready again that failed because of their embedder, once the embedder is the right one again.

    its documents   each dead job that the embedder's change ended is retried, one transaction each
    the base        one transaction: lock it, look again, failed → ready, with its event

Documents that ended for want of another setting are retried the same way: sound and video, once something transcribes them.

A process reads its settings when it starts, so it looks then; and the server looks when an embedder was stored. Killed before the base is ready: the next start finds it and the
rest of its documents. Where workers run with different settings, one that has the wrong ones fails the base again.
"""

import logging

from gristmill import catalog, events, jobs
from gristmill.catalog import Base, BaseStatus
from gristmill.db import Database, Tx
from gristmill.embedding import Embedders
from gristmill.errors import Conflict, Invalid, NotFound
from gristmill.events import BaseRestored
from gristmill.jobs import JobId
from gristmill.operations.retry import retry

log = logging.getLogger(__name__)

CAUSE = "embedder_changed"
_BATCH_SIZE = 500  # dead jobs that one query lists


async def recover_bases(db: Database, embedders: Embedders) -> int:
    """Recover every base that failed because of its embedder and has the right one now; how many."""
    async with db.connection() as tx:
        failed = await catalog.find_failed_bases(tx, CAUSE)
    recovered = 0
    for base in failed:
        async with db.connection() as tx:
            has_its_embedder = await _has_its_embedder(tx, base, embedders)
        if not has_its_embedder:
            continue
        retried = await retry_documents(db, base)
        if await _restore(db, base):
            log.warning("a failed base has its embedder again", extra={"base": base.id, "retried": retried})
            recovered += 1
    return recovered


async def _has_its_embedder(tx: Tx, base: Base, embedders: Embedders) -> bool:
    try:
        return (await embedders.find(tx, base.embedder, base.org_id)).identity == base.embedder_identity
    except Invalid:
        return False


async def _restore(db: Database, base: Base) -> bool:
    async with db.transaction() as tx:
        locked = await catalog.lock_base(tx, base.id)
        if locked is None or locked.status is not BaseStatus.FAILED or locked.error_code != CAUSE:
            return False
        await catalog.set_base_status(tx, base.id, BaseStatus.READY)
        await events.record(tx, BaseRestored(base.id))
    return True


async def retry_documents(db: Database, base: Base) -> int:
    """Retry the documents of a base whose jobs ended because its embedder had changed; how many."""
    return await retry_by_cause(db, CAUSE, base.lane)


async def retry_by_cause(db: Database, code: str, lane: str | None = None) -> int:
    """Retry the dead jobs that ended with this error, of a base or of all, because its cause is gone; how many."""
    retried = 0
    before: JobId | None = None
    while True:
        async with db.connection() as tx:
            dead = await jobs.find_jobs(tx, limit=_BATCH_SIZE, before=before, state="dead", lane=lane)
        for job in dead:
            if job.errors and job.errors[-1].get("code") == code:
                try:
                    await retry(db, job.id)
                    retried += 1
                except (Conflict, NotFound):
                    continue  # another process retried it first, or its work is no longer wanted
        if len(dead) < _BATCH_SIZE:
            return retried
        before = dead[-1].id
