"""The contract that every connector keeps: whatever happens there and here, the base comes to equal the tool."""

import random
from collections.abc import Callable

import pytest

from gristmill import faults, jobs
from gristmill.connectors import admin
from gristmill.connectors.listing.details import CONCURRENCY
from gristmill.jobs import NewJob
from gristmill.work import SyncAccess
from tests.connectors.fakes.tool import FakeCall, FakeTool, failing, rate_limited
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until


def everything(_: FakeCall) -> bool:
    return True


def changes(tool: FakeTool, dice: random.Random, count: int) -> None:
    """A few things happen, some of them in the same second."""
    for _ in range(count):
        act: Callable[[int], None] = dice.choice(
            [tool.edit, tool.edit, tool.edit, tool.delete, lambda _: tool.add(), tool.change_permission]
        )
        act(dice.randrange(1000))
        tool.advance_clock(dice.choice([0, 0, 1, 5]))


async def test_the_first_run_brings_everything_with_who_may_see_it(bench: ConnectorHarness) -> None:
    """S2-05..13, S2-17, S2-28, S2-34."""
    run = await bench.sync()
    assert (run.status, run.item_errors, run.error_code) == ("success", 0, None)
    assert run.documents_processed == run.documents_ingested == len(bench.tool.expected_documents())
    await bench.assert_matches_tool()


async def test_a_run_without_changes_reads_no_document_and_files_nothing(bench: ConnectorHarness) -> None:
    """S2-10."""
    await bench.sync()
    bench.tool.calls.clear()
    run = await bench.sync()
    assert run.documents_ingested == 0
    assert bench.tool.detail_calls() == []
    await bench.assert_matches_tool()


@pytest.mark.parametrize("seed", range(3))
async def test_after_any_sequence_of_changes_the_base_equals_the_tool(
    bench: ConnectorHarness, seed: int
) -> None:
    """S2-09, S2-27, C5b; FIELD 8."""
    dice = random.Random(seed)
    await bench.sync()
    for _ in range(4):
        changes(bench.tool, dice, 6)
        run = await bench.sync(allow_deletions=True)
        assert run.status == "success", await bench.log_text(run)
        await bench.assert_matches_tool()


@pytest.mark.parametrize("seed", range(3))
async def test_what_changes_while_a_run_pages_is_never_missed(bench: ConnectorHarness, seed: int) -> None:
    """Between any two requests things are edited, added and deleted; the next run has all of it."""
    dice = random.Random(seed)
    await bench.sync()
    changes(bench.tool, dice, 8)
    bench.tool.advance_clock(5)
    bench.tool.add_rule(everything, lambda: changes(bench.tool, dice, 1), after=3, times=12)
    await bench.sync(allow_deletions=True)
    bench.tool.rules.clear()
    run = await bench.sync(allow_deletions=True)
    assert run.status == "success", await bench.log_text(run)
    await bench.assert_matches_tool()


async def test_many_that_changed_in_one_second_are_all_read(bench: ConnectorHarness) -> None:
    """More than a page of them: the anchor alone can't tell them apart."""
    for _ in range(30):
        bench.tool.add()
    run = await bench.sync()
    assert run.status == "success"
    await bench.assert_matches_tool()


async def test_a_long_limit_makes_the_run_wait_without_a_worker_and_nothing_is_read_twice(
    bench: ConnectorHarness,
) -> None:
    """The run shows until when, and goes on from its marks."""
    for _ in range(20):
        bench.tool.add()
    bench.tool.add_rule(bench.tool.is_detail, rate_limited(bench.tool), after=12)
    run = await bench.start()

    async def waits() -> bool:
        rows = await bench.fetch("select 1 from job where id = %s and state = 'delayed'", run.job_id)
        return rows != [] and (await bench.reload_run(run)).rate_limited_until is not None

    await wait_until(waits)
    assert (await bench.reload_run(run)).status == "running"
    before = bench.tool.detail_calls()
    await bench.run_delayed_jobs()
    assert (await bench.wait_until_ended(run)).status == "success"
    await bench.assert_matches_tool()
    after = bench.tool.detail_calls()[len(before) :]
    assert len(set(before)) == len(before)
    # What ran beside the request that was limited is asked for again; nothing else is.
    assert len(set(before) & set(after)) <= CONCURRENCY


