"""What workers claim: every lane gets a slot, waiting jobs use none, and jobs that can't start stay in the queue."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from gristmill import jobs
from gristmill.db import Database
from gristmill.jobs import Activity, Done, Handler, Job, NewJob, Outcome, Priority, WorkerLimits, slots
from gristmill.jobs.slots import PREFETCH, SlotLimits, claim_room
from tests.jobs.sample_work import Keyed, Plain
from tests.jobs.test_store import claim, enqueue, enrol
from tests.jobs.test_worker import running_worker
from tests.wait_until import wait_until

LIMITS = WorkerLimits(slots=4, lease=timedelta(seconds=15), stop_grace=timedelta(milliseconds=200))


class BlockingHandler:
    """A handler whose jobs of lane `busy` go on until the end of the test, doing the given activity; others are done at once."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self.running: list[Job] = []
        self.most_running = 0
        self.done_lanes: list[str] = []

    async def __call__(self, job: Job) -> Outcome:
        if job.lane.startswith("busy"):
            self.running.append(job)
            self.most_running = max(self.most_running, len(self.running))
            with job.during(self._activity):
                await asyncio.Event().wait()
        self.done_lanes.append(job.lane)
        return Done()


async def running_and_queued(db: Database, lane: str) -> tuple[int, int]:
    async with db.connection() as tx:
        count = {each.state: each.count for each in await jobs.counts(tx, lane)}
    return count.get("running", 0), count.get("queued", 0)


@pytest.mark.parametrize(("priority", "max_running"), [(Priority.INTERACTIVE, 3), (Priority.NORMAL, 2)])
async def test_a_lane_with_nothing_running_finds_a_slot_while_another_never_ends(
    db: Database, priority: Priority, max_running: int
) -> None:
    """S4-16, S4-17, S4-23, S4-58: one lane takes most slots, never all, also when people wait for its jobs."""
    handler = BlockingHandler(Activity.ACTIVE)
    await enqueue(db, *(NewJob(Plain(n), "busy", priority=priority) for n in range(20)))
    async with running_worker(db, {"plain": Handler(handler)}, LIMITS):

        async def is_busy() -> bool:
            return len(handler.running) == max_running

        await wait_until(is_busy)
        for n in range(5):
            await enqueue(db, NewJob(Plain(n), "new"))

        async def are_done() -> bool:
            return handler.done_lanes == ["new"] * 5

        await wait_until(are_done)
        assert await running_and_queued(db, "busy") == (max_running, 20 - max_running)


async def test_interactive_jobs_do_not_wait_for_other_jobs_of_their_lane(db: Database) -> None:
    """S4-17: a note for a base whose folder fills its stages and its share."""
    handler = BlockingHandler(Activity.BLOCKED)
    await enqueue(db, *(NewJob(Plain(n), "busy") for n in range(30)))
    async with running_worker(db, {"plain": Handler(handler)}, LIMITS):

        async def is_full() -> bool:
            return len(handler.running) >= PREFETCH

        await wait_until(is_full)
        await enqueue(db, NewJob(Plain(99), "busy", priority=Priority.INTERACTIVE))

        async def has_begun() -> bool:
            return any(Plain.of(each).n == 99 for each in handler.running)

        await wait_until(has_begun)
        assert len(handler.running) == PREFETCH + 1


async def test_jobs_that_wait_for_the_network_use_no_slot(db: Database) -> None:
    """S4-24: more of them than the worker has slots, from many lanes, and a note is still done."""
    handler = BlockingHandler(Activity.AWAY)
    await enqueue(db, *(NewJob(Plain(n), f"busy{n}") for n in range(12)))
    async with running_worker(db, {"plain": Handler(handler)}, LIMITS):

        async def are_away() -> bool:
            return len(handler.running) == 12

        await wait_until(are_away)
        await enqueue(db, NewJob(Plain(), "new"))

        async def is_done() -> bool:
            return handler.done_lanes == ["new"]

        await wait_until(is_done)


