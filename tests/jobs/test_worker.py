"""A worker on a real database: outcomes, cancels, stops and lost connections."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from gristmill import faults, jobs
from gristmill.db import Database, Tx
from gristmill.db.listen import Listener
from gristmill.errors import GristmillError, Permanent, Transient
from gristmill.jobs import Done, Handler, Job, NewJob, Outcome, Snooze, Work, Worker, WorkerLimits, store
from gristmill.jobs.retry import LOST_FACTOR
from tests.jobs.sample_work import Brittle, Keyed, Plain
from tests.terminate_backends import terminate_backends
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

FAST_LIMITS = WorkerLimits(
    slots=4, lane_cap=4, lease=timedelta(seconds=15), stop_grace=timedelta(milliseconds=200)
)


@asynccontextmanager
async def running_worker(
    db: Database, handlers: dict[str, Handler], limits: WorkerLimits = FAST_LIMITS
) -> AsyncGenerator[Worker]:
    listener = Listener(db.url)
    worker = Worker(db, listener, handlers, limits)
    listener.start()
    task = asyncio.create_task(worker.run())
    await asyncio.wait_for(listener.connected.wait(), 60)
    try:
        yield worker
    finally:
        worker.stop()
        await task
        await listener.stop()


async def enqueue(db: Database, *work: Work) -> None:
    async with db.transaction() as tx:
        await jobs.enqueue(tx, *(NewJob(each, "a") for each in work))


def has_jobs(db: Database, **expected: int) -> Callable[[], Coroutine[None, None, bool]]:
    async def has_expected_jobs() -> bool:
        async with db.connection() as tx:
            living = {count.state: count.count for count in await jobs.counts(tx)}
            cursor = await tx.execute("select outcome, count(*)::int from job_history group by 1")
            outcomes = dict(await cursor.fetchall())
        return {**living, **outcomes} == expected

    return has_expected_jobs


class ScriptedHandler:
    """A handler that raises or returns the given results, one after the other."""

    def __init__(self, *results: Outcome | Exception) -> None:
        self.results = list(results)
        self.jobs: list[Job] = []

    async def __call__(self, job: Job) -> Outcome:
        self.jobs.append(job)
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


async def test_jobs_are_run_and_done(db: Database) -> None:
    """S2-21."""
    numbers: list[int] = []

    async def run(job: Job) -> Outcome:
        numbers.append(Plain.of(job).n)
        return Done()

    async with running_worker(db, {"plain": Handler(run)}):
        await enqueue(db, *(Plain(n) for n in range(50)))
        await wait_until(has_jobs(db, done=50))
    assert sorted(numbers) == list(range(50))


async def test_a_transient_error_is_tried_again_and_a_snooze_comes_back(db: Database) -> None:
    handler = ScriptedHandler(
        Transient("busy", retry_after=timedelta()), Snooze(timedelta(milliseconds=10)), Done()
    )
    async with running_worker(db, {"plain": Handler(handler)}):
        await enqueue(db, Plain())
        await wait_until(has_jobs(db, done=1))
    assert [job.attempt for job in handler.jobs] == [1, 2, 2]


async def test_what_is_claimed_again_before_its_old_attempt_left_stays_with_the_new_one(db: Database) -> None:
    """Otherwise the worker would take the new attempt for an unknown job, and requeue it while it runs."""
    tasks: list[asyncio.Task[object] | None] = []
    again, end = asyncio.Event(), asyncio.Event()

    async def run(_job: Job) -> Outcome:
        tasks.append(asyncio.current_task())
        if len(tasks) == 1:
            return Snooze(timedelta())
        again.set()
        await end.wait()
        return Done()

    async with running_worker(db, {"plain": Handler(run)}) as worker:
        with faults.watch("worker.settled", hold=True):
            await enqueue(db, Plain())
            await asyncio.wait_for(again.wait(), 60)
        assert tasks[0] is not None
        await asyncio.wait([tasks[0]])
        assert worker.running == 1
        end.set()
        await wait_until(has_jobs(db, done=1))
    assert len(tasks) == 2


async def test_a_permanent_error_buries_the_job_and_calls_on_dead_in_the_same_transaction(
    db: Database,
) -> None:
    """S4-30."""
    async with db.connection() as tx:
        await tx.execute("create table reported (code text)")

    async def record_death(tx: Tx, _job: Job, error: GristmillError) -> None:
        await tx.execute("insert into reported values (%s)", [error.code])

    async with running_worker(
        db, {"plain": Handler(ScriptedHandler(Permanent("no", code="never")), record_death)}
    ):
        await enqueue(db, Plain())
        await wait_until(has_jobs(db, dead=1))
    async with db.connection() as tx:
        assert await (await tx.execute("select code from reported")).fetchall() == [("never",)]
        cursor = await tx.execute(
            "select e ->> 'code', e ->> 'attempt' from job, jsonb_array_elements(errors) e"
        )
        assert await cursor.fetchall() == [("never", "1")]


async def test_attempts_run_out(db: Database) -> None:
    """S2-21, S2-22."""
    handler = ScriptedHandler(
        Transient("1", retry_after=timedelta()), Transient("2", retry_after=timedelta())
    )
    async with running_worker(db, {"brittle": Handler(handler)}):
        await enqueue(db, Brittle())
        await wait_until(has_jobs(db, dead=1))
    assert len(handler.jobs) == 2


async def test_work_of_an_unknown_kind_is_dead_not_lost(db: Database) -> None:
    async with running_worker(db, {}):
        await enqueue(db, Plain())
        await wait_until(has_jobs(db, dead=1))


async def test_a_cancelled_job_is_stopped(db: Database) -> None:
    """C22; S2-21, S4-09."""
    about, started, stopped = uuid4(), asyncio.Event(), asyncio.Event()

    async def run(_job: Job) -> Outcome:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return Done()

    async with running_worker(db, {"keyed": Handler(run)}):
        await enqueue(db, Keyed("x", about))
        await asyncio.wait_for(started.wait(), 60)
        async with db.transaction() as tx:
            await jobs.cancel_by_subject(tx, [about])
        await asyncio.wait_for(stopped.wait(), 60)
        await wait_until(has_jobs(db, cancelled=1))


async def test_a_stopping_worker_gives_back_what_it_could_not_finish(db: Database) -> None:
    """S0-48."""
    started = asyncio.Event()

    async def run(_job: Job) -> Outcome:
        started.set()
        await asyncio.Event().wait()
        return Done()

    async with running_worker(db, {"plain": Handler(run)}):
        await enqueue(db, Plain())
        await asyncio.wait_for(started.wait(), 60)
    assert await has_jobs(db, queued=1)()


async def test_a_worker_that_lost_its_lease_writes_nothing(db: Database) -> None:
    """Promise 5: the zombie comes back to a job that another has done meanwhile."""
    async with db.connection() as tx:
        await tx.execute("create table effect (worker text)")
    proceed, holding = asyncio.Event(), asyncio.Event()
    runs = 0

    async def run(job: Job) -> Outcome:
        nonlocal runs
        runs += 1
        name = f"run {runs}"
        if runs == 1:
            holding.set()
            await proceed.wait()
        async with db.transaction() as tx:
            await tx.execute("insert into effect values (%s)", [name])
            await jobs.complete(tx, job)
        return Done()

    async with running_worker(db, {"plain": Handler(run)}) as worker:
        await enqueue(db, Plain())
        await asyncio.wait_for(holding.wait(), 60)
        async with db.connection() as tx:
            # As if the process had been stopped past its lease: declared gone, its job queued again.
            await tx.execute("update job set state = 'queued', lease = null, worker = null")
            await tx.execute("update lane set busy = true")
        async with running_worker(db, {"plain": Handler(run)}):
            await wait_until(has_jobs(db, done=1))
        proceed.set()
        await wait_until(lambda: _idle(worker))
    async with db.connection() as tx:
        assert await (await tx.execute("select worker from effect")).fetchall() == [("run 2",)]


async def _idle(worker: Worker) -> bool:
    return worker.running == 0


async def test_a_job_whose_workers_keep_dying_is_given_up(db: Database) -> None:
    async with db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(Brittle(), "a"))
        await tx.execute("update job set attempt = %s", [LOST_FACTOR * 2])
    handler = ScriptedHandler()
    async with running_worker(db, {"brittle": Handler(handler)}):
        await wait_until(has_jobs(db, dead=1))
    assert handler.jobs == []


async def test_jobs_that_were_lost_twice_are_run_one_at_a_time(db: Database) -> None:
    """A job that kills its worker affects no other suspect; waiting counts as no attempt."""
    await enqueue(db, *(Plain(n) for n in range(6)))
    async with db.connection() as tx:
        errors = '[{"code": "worker_lost"}, {"code": "worker_lost"}]'
        await tx.execute("update job set attempt = 2, errors = %s where (payload ->> 'n')::int < 4", [errors])
    at_once, peak, attempts = set[int](), 0, list[int]()

    async def run(job: Job) -> Outcome:
        nonlocal peak
        n = Plain.of(job).n
        if n < 4:
            at_once.add(n)
            peak = max(peak, len(at_once))
            attempts.append(job.attempt)
        for _ in range(20):
            await asyncio.sleep(0)
        at_once.discard(n)
        return Done()

    async with running_worker(db, {"plain": Handler(run)}):
        await wait_until(has_jobs(db, done=6))
    assert peak == 1
    assert attempts == [3, 3, 3, 3]


async def test_nothing_is_lost_when_all_connections_are_cut_again_and_again(db: Database) -> None:
    async with db.connection() as tx:
        await tx.execute("create table effect (n int)")

    async def run(job: Job) -> Outcome:
        async with db.transaction() as tx:
            await tx.execute("insert into effect values (%s)", [Plain.of(job).n])
            await jobs.complete(tx, job)
        return Done()

    async with running_worker(db, {"plain": Handler(run)}):
        await enqueue(db, *(Plain(n) for n in range(300)))
        for _ in range(5):
            await terminate_backends(db.url)
        await wait_until(has_jobs(db, done=300))
    async with await psycopg.AsyncConnection.connect(db.url) as connection:
        rows = await (await connection.execute("select n from effect order by n")).fetchall()
    assert [n for (n,) in rows] == list(range(300))


@pytest.mark.parametrize("broken", ["tick", "complete_and_claim"])
async def test_a_loop_that_meets_an_unexpected_error_goes_on(
    db: Database, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 1: the heartbeat loop and the claim loop outlive a bug, and log its traceback once."""
    works = getattr(store, broken)
    failures = 0

    async def fail_at_first(*arguments: Any, **options: Any) -> Any:
        nonlocal failures
        if failures < 3:
            failures += 1
            raise RuntimeError("a bug")
        return await works(*arguments, **options)

    monkeypatch.setattr(store, broken, fail_at_first)
    async with db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(Plain(), "a", delay=timedelta(milliseconds=1)))
    async with running_worker(db, {"plain": Handler(ScriptedHandler(Done()))}):
        await wait_until(has_jobs(db, done=1))  # the heartbeat has queued it, the claim loop has run it
    assert failures == 3
    assert len([record for record in caplog.records if record.exc_info]) == 1


