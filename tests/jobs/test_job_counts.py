"""Counts of jobs without counting: they are those of the jobs after every change, whoever races or is killed."""

import asyncio
import random
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from gristmill import jobs
from gristmill.db import Database
from gristmill.db.listen import Listener
from gristmill.errors import Permanent, Transient
from gristmill.integrity import invariants
from gristmill.jobs import Done, Handler, Job, NewJob, Outcome, Snooze, Worker, WorkerLimits, store
from tests.jobs.sample_work import Keyed, Plain
from tests.terminate_backends import terminate_backends
from tests.wait_until import wait_until

LIMITS = WorkerLimits(
    slots=4, lane_cap=4, lease=timedelta(seconds=15), stop_grace=timedelta(milliseconds=200)
)
Counts = dict[tuple[str, str, str], int]


async def both_counts(db: Database) -> tuple[Counts, Counts]:
    """The counts, and the jobs counted, of one moment."""
    async with db.connection() as tx:
        cursor = await tx.execute(
            "select lane, kind, state::text, sum(counted)::int, sum(actual)::int from ("
            " select lane, kind, state, count as counted, 0 as actual from job_count"
            " union all select lane, kind, state, 0, 1 from job) c group by 1, 2, 3"
        )
        rows = await cursor.fetchall()
    return (
        {(lane, kind, state): counted for lane, kind, state, counted, _ in rows if counted},
        {(lane, kind, state): actual for lane, kind, state, _, actual in rows if actual},
    )


async def assert_counts_are_right(db: Database) -> Counts:
    counted, actual = await both_counts(db)
    assert counted == actual
    return counted


async def enqueue(db: Database, *new_jobs: NewJob) -> None:
    async with db.transaction() as tx:
        await jobs.enqueue(tx, *new_jobs)


async def test_jobs_are_counted_by_lane_kind_and_state(db: Database) -> None:
    await enqueue(db, *(NewJob(Plain(n), "a") for n in range(3)))
    await enqueue(db, *(NewJob(Keyed(str(n)), "b") for n in range(40)))  # by COPY
    await enqueue(db, NewJob(Plain(9), "b", delay=timedelta(hours=1)))
    expected = {("a", "plain", "queued"): 3, ("b", "keyed", "queued"): 40, ("b", "plain", "delayed"): 1}
    assert await assert_counts_are_right(db) == expected
    async with db.connection() as tx:
        await store.tick(tx)  # folds
        cursor = await tx.execute("select count(*), bool_and(folded) from job_count")
        assert await cursor.fetchone() == (3, True)
        assert await jobs.oldest_waiting_at(tx, "a") is not None
        assert await jobs.oldest_waiting_at(tx, "c") is None
    assert await assert_counts_are_right(db) == expected
    async with db.transaction() as tx:
        await jobs.cancel_lane(tx, "b")
    async with db.connection() as tx:
        await store.tick(tx)
        cursor = await tx.execute("select count(*) from job_count")
        assert await cursor.fetchone() == (1,)  # nothing is left of what is zero
    assert await assert_counts_are_right(db) == {("a", "plain", "queued"): 3}


async def test_a_change_that_is_rolled_back_is_not_counted(db: Database) -> None:
    async def give_up() -> None:
        async with db.transaction() as tx:
            await jobs.enqueue(tx, NewJob(Plain(1), "a"))
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        await give_up()
    assert await assert_counts_are_right(db) == {}


async def test_wrong_counts_are_found_and_corrected(db: Database) -> None:
    await enqueue(db, NewJob(Plain(1), "a"), NewJob(Plain(2), "b"))
    async with db.transaction() as tx:
        assert await invariants.find_violations(tx) == []
        await tx.execute("update job_count set count = count + 5 where lane = 'b'")
        await tx.execute("insert into job_count values ('c', 'plain', 'dead', 1, true)")
        found = await invariants.find_violations(tx)
        assert [(violation.promise, violation.subject) for violation in found] == [
            ("nothing_is_stuck", "b"),
            ("nothing_is_stuck", "c"),
        ]
        assert await jobs.correct_counts(tx) == 2
        assert await invariants.find_violations(tx) == []
    await assert_counts_are_right(db)


@asynccontextmanager
async def racing_workers(db: Database, count: int) -> AsyncGenerator[None]:
    """Workers whose jobs end in every way."""
    outcomes = _random_outcomes()

    async def handle(_job: Job) -> Outcome:
        await asyncio.sleep(0)
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    listeners = [Listener(db.url) for _ in range(count)]
    workers = [
        Worker(db, listener, {"plain": Handler(handle), "keyed": Handler(handle)}, LIMITS)
        for listener in listeners
    ]
    for listener in listeners:
        listener.start()
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks)
        for listener in listeners:
            await listener.stop()


def _random_outcomes() -> Generator[Outcome | Exception]:
    rng = random.Random(7)
    while True:
        yield rng.choice(
            (
                Done(),
                Done(),
                Snooze(timedelta(milliseconds=rng.randrange(50))),
                Permanent("broken"),
                Transient("not now", retry_after=timedelta(milliseconds=1)),
            )
        )


@pytest.mark.slow
async def test_counts_stay_right_while_workers_race_and_lose_their_connections(db: Database) -> None:
    """Two workers, cancels, retries and folds at once; every connection is cut in the middle, as by kill -9."""
    async with racing_workers(db, 2):
        for cycle in range(6):
            await enqueue(db, *(NewJob(Plain(n), f"lane {n % 3}") for n in range(60)))
            await enqueue(db, *(NewJob(Keyed(f"{cycle}.{n}"), "keyed") for n in range(10)))
            if cycle % 2:
                await terminate_backends(db.url)
            counted, actual = await both_counts(db)
            assert counted == actual
            async with db.transaction() as tx:
                await jobs.cancel_lane(tx, "lane 0")
                dead = await jobs.find_jobs(tx, limit=10, state="dead")
                await jobs.retry_dead(tx, [job.id for job in dead])

        async def is_drained() -> bool:
            counted, actual = await both_counts(db)
            assert counted == actual
            return all(state == "dead" for _, _, state in actual)

        await wait_until(is_drained)
    await assert_counts_are_right(db)