async def test_a_short_limit_is_waited_for(bench: ConnectorHarness) -> None:
    bench.tool.add_rule(bench.tool.is_detail, rate_limited(bench.tool, seconds=0), after=2, times=2)
    assert (await bench.sync()).status == "success"
    await bench.assert_matches_tool()


async def test_what_can_not_be_read_is_counted_and_read_by_the_next_run(bench: ConnectorHarness) -> None:
    """S2-38."""
    paths: list[str] = []

    def one(call: FakeCall) -> bool:
        if bench.tool.is_detail(call) and not paths:
            paths.append(call.path)
        return call.path in paths

    bench.tool.add_rule(one, failing(bench.tool, 403), times=100)
    run = await bench.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)
    assert len(await bench.indexed_documents()) == len(bench.tool.expected_documents()) - 1
    bench.tool.rules.clear()
    assert (await bench.sync()).status == "success"
    await bench.assert_matches_tool()


async def test_refused_credentials_end_the_run_with_a_clear_word(bench: ConnectorHarness) -> None:
    """S2-18, S2-40."""
    bench.tool.add_rule(everything, failing(bench.tool, 401), times=100)
    run = await bench.sync()
    assert (run.status, run.error_code) == ("failed", "connector_unauthorized")
    bench.tool.rules.clear()
    assert (await bench.sync()).status == "success"
    await bench.assert_matches_tool()


async def test_a_mass_deletion_is_held_until_it_is_allowed(bench: ConnectorHarness) -> None:
    for _ in range(40):
        bench.tool.add()
    await bench.sync()
    known = len(bench.tool.expected_documents())
    while len(bench.tool.expected_documents()) > known // 2:
        bench.tool.delete(0)
    run = await bench.sync()
    assert (run.status, run.error_code) == ("completed_with_errors", "mass_deletion_held")
    assert len(await bench.indexed_documents()) == known
    run = await bench.sync(allow_deletions=True)
    assert run.status == "success"
    assert run.documents_pruned > 0
    await bench.assert_matches_tool()


async def test_a_rehearsal_tells_what_a_run_would_do_and_does_nothing(bench: ConnectorHarness) -> None:
    run = await bench.sync(dry_run=True)
    assert run.plan is not None
    assert (run.plan["add"], run.plan["change"], run.plan["prune"]) == (
        len(bench.tool.expected_documents()),
        0,
        0,
    )
    assert await bench.indexed_documents() == {}
    await bench.sync()
    bench.tool.delete(0)
    bench.tool.add()
    run = await bench.sync(dry_run=True)
    assert run.plan is not None
    assert (run.plan["add"], run.plan["prune"]) == (1, 1)
    await bench.sync()
    await bench.assert_matches_tool()


async def test_a_cancelled_run_stops_and_the_next_goes_on(bench: ConnectorHarness) -> None:
    """C22."""
    with faults.watch("sync.saved", hold=True) as saved:
        run = await bench.start()
        await saved.passed.wait()
        ended = await admin.cancel_sync(bench.mill.db, bench.connector.id)
    assert ended.status == "cancelled"

    async def over() -> bool:
        return await bench.fetch("select 1 from job where subject = %s", bench.connector.id) == []

    await wait_until(over)
    assert (await bench.reload_run(run)).status == "cancelled"
    assert (await bench.sync()).status == "success"
    await bench.assert_matches_tool()


@pytest.mark.parametrize("seed", range(2))
async def test_permissions_follow_by_themselves(bench: ConnectorHarness, seed: int) -> None:
    """Without a run: on their own schedule, no document read, no vector written."""
    await bench.sync()
    bench.tool.change_permission(seed)
    bench.tool.calls.clear()
    async with bench.mill.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(SyncAccess(bench.connector.id), lane=bench.connector.lane))

    async def over() -> bool:
        return await bench.fetch("select 1 from job where kind = 'sync_access'") == []

    await wait_until(over)
    await bench.assert_matches_tool()
    assert bench.tool.detail_calls() == []