@pytest.mark.parametrize("activity", [Activity.OPENING, Activity.BLOCKED])
async def test_jobs_that_the_first_stage_has_no_room_for_stay_queued(
    db: Database, activity: Activity
) -> None:
    """S4-20: a full stage is felt in the queue, where other workers can claim; other lanes are claimed all the same."""
    handler = BlockingHandler(activity)
    limits = WorkerLimits(slots=64, lease=timedelta(seconds=15), stop_grace=timedelta(milliseconds=200))
    await enqueue(db, *(NewJob(Plain(n), "busy") for n in range(50)))
    async with running_worker(db, {"plain": Handler(handler)}, limits):

        async def is_full() -> bool:
            return len(handler.running) >= PREFETCH

        await wait_until(is_full)
        await enqueue(db, NewJob(Plain(), "new"))

        async def is_done() -> bool:
            return handler.done_lanes == ["new"]

        await wait_until(is_done)
        assert await running_and_queued(db, "busy") == (PREFETCH, 50 - PREFETCH)


async def test_a_lane_is_claimed_again_as_soon_as_its_stage_has_room(db: Database) -> None:
    """S4-20: without a poll, because the notification of the queue is long past."""
    gate, numbers = asyncio.Semaphore(0), list[int]()

    async def run(job: Job) -> Outcome:
        with job.during(Activity.BLOCKED):
            await gate.acquire()
        numbers.append(Plain.of(job).n)
        await asyncio.Event().wait()
        return Done()

    limits = WorkerLimits(slots=96, lease=timedelta(seconds=15), stop_grace=timedelta(milliseconds=200))
    await enqueue(db, *(NewJob(Plain(n), "busy") for n in range(3 * PREFETCH)))
    async with running_worker(db, {"plain": Handler(run)}, limits):
        for _ in range(2 * PREFETCH):
            gate.release()

        async def went_on() -> bool:
            return sorted(numbers) == list(range(2 * PREFETCH))

        await wait_until(went_on)


async def test_the_global_cap_leaves_room_for_other_lanes(db: Database) -> None:
    """S4-16: over all workers."""
    handler = BlockingHandler(Activity.AWAY)
    limits = WorkerLimits(
        slots=8, global_cap=4, lease=timedelta(seconds=15), stop_grace=timedelta(milliseconds=200)
    )
    await enqueue(db, *(NewJob(Plain(n), "busy") for n in range(20)))
    async with (
        running_worker(db, {"plain": Handler(handler)}, limits),
        running_worker(db, {"plain": Handler(handler)}, limits),
    ):

        async def are_away() -> bool:
            return len(handler.running) == 3

        await wait_until(are_away)
        await enqueue(db, NewJob(Plain(), "new"))

        async def is_done() -> bool:
            return handler.done_lanes == ["new"]

        await wait_until(is_done)
        assert handler.most_running == 3


async def test_a_lane_that_never_runs_out_of_work_does_its_bulk_jobs_too(db: Database) -> None:
    """Bulk jobs keep a share: at least one and at most four of them run next to the lane's other jobs."""
    await enqueue(db, *(NewJob(Plain(n), "a") for n in range(100)))
    bulk = {*await enqueue(db, *(NewJob(Plain(n), "a", priority=Priority.BULK) for n in range(10)))}
    worker = await enrol(db)
    first = await claim(db, worker, 4)
    assert len([job for job in first if job.id in bulk]) == 1
    assert not [job for job in await claim(db, worker, 4) if job.id in bulk]
    (running,) = [job for job in first if job.id in bulk]
    async with db.transaction() as tx:
        await jobs.complete(tx, running)
    (second,) = await claim(db, worker, 1)
    assert second.id in bulk, "its only free slot was not for the bulk job that waits longest"


async def test_a_long_bulk_job_does_not_keep_those_of_another_kind_waiting(db: Database) -> None:
    """The images of a base are described while its chunks are built again for hours, and while documents never run out."""
    await enqueue(db, *(NewJob(Plain(n), "a") for n in range(100)))
    worker = await enrol(db)
    await claim(db, worker, 1)
    await enqueue(db, NewJob(Keyed("swap"), "a", priority=Priority.BULK))
    images = {*await enqueue(db, *(NewJob(Plain(n), "a", priority=Priority.BULK) for n in range(6)))}
    (swap,) = await claim(db, worker, 1)
    assert swap.kind == "keyed"
    described: list[jobs.JobId] = []
    for _ in range(6):
        claimed = await claim(db, worker, 3)
        (image,) = [job for job in claimed if job.id in images]
        described.append(image.id)
        async with db.transaction() as tx:
            await jobs.complete(tx, image)
    assert described == sorted(images)


