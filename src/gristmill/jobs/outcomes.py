"""How a kind of work is run, and how the outcome of an attempt is written."""

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gristmill.db import Database, Tx
from gristmill.errors import GristmillError
from gristmill.jobs import retry, store
from gristmill.jobs.job import Job, Outcome

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Handler:
    """How one kind of work is run; `on_dead` writes what the job's death means, in the transaction that buries it."""

    run: Callable[[Job], Awaitable[Outcome]]
    on_dead: Callable[[Tx, Job, GristmillError], Awaitable[None]] | None = None


async def write(db: Database, handler: Handler | None, job: Job, transition: retry.Transition) -> None:
    """Write the transition of a job that is not completed, in a transaction of its own."""
    match transition:
        case retry.Postpone(delay, counted, error):
            async with db.transaction() as tx:
                await store.postpone(tx, job, delay, counted=counted, error=error)
            if error is not None:
                fields = {**log_fields(job), "in": delay, "code": error.code, "reason": error.message}
                log.warning("job failed and will be tried again", extra=fields)
        case retry.Bury(error):
            await _bury(db, handler, job, error)
            fields = {**log_fields(job), "code": error.code, "reason": error.message}
            log.warning("job failed for good: it can be retried on the page Queue", extra=fields)
        case retry.FinishCancel():
            async with db.transaction() as tx:
                await store.finish_cancel(tx, job)
            log.info("job cancelled", extra=log_fields(job))
        case retry.Complete() | retry.Ignore():
            pass


async def _bury(db: Database, handler: Handler | None, job: Job, error: GristmillError) -> None:
    try:
        async with db.transaction() as tx:
            # The handler first: what handlers lock is locked before a job's row, here as everywhere.
            if handler is not None and handler.on_dead is not None:
                await handler.on_dead(tx, job, error)
            await store.bury(tx, job, error)
    except GristmillError:
        raise
    except Exception as bug:
        # It may go well the next time; if it never does, the job ends without it, and the reconciler finds what it
        # leaves active.
        log.exception("the death of a job could not be handled", extra=log_fields(job))
        async with db.transaction() as tx:
            if job.attempt >= job.max_attempts:
                await store.bury(tx, job, error)
            else:
                delay = retry.backoff(job.attempt, random.random())  # noqa: S311
                await store.postpone(tx, job, delay, counted=True, error=retry.internal_error(bug))


def log_fields(job: Job) -> dict[str, object]:
    """What log lines say of a job."""
    return {"job": job.id, "kind": job.kind, "subject": job.subject, "attempt": job.attempt}
