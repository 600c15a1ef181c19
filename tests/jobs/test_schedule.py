"""Schedules on a stopped clock: one firing per time, whichever worker fires."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from gristmill import jobs
from gristmill.db import Database
from gristmill.errors import Invalid
from gristmill.jobs import Schedule, schedule
from tests.database_clock import DatabaseClock
from tests.jobs.sample_work import Keyed, Plain

HOURLY = Schedule("hourly", "0 * * * *", Plain(7), "system")


async def fire(db: Database) -> int:
    async with db.connection() as tx:
        return await schedule.fire_due(tx)


async def count_jobs(db: Database) -> int:
    async with db.connection() as tx:
        return sum(count.count for count in await jobs.counts(tx))


async def put_schedules(db: Database, *schedules: Schedule) -> None:
    async with db.transaction() as tx:
        await jobs.put_schedules(tx, *schedules)


async def test_a_schedule_fires_at_its_times_and_not_before(db: Database, clock: DatabaseClock) -> None:
    """S2-03."""
    await put_schedules(db, HOURLY)
    assert await fire(db) == 0
    for hour in (1, 2, 3):
        await clock.advance(timedelta(minutes=59))
        assert await fire(db) == 0
        await clock.advance(timedelta(minutes=1))
        assert await fire(db) == 1
        assert await fire(db) == 0
        assert await count_jobs(db) == hour


async def test_of_many_workers_one_fires(db: Database, clock: DatabaseClock) -> None:
    await put_schedules(db, *(Schedule(f"s{n}", "0 * * * *", Plain(n), "system") for n in range(5)))
    await clock.advance(timedelta(hours=1))
    assert sum(await asyncio.gather(*(fire(db) for _ in range(8)))) == 5
    assert await count_jobs(db) == 5


async def test_firings_missed_in_a_downtime_are_made_up_for_once(db: Database, clock: DatabaseClock) -> None:
    await put_schedules(db, HOURLY)
    await clock.advance(timedelta(days=3, minutes=5))
    assert await fire(db) == 1
    assert await fire(db) == 0
    await clock.advance(timedelta(minutes=55))
    assert await fire(db) == 1


async def test_a_job_that_still_lives_is_not_doubled(db: Database, clock: DatabaseClock) -> None:
    await put_schedules(db, Schedule("keyed", "0 * * * *", Keyed("one"), "system"))
    for _ in range(3):
        await clock.advance(timedelta(hours=1))
        assert await fire(db) == 1
    assert await count_jobs(db) == 1


async def test_putting_a_schedule_again_does_not_move_its_time(db: Database, clock: DatabaseClock) -> None:
    await put_schedules(db, HOURLY)
    await clock.advance(timedelta(minutes=60))
    await put_schedules(db, HOURLY)
    assert await fire(db) == 1
    await put_schedules(db, Schedule("hourly", "30 * * * *", Plain(7), "system"))
    await clock.advance(timedelta(minutes=30))
    assert await fire(db) == 1


async def test_a_removed_schedule_fires_no_more(db: Database, clock: DatabaseClock) -> None:
    await put_schedules(db, HOURLY)
    async with db.transaction() as tx:
        await jobs.remove_schedules(tx, ["hourly"])
    await clock.advance(timedelta(hours=2))
    assert await fire(db) == 0


@pytest.mark.parametrize("cron", ["", "every day", "61 * * * *", "* * * *", "0 0 31 2 *"])
def test_an_invalid_cron_expression_is_rejected(cron: str) -> None:
    with pytest.raises(Invalid) as caught:
        jobs.next_time(cron, datetime(2030, 1, 1, tzinfo=UTC))
    assert caught.value.code == "invalid_cron"
