"""Each transition of a job, on real PostgreSQL, with a clock that the test controls."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from gristmill import jobs
from gristmill.db import Database, Tx
from gristmill.errors import LeaseLost, Transient
from gristmill.jobs import Job, NewJob, Priority, store
from tests.database_clock import DatabaseClock
from tests.jobs.sample_work import Keyed, Plain
from tests.wait_until import wait_until

LEASE = timedelta(seconds=10)


async def enrol(db: Database) -> UUID:
    worker = uuid4()
    async with db.transaction() as tx:
        await store.register_worker(tx, worker, {}, LEASE)
    return worker


async def claim(
    db: Database,
    worker: UUID,
    limit: int = 100,
    *,
    general: int | None = None,
    cap: int = 100,
    all_cap: int | None = None,
) -> list[Job]:
    async with db.transaction() as tx:
        return await store.complete_and_claim(
            tx,
            worker,
            [],
            limit=limit,
            non_interactive_limit=limit if general is None else general,
            lane_cap=cap,
            global_cap=all_cap,
        )


async def enqueue(db: Database, *new: NewJob) -> list[UUID]:
    async with db.transaction() as tx:
        return [job.id for job in await jobs.enqueue(tx, *new)]


async def counts(db: Database) -> dict[str, int]:
    async with db.connection() as tx:
        return {count.state: count.count for count in await jobs.counts(tx)}


async def tick(db: Database) -> store.Tick:
    async with db.connection() as tx:
        return await store.tick(tx)


async def test_a_job_exists_only_if_its_transaction_commits(db: Database) -> None:
    """S4-07."""

    async def roll_back() -> None:
        async with db.transaction() as tx:
            await jobs.enqueue(tx, NewJob(Plain(), "a"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await roll_back()
    assert await counts(db) == {}
    assert await claim(db, await enrol(db)) == []


async def test_a_job_runs_in_the_order_it_came_within_its_lane_and_band(db: Database) -> None:
    """S4-22."""
    await enqueue(db, *(NewJob(Plain(n), "a") for n in range(20)))
    await enqueue(db, NewJob(Plain(100), "a", priority=Priority.INTERACTIVE))
    worker = await enrol(db)
    order = [Plain.of(job).n for _ in range(21) for job in await claim(db, worker, 1)]
    assert order == [100, *range(20)]


async def test_a_second_job_of_a_living_key_is_the_first(db: Database) -> None:
    """S4-26; S3-10."""
    async with db.transaction() as tx:
        first, second = await jobs.enqueue(tx, NewJob(Keyed("x"), "a"), NewJob(Keyed("x"), "a"))
        third, unrelated = await jobs.enqueue(tx, NewJob(Keyed("x"), "a"), NewJob(Keyed("y"), "a"))
    assert (first.created, second.created, third.created, unrelated.created) == (True, False, False, True)
    assert first.id == second.id == third.id != unrelated.id
    worker = await enrol(db)
    for job in await claim(db, worker):
        async with db.transaction() as tx:
            assert not (await jobs.enqueue(tx, NewJob(Keyed("x"), "a")))[0].created, (
                "running counts as living"
            )
            await store.complete(tx, job)
        if Keyed.of(job).name == "x":
            async with db.transaction() as tx:
                assert (await jobs.enqueue(tx, NewJob(Keyed("x"), "a")))[0].created, "done does not"
                await store.cancel(tx, [(await jobs.enqueue(tx, NewJob(Keyed("x"), "a")))[0].id])
            break


async def test_lanes_take_turns(db: Database) -> None:
    """S4-18, promise 6."""
    await enqueue(db, *(NewJob(Plain(), "big") for _ in range(1000)))
    await enqueue(db, *(NewJob(Plain(), "small") for _ in range(3)))
    worker = await enrol(db)
    lanes = Counter(job.lane for job in await claim(db, worker, 6))
    assert lanes == {"big": 3, "small": 3}


async def test_lanes_take_turns_from_one_claim_to_the_next(db: Database) -> None:
    """S4-02, S4-18: each claim takes a single job."""
    await enqueue(db, *(NewJob(Plain(), lane) for lane in ("a", "b", "c") for _ in range(50)))
    worker = await enrol(db)
    lanes = [job.lane for _ in range(9) for job in await claim(db, worker, 1)]
    assert [sorted(lanes[start : start + 3]) for start in (0, 3, 6)] == [["a", "b", "c"]] * 3


async def test_a_lane_that_was_idle_has_saved_up_nothing(db: Database) -> None:
    worker = await enrol(db)
    await enqueue(db, *(NewJob(Plain(), "old") for _ in range(50)))
    await claim(db, worker, 40)
    await enqueue(db, *(NewJob(Plain(), "new") for _ in range(50)))
    lanes = Counter(job.lane for job in await claim(db, worker, 8))
    assert lanes == {"old": 4, "new": 4}


async def test_a_job_row_says_what_it_is_how_it_fares_and_when_it_is_due(
    db: Database, clock: DatabaseClock
) -> None:
    """S2-02, S2-30: kind, payload, state, attempts and due time, in one table; S4-13: lane, workload and age too."""
    await enqueue(db, NewJob(Plain(7), "a", workload=512.0))
    await enqueue(db, NewJob(Plain(8), "a", delay=timedelta(minutes=5)))
    await claim(db, await enrol(db))
    await clock.advance(timedelta(seconds=60))
    async with db.connection() as tx:
        cursor = await tx.execute(
            "select kind, payload ->> 'n', state::text, attempt, max_attempts, lane, workload,"
            " run_at - created_at, clock_now() - created_at from job order by id"
        )
        rows = await cursor.fetchall()
    minute, due = timedelta(minutes=1), timedelta(minutes=5)
    assert rows == [
        (Plain.kind, "7", "running", 1, Plain.attempts, "a", 512.0, timedelta(0), minute),
        (Plain.kind, "8", "delayed", 0, Plain.attempts, "a", 0.0, due, minute),
    ]


async def test_lanes_share_by_work_not_by_number_of_jobs(db: Database) -> None:
    """S4-15, S4-51; S4-25."""
    await enqueue(db, *(NewJob(Plain(), "heavy", workload=9 * 65536) for _ in range(50)))
    await enqueue(db, *(NewJob(Plain(), "light") for _ in range(200)))
    worker = await enrol(db)
    lanes = Counter([job.lane for _ in range(11) for job in await claim(db, worker, 10)])
    assert lanes == {"heavy": 10, "light": 100}


async def test_a_heavier_lane_gets_more_turns(db: Database) -> None:
    await enqueue(db, *(NewJob(Plain(), lane) for lane in ("a", "b") for _ in range(100)))
    async with db.connection() as tx:
        await tx.execute("update lane set weight = 3 where lane = 'b'")
    worker = await enrol(db)
    lanes = Counter([job.lane for _ in range(10) for job in await claim(db, worker, 4)])
    assert lanes == {"a": 10, "b": 30}


async def test_a_lane_runs_no_more_than_its_cap(db: Database) -> None:
    """S4-17, S4-23; S2-31."""
    await enqueue(db, *(NewJob(Plain(), lane) for lane in ("a", "b") for _ in range(10)))
    worker = await enrol(db)
    assert Counter(job.lane for job in await claim(db, worker, 100, cap=2)) == {"a": 2, "b": 2}
    assert await claim(db, worker, 100, cap=2) == []


async def test_a_claim_passes_over_a_job_that_another_transaction_has_locked(db: Database) -> None:
    """S2-31: it is being cancelled, say; neither is it started nor waited for."""
    locked, free = await enqueue(db, NewJob(Plain(), "a"), NewJob(Plain(), "a"))
    worker = await enrol(db)
    async with db.transaction() as tx, asyncio.timeout(30):
        await tx.execute("select id from job where id = %s for update", [locked])
        assert [job.id for job in await claim(db, worker, 5)] == [free]
    assert [job.id for job in await claim(db, worker, 5)] == [locked]


async def test_all_lanes_together_run_no_more_than_the_global_cap(db: Database) -> None:
    """S4-16."""
    await enqueue(db, *(NewJob(Plain(), f"lane {n}") for n in range(10)))
    worker = await enrol(db)
    assert len(await claim(db, worker, 100, all_cap=3)) == 3
    assert await claim(db, worker, 100, all_cap=3) == []


async def test_slots_are_reserved_for_interactive_jobs(db: Database) -> None:
    await enqueue(db, *(NewJob(Plain(), f"lane {n}") for n in range(10)))
    await enqueue(db, NewJob(Plain(1), "mine", priority=Priority.INTERACTIVE))
    worker = await enrol(db)
    assert [Plain.of(job).n for job in await claim(db, worker, 5, general=0)] == [1]


async def test_the_lease_is_proved_in_every_move(db: Database) -> None:
    """Promise 5, S3-05."""
    await enqueue(db, NewJob(Plain(), "a"))
    worker = await enrol(db)
    (job,) = await claim(db, worker)
    async with db.transaction() as tx:
        await store.unregister_worker(tx, worker)
    (again,) = await claim(db, await enrol(db))
    assert again.id == job.id
    moves: list[Callable[[Tx], Awaitable[None]]] = [
        lambda tx: store.fence(tx, job),
        lambda tx: store.complete(tx, job),
        lambda tx: store.postpone(tx, job, LEASE, counted=True, error=None),
        lambda tx: store.bury(tx, job, Transient("x")),
    ]
    for move in moves:
        with pytest.raises(LeaseLost):
            async with db.transaction() as tx:
                await move(tx)
    async with db.transaction() as tx:
        assert await store.fence_all(tx, [job]) == set()
        assert await store.fence_all(tx, [again]) == {again.id}
        await store.complete_and_claim(
            tx, worker, [job], limit=0, non_interactive_limit=0, lane_cap=1, global_cap=None
        )
        await store.finish_cancel(tx, job)
        await store.fence(tx, again)
        await store.complete(tx, again)
    assert await counts(db) == {}


@pytest.mark.parametrize("end", ["fails", "fails for good", "is lost"])
async def test_a_job_that_is_being_cancelled_never_returns(db: Database, end: str) -> None:
    """S4-43: its attempt fails before the worker knows of the cancel, or the worker is gone."""
    await enqueue(db, NewJob(Plain(), "a"))
    worker = await enrol(db)
    (job,) = await claim(db, worker)
    async with db.transaction() as tx:
        await store.cancel(tx, [job.id])
    async with db.transaction() as tx:
        if end == "fails":
            await store.postpone(tx, job, LEASE, counted=True, error=None)
        elif end == "fails for good":
            await store.bury(tx, job, Transient("x"))
        else:
            await store.unregister_worker(tx, worker)
        rows = await (await tx.execute("select outcome from job_history")).fetchall()
    assert rows == [("cancelled",)]
    assert await counts(db) == {}


async def test_an_expired_lease_returns_the_job_with_the_attempt_counted(
    db: Database, clock: DatabaseClock
) -> None:
    """S2-23 as decided in C15."""
    await enqueue(db, NewJob(Plain(), "a"))
    (job,) = await claim(db, await enrol(db))
    await clock.advance(LEASE - timedelta(seconds=1))
    assert (await tick(db)).expired == 0
    await clock.advance(timedelta(seconds=2))
    assert (await tick(db)).expired == 1
    (again,) = await claim(db, await enrol(db))
    assert (again.id, again.attempt) == (job.id, 2)


async def test_a_worker_that_beats_keeps_its_jobs(db: Database, clock: DatabaseClock) -> None:
    await enqueue(db, NewJob(Plain(), "a"))
    worker = await enrol(db)
    await claim(db, worker)
    for _ in range(5):
        await clock.advance(LEASE - timedelta(seconds=1))
        async with db.connection() as tx:
            assert await store.renew_lease(tx, worker, LEASE)
        assert (await tick(db)).expired == 0


async def test_a_postponed_job_waits_until_it_is_due(db: Database, clock: DatabaseClock) -> None:
    await enqueue(db, NewJob(Plain(), "a"))
    worker = await enrol(db)
    (job,) = await claim(db, worker)
    async with db.transaction() as tx:
        await store.postpone(
            tx, job, timedelta(seconds=30), counted=True, error=Transient("later", code="busy")
        )
    assert await claim(db, worker) == []
    assert (await tick(db)).next_in == timedelta(seconds=30)
    await clock.advance(timedelta(seconds=30))
    assert (await tick(db)).promoted == 1
    (again,) = await claim(db, worker)
    assert again.attempt == 2


async def test_a_snooze_does_not_count_as_an_attempt(db: Database) -> None:
    """S1-14."""
    await enqueue(db, NewJob(Plain(), "a"))
    worker = await enrol(db)
    for _ in range(10):
        (job,) = await claim(db, worker)
        assert job.attempt == 1
        async with db.transaction() as tx:
            await store.postpone(tx, job, timedelta(), counted=False, error=None)


async def test_cancel_removes_waiting_jobs_and_signals_running_ones(db: Database) -> None:
    """S4-27."""
    about = uuid4()
    worker = await enrol(db)
    await enqueue(db, NewJob(Keyed("running", about), "a"))
    await claim(db, worker)
    await enqueue(
        db,
        NewJob(Keyed("queued", about), "a"),
        NewJob(Keyed("delayed", about), "a", delay=LEASE),
        NewJob(Keyed("other", uuid4()), "a"),
    )
    async with db.transaction() as tx:
        assert await store.cancel_by_subject(tx, [about]) == store.CancelCounts(removed=2, signalled=1)
    async with db.connection() as tx:
        assert [job.cancelling for job in await store.running_jobs(tx, worker)] == [True]
    assert await counts(db) == {"queued": 1, "running": 1}


async def test_a_worker_that_leaves_gives_back_what_it_holds_at_once(db: Database) -> None:
    await enqueue(db, *(NewJob(Plain(n), "a") for n in range(3)))
    first, second = await enrol(db), await enrol(db)
    assert len(await claim(db, first)) == 3
    async with db.transaction() as tx:
        assert await store.unregister_worker(tx, first) == 3
    again = await claim(db, second)
    assert [job.attempt for job in again] == [1, 1, 1]


async def test_finished_jobs_are_forgotten_after_the_retention(db: Database, clock: DatabaseClock) -> None:
    await enqueue(db, NewJob(Plain(), "a"))
    (job,) = await claim(db, await enrol(db))
    async with db.transaction() as tx:
        await store.complete(tx, job)
    async with db.connection() as tx:
        assert await store.sweep(tx, timedelta(days=1)) == 0
        await clock.advance(timedelta(days=2))
        assert await store.sweep(tx, timedelta(days=1)) == 1


async def test_a_paused_lane_rests_and_others_go_on(db: Database) -> None:
    await enqueue(db, NewJob(Plain(), "a"), NewJob(Plain(), "b"))
    async with db.connection() as tx:
        await tx.execute("update lane set paused = true where lane = 'a'")
    assert [job.lane for job in await claim(db, await enrol(db))] == ["b"]


async def test_a_worker_whose_connection_ended_is_gone_long_before_its_lease(
    db: Database, clock: DatabaseClock
) -> None:
    """kill -9 closes its connection, and PostgreSQL frees the lock that it held there."""
    await enqueue(db, NewJob(Plain(), "a"))
    worker, key = uuid4(), 4711
    async with await psycopg.AsyncConnection.connect(db.url, autocommit=True) as alive:
        await alive.execute("select pg_advisory_lock(%s, %s)", [store.LOCK_SPACE, key])
        async with db.transaction() as tx:
            await store.register_worker(tx, worker, {}, timedelta(minutes=1), lock_key=key)
        await claim(db, worker)
        await clock.advance(timedelta(seconds=5))
        assert (await tick(db)).expired == 0, "silent for a while, and alive"
    await wait_until(lambda: _has_expired(db), limit=10)


async def _has_expired(db: Database) -> bool:
    return (await tick(db)).expired == 1


async def test_many_jobs_at_once_are_queued_in_order_and_a_living_key_is_respected(db: Database) -> None:
    """Both ways of enqueueing have the same result."""
    names = [f"name\t{n}\\ \n“{n}”" for n in range(100)]
    async with db.transaction() as tx:
        first = await jobs.enqueue(
            tx, *(NewJob(Keyed(name), "lane\twith tab", workload=n) for n, name in enumerate(names))
        )
    assert all(job.created for job in first)
    async with db.transaction() as tx:
        mixed = [*names[50:], *(f"fresh {n}" for n in range(50))]
        second = await jobs.enqueue(tx, *(NewJob(Keyed(name), "b") for name in mixed))
    assert [job.id for job in second[:50]] == [job.id for job in first[50:]]
    assert [job.created for job in second] == [False] * 50 + [True] * 50
    claimed = await claim(db, await enrol(db), 100, cap=1000)
    of_first = [
        Keyed.of(job).name for job in sorted(claimed, key=lambda job: job.id) if job.lane == "lane\twith tab"
    ]
    assert of_first == names[: len(of_first)]
    assert len(of_first) >= 50