async def test_a_lane_with_nothing_but_bulk_jobs_runs_only_some_of_them(db: Database) -> None:
    """Else they would hold the lane's slots when a note arrives."""
    await enqueue(db, *(NewJob(Plain(n), "a", priority=Priority.BULK) for n in range(10)))
    worker = await enrol(db)
    assert len(await claim(db, worker, 100)) == 4
    await enqueue(db, NewJob(Plain(99), "a"))
    assert [Plain.of(job).n for job in await claim(db, worker, 100)] == [99]


def job(lane: str, activity: Activity = Activity.ACTIVE, priority: int = 1) -> Job:
    result = Job(jobs.JobId(uuid4()), "plain", lane, priority, {}, None, 1, 5, uuid4())  # pyright: ignore[reportArgumentType]
    result.activity = activity
    return result


def room(*running: Job, slots_: int = 32, away: int = 64) -> slots.ClaimRoom:
    return claim_room(running, SlotLimits(slots_, 1, away, 0.75))


def test_room_by_what_jobs_do() -> None:
    """S4-16, S4-17, S4-20."""
    assert room().new_lane == PREFETCH
    assert room().limit == 24
    busy = room(*(job("a") for _ in range(24)))
    assert (busy.limit, busy.by_lane["a"], busy.new_lane) == (6, 0, 6)
    assert busy.interactive_by_lane["a"] == 6
    assert room(*(job("a", Activity.AWAY) for _ in range(48))).by_lane["a"] == 0
    assert room(*(job("a", Activity.AWAY) for _ in range(40))).by_lane["a"] == 8
    assert room(*(job("a", Activity.BLOCKED) for _ in range(3))).by_lane["a"] == PREFETCH - 3
    full = room(*(job(f"l{n}") for n in range(32)))
    assert full.is_full
    assert room(*(job(f"l{n}", Activity.AWAY) for n in range(100))).new_lane == PREFETCH


def test_the_last_slot_is_kept_for_interactive_jobs() -> None:
    assert room(*(job(f"l{n}") for n in range(31))).non_interactive_limit == 0
    assert room(*(job(f"l{n}", priority=0) for n in range(31))).non_interactive_limit == 1


def test_a_claim_that_got_less_than_it_asked_for_left_nothing_behind() -> None:
    """So no second claim follows it; but one that was divided among lanes, or filled, may have left jobs."""
    capacity = room(slots_=8)
    limit = min(capacity.limit, capacity.non_interactive_limit)
    assert limit > 2
    assert not slots.may_have_left_jobs(capacity, [])
    assert not slots.may_have_left_jobs(capacity, [job("a")])
    assert slots.may_have_left_jobs(capacity, [job("a"), job("b")])
    assert slots.may_have_left_jobs(capacity, [job("a") for _ in range(limit)])


def test_a_lane_whose_room_was_used_up_is_claimed_again_when_half_of_it_is_free() -> None:
    """S4-20: also when its stage took the jobs before the worker began to wait for that."""
    capacity = room(slots_=64)
    opening = [job("a", Activity.OPENING) for _ in range(PREFETCH)]
    assert slots.exhausted_lanes(capacity, opening[:-1]) == set()
    assert slots.exhausted_lanes(capacity, opening) == {"a"}
    assert not slots.has_room_for_any(room(*opening, slots_=64), {"a"})
    for opened in opening[: PREFETCH // 2]:
        opened.activity = Activity.ACTIVE
    assert slots.has_room_for_any(room(*opening, slots_=64), {"a"})
    assert not slots.has_room_for_any(room(*opening, slots_=64), set())


def test_a_little_room_of_a_lane_is_claimed_for_after_a_while_only() -> None:
    """S4-20: a claim for one job costs as much as a claim for twelve, and a job that is free waits for a moment at most."""
    running = [job("a") for _ in range(46)]
    capacity = room(*running, slots_=64)
    assert capacity.by_lane["a"] == 1
    a_while = slots.CLAIM_INTERVAL.total_seconds()
    assert not slots.has_room_for_any(capacity, {"a"}, a_while / 2)
    assert slots.has_room_for_any(capacity, {"a"}, a_while)
    full = room(*running, job("a"), slots_=64)
    assert not slots.has_room_for_any(full, {"a"}, a_while)
