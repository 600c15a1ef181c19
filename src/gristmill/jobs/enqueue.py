"""Enqueues jobs in the caller's transaction: one statement for few, COPY for many.

COPY costs a third of a statement with as many rows, for client and server. It can't skip a job whose key a living job has.
That is rare, so COPY is tried in a savepoint, and jobs that it refuses go through the statement, which can.
"""

import contextlib
import json
from collections.abc import Sequence
from uuid import UUID

import psycopg

from gristmill.db import Tx
from gristmill.jobs.job import Enqueued, JobId, NewJob, Priority, Work
from gristmill.jobs.store import queries

COPY_THRESHOLD = 32  # from this number on a third round trip pays off
_NULL = "\\N"
_COPY_ROWS = 1000
_RowPrefixes = dict[tuple[type[Work], str, Priority | None], str]


async def enqueue(tx: Tx, *new_jobs: NewJob) -> list[Enqueued]:
    """Enqueue jobs; for each, in order, the new job or the living one with its key."""
    for pool in sorted({job.work.pool for job in new_jobs if job.work.pool}):
        lanes = {job.lane for job in new_jobs if job.work.pool == pool}
        await queries.run(tx, "set_pool", pool=pool, lanes=sorted(lanes))
    if len(new_jobs) >= COPY_THRESHOLD and all(job.delay is None for job in new_jobs):
        with contextlib.suppress(psycopg.errors.UniqueViolation):
            async with tx.transaction():
                return await _copy(tx, new_jobs)
    return await _insert(tx, new_jobs) if new_jobs else []


async def _insert(tx: Tx, new_jobs: Sequence[NewJob]) -> list[Enqueued]:
    due_jobs = [job for job in new_jobs if job.delay is None]
    jobs_json = "[" + ",".join(map(_job_json, new_jobs)) + "]"
    return await queries.many(
        tx, Enqueued, "enqueue", jobs=jobs_json, count=len(new_jobs), **_lane_parameters(due_jobs)
    )


async def _copy(tx: Tx, new_jobs: Sequence[NewJob]) -> list[Enqueued]:
    first_id: UUID
    (first_id,) = await queries.values(tx, "wake_lanes", **_lane_parameters(new_jobs))
    # The following ids differ in their random part: they keep the order, and are as unique as the first.
    start = first_id.int
    prefixes: _RowPrefixes = {}
    async with tx.cursor() as cursor, cursor.copy(queries["copy_jobs"]) as copy:
        for begin in range(0, len(new_jobs), _COPY_ROWS):
            batch = new_jobs[begin : begin + _COPY_ROWS]
            lines = [_copy_row(start + begin + n, job, prefixes) for n, job in enumerate(batch)]
            await copy.write("".join(lines))
        # Built before COPY ends, while the server is still busy with the last rows.
        return [Enqueued(JobId(UUID(int=start + n)), created=True) for n in range(len(new_jobs))]


def _lane_parameters(due_jobs: Sequence[NewJob]) -> dict[str, list[str]]:
    return {
        "lanes": sorted({job.lane for job in due_jobs}),
        "urgent": sorted({job.lane for job in due_jobs if _priority(job) is Priority.INTERACTIVE}),
    }


def _priority(job: NewJob) -> Priority:
    return job.work.priority if job.priority is None else job.priority


def _job_json(job: NewJob) -> str:
    work = job.work
    subject = work.subject()
    fields = {
        "kind": work.kind,
        "lane": job.lane,
        "priority": int(_priority(job)),
        "workload": job.workload,
        "attempts": work.attempts,
        "key": work.key(),
        "subject": None if subject is None else str(subject),
        "delay": None if job.delay is None else f"{job.delay.total_seconds():f} s",
    }
    return f'{json.dumps(fields)[:-1]},"payload":{work.payload()}}}'


def _copy_row(number: int, job: NewJob, prefixes: _RowPrefixes) -> str:
    """A row in COPY's text format; the part that jobs of a kind and lane share is built once."""
    work = job.work
    prefix = prefixes.get((type(work), job.lane, job.priority))
    if prefix is None:
        prefix_text = f"\t{work.kind}\t{_copy_text(job.lane)}\t{_priority(job).value}\t{work.attempts}\t"
        prefix = prefixes[type(work), job.lane, job.priority] = prefix_text
    key, subject = work.key(), work.subject()
    payload = work.payload().replace("\\", "\\\\")  # JSON has no other character that COPY would interpret
    return (
        f"{number:032x}{prefix}{job.workload}\t{_NULL if key is None else _copy_text(key)}"
        f"\t{subject or _NULL}\t{payload}\n"
    )


def _copy_text(text: str) -> str:
    if "\\" not in text and text.isprintable():
        return text
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