async def test_an_outcome_that_cannot_be_written_is_logged_and_the_job_runs_again(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    on_dead_calls = 0

    async def on_dead(_tx: Tx, _job: Job, _error: GristmillError) -> None:
        nonlocal on_dead_calls
        on_dead_calls += 1
        if on_dead_calls == 1:
            raise RuntimeError("a bug")

    handler = ScriptedHandler(Permanent("no"), Permanent("no"))
    async with running_worker(db, {"plain": Handler(handler, on_dead)}):
        await enqueue(db, Plain())
        await wait_until(has_jobs(db, dead=1))
    assert len(handler.jobs) == 2
    assert [record.message for record in caplog.records if record.exc_info] == [
        "the death of a job could not be handled"
    ]


async def test_a_job_whose_death_can_never_be_handled_ends_with_its_last_attempt(db: Database) -> None:
    """Promise 1: a bug that comes with every attempt does not keep the job running."""

    async def on_dead(_tx: Tx, _job: Job, _error: GristmillError) -> None:
        raise RuntimeError("a bug")

    handler = ScriptedHandler(*([Permanent("no")] * 9))
    async with running_worker(db, {"plain": Handler(handler, on_dead)}) as worker:
        await enqueue(db, Plain())

        async def is_dead() -> bool:
            async with (
                db.connection() as tx
            ):  # it is requeued by a heartbeat, here at every look, and due at once
                await tx.execute("update job set run_at = now() where state = 'delayed'")
                await tx.execute("select pg_notify('job_cancel', %s)", [str(worker.id)])
            return await has_jobs(db, dead=1)()

        await wait_until(is_dead)
    assert len(handler.jobs) == Plain.attempts
