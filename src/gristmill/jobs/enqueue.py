"""Putting jobs into the queue, in the caller's transaction: one statement for few, COPY for many.

COPY costs a third of a statement with as many rows, on both sides. It can't pass over a key that lives; that
is rare, so it is tried in a savepoint, and what it refuses goes through the statement, which can.
"""

import contextlib
import json
from collections.abc import Sequence
from uuid import UUID

import psycopg

from gristmill.db import Tx
from gristmill.jobs.job import Band, Enqueued, JobId, NewJob, Work
from gristmill.jobs.store import queries

MANY = 32  # from here on a third round trip is worth it
_NULL = "\\N"
_COPY_ROWS = 1000
_Shapes = dict[tuple[type[Work], str, Band | None], str]


async def enqueue(tx: Tx, *new: NewJob) -> list[Enqueued]:
    """Queue jobs; for each, in order, the job that now lives."""
    if len(new) >= MANY and all(job.delay is None for job in new):
        with contextlib.suppress(psycopg.errors.UniqueViolation):
            async with tx.transaction():
                return await _copy(tx, new)
    return await _insert(tx, new) if new else []


async def _insert(tx: Tx, new: Sequence[NewJob]) -> list[Enqueued]:
    due = [job for job in new if job.delay is None]
    jobs = "[" + ",".join(map(_as_json, new)) + "]"
    return await queries.many(tx, Enqueued, "enqueue", jobs=jobs, count=len(new), **_lanes(due))


async def _copy(tx: Tx, new: Sequence[NewJob]) -> list[Enqueued]:
    first: UUID
    (first,) = await queries.values(tx, "announce", **_lanes(new))
    # The ids that follow the first one in its random part: they keep the order, and are nobody else's.
    start = first.int
    shapes: _Shapes = {}
    async with tx.cursor() as cursor, cursor.copy(queries["copy_jobs"]) as copy:
        for begin in range(0, len(new), _COPY_ROWS):
            part = new[begin : begin + _COPY_ROWS]
            lines = [_as_line(start + begin + n, job, shapes) for n, job in enumerate(part)]
            await copy.write("".join(lines))
        # Before the end is waited for: the server is still busy with the last rows.
        return [Enqueued(JobId(UUID(int=start + n)), created=True) for n in range(len(new))]


def _lanes(due: Sequence[NewJob]) -> dict[str, list[str]]:
    return {
        "lanes": sorted({job.lane for job in due}),
        "urgent": sorted({job.lane for job in due if _band(job) is Band.INTERACTIVE}),
    }


def _band(job: NewJob) -> Band:
    return job.work.band if job.band is None else job.band


def _as_json(job: NewJob) -> str:
    work = job.work
    subject = work.subject()
    fields = {
        "kind": work.kind,
        "lane": job.lane,
        "band": int(_band(job)),
        "workload": job.workload,
        "attempts": work.attempts,
        "key": work.key(),
        "subject": None if subject is None else str(subject),
        "delay": None if job.delay is None else f"{job.delay.total_seconds():f} s",
    }
    return f'{json.dumps(fields)[:-1]},"payload":{work.payload()}}}'


def _as_line(number: int, job: NewJob, shapes: _Shapes) -> str:
    """A row of COPY's text format; what jobs of a kind and lane share is worked out once."""
    work = job.work
    shape = shapes.get((type(work), job.lane, job.band))
    if shape is None:
        head = f"\t{work.kind}\t{_escaped(job.lane)}\t{_band(job).value}\t{work.attempts}\t"
        shape = shapes[type(work), job.lane, job.band] = head
    key, subject = work.key(), work.subject()
    payload = work.payload().replace("\\", "\\\\")  # JSON has no other character that COPY minds
    return (
        f"{number:032x}{shape}{job.workload}\t{_NULL if key is None else _escaped(key)}"
        f"\t{subject or _NULL}\t{payload}\n"
    )


def _escaped(text: str) -> str:
    if "\\" not in text and text.isprintable():
        return text
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
