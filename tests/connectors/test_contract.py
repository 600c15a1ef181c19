"""The contract of every connector: whatever happens in the tool and here, the base ends up equal to the tool."""

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
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow


def everything(_: FakeCall) -> bool:
    return True


def changes(tool: FakeTool, dice: random.Random, count: int) -> None:
    """Make a few changes, some of them in the same second."""
    for _ in range(count):
        act: Callable[[int], None] = dice.choice(
            [tool.edit, tool.edit, tool.edit, tool.delete, lambda _: tool.add(), tool.change_permission]
        )
        act(dice.randrange(1000))
        tool.advance_clock(dice.choice([0, 0, 1, 5]))


async def test_the_first_run_brings_everything_with_who_may_see_it(harness: ConnectorHarness) -> None:
    """S2-05..13, S2-17, S2-28, S2-34; S2-11, S2-12."""
    run = await harness.sync()
    assert (run.status, run.item_errors, run.error_code) == ("success", 0, None)
    assert run.documents_processed == run.documents_ingested == len(harness.tool.expected_documents())
    await harness.assert_matches_tool()


async def test_a_run_without_changes_reads_no_document_and_files_nothing(harness: ConnectorHarness) -> None:
    """S2-10."""
    await harness.sync()
    harness.tool.calls.clear()
    run = await harness.sync()
    assert run.documents_ingested == 0
    assert harness.tool.detail_calls() == []
    await harness.assert_matches_tool()


@pytest.mark.parametrize("seed", range(3))
async def test_after_any_sequence_of_changes_the_base_equals_the_tool(
    harness: ConnectorHarness, seed: int
) -> None:
    """S2-09, S2-27, C5b; FIELD 8."""
    dice = random.Random(seed)
    await harness.sync()
    for _ in range(4):
        changes(harness.tool, dice, 6)
        run = await harness.sync(allow_deletions=True)
        assert run.status == "success", await harness.log_text(run)
        await harness.assert_matches_tool()


@pytest.mark.parametrize("seed", range(3))
async def test_what_changes_while_a_run_pages_is_never_missed(harness: ConnectorHarness, seed: int) -> None:
    """Between any two requests things are edited, added and deleted; the next run has all of it."""
    dice = random.Random(seed)
    await harness.sync()
    changes(harness.tool, dice, 8)
    harness.tool.advance_clock(5)
    harness.tool.add_rule(everything, lambda: changes(harness.tool, dice, 1), after=3, times=12)
    await harness.sync(allow_deletions=True)
    harness.tool.rules.clear()
    run = await harness.sync(allow_deletions=True)
    assert run.status == "success", await harness.log_text(run)
    await harness.assert_matches_tool()


async def test_many_that_changed_in_one_second_are_all_read(harness: ConnectorHarness) -> None:
    """More of them than fit on a page: the position alone can't distinguish them."""
    for _ in range(30):
        harness.tool.add()
    run = await harness.sync()
    assert run.status == "success"
    await harness.assert_matches_tool()


async def test_a_long_limit_makes_the_run_wait_without_a_worker_and_nothing_is_read_twice(
    harness: ConnectorHarness,
) -> None:
    """The run shows until when it waits, and continues from its checkpoints."""
    for _ in range(20):
        harness.tool.add()
    harness.tool.add_rule(harness.tool.is_detail, rate_limited(harness.tool), after=12)
    run = await harness.start()

    async def waits() -> bool:
        rows = await harness.fetch("select 1 from job where id = %s and state = 'delayed'", run.job_id)
        return rows != [] and (await harness.reload_run(run)).rate_limited_until is not None

    await wait_until(waits)
    assert (await harness.reload_run(run)).status == "running"
    before = harness.tool.detail_calls()
    await harness.run_delayed_jobs()
    assert (await harness.wait_until_ended(run)).status == "success"
    await harness.assert_matches_tool()
    after = harness.tool.detail_calls()[len(before) :]
    assert len(set(before)) == len(before)
    # Only requests that ran at the same time as the limited one are repeated.
    assert len(set(before) & set(after)) <= CONCURRENCY


async def test_a_short_limit_is_waited_for(harness: ConnectorHarness) -> None:
    harness.tool.add_rule(harness.tool.is_detail, rate_limited(harness.tool, seconds=0), after=2, times=2)
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


async def test_what_can_not_be_read_is_counted_and_read_by_the_next_run(harness: ConnectorHarness) -> None:
    """S2-38."""
    paths: list[str] = []

    def one(call: FakeCall) -> bool:
        if harness.tool.is_detail(call) and not paths:
            paths.append(call.path)
        return call.path in paths

    harness.tool.add_rule(one, failing(harness.tool, 403), times=100)
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)
    assert len(await harness.indexed_documents()) == len(harness.tool.expected_documents()) - 1
    harness.tool.rules.clear()
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


async def test_rejected_credentials_end_the_run_with_a_clear_error(harness: ConnectorHarness) -> None:
    """S2-18, S2-40."""
    harness.tool.add_rule(everything, failing(harness.tool, 401), times=100)
    run = await harness.sync()
    assert (run.status, run.error_code) == ("failed", "connector_unauthorized")
    harness.tool.rules.clear()
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


async def test_a_mass_deletion_is_held_until_it_is_allowed(harness: ConnectorHarness) -> None:
    for _ in range(40):
        harness.tool.add()
    await harness.sync()
    known = len(harness.tool.expected_documents())
    while len(harness.tool.expected_documents()) > known // 2:
        harness.tool.delete(0)
    run = await harness.sync()
    assert (run.status, run.error_code) == ("completed_with_errors", "mass_deletion_held")
    assert len(await harness.indexed_documents()) == known
    run = await harness.sync(allow_deletions=True)
    assert run.status == "success"
    assert run.documents_pruned > 0
    await harness.assert_matches_tool()


async def test_a_dry_run_reports_what_a_run_would_do_and_changes_nothing(harness: ConnectorHarness) -> None:
    run = await harness.sync(dry_run=True)
    assert run.plan is not None
    assert (run.plan["add"], run.plan["change"], run.plan["prune"]) == (
        len(harness.tool.expected_documents()),
        0,
        0,
    )
    assert await harness.indexed_documents() == {}
    await harness.sync()
    harness.tool.delete(0)
    harness.tool.add()
    run = await harness.sync(dry_run=True)
    assert run.plan is not None
    assert (run.plan["add"], run.plan["prune"]) == (1, 1)
    await harness.sync()
    await harness.assert_matches_tool()


async def test_a_cancelled_run_stops_and_the_next_goes_on(harness: ConnectorHarness) -> None:
    """C22."""
    with faults.watch("sync.saved", hold=True) as saved:
        run = await harness.start()
        await reached(saved)
        ended = await admin.cancel_sync(harness.mill.db, harness.connector.id)
    assert ended.status == "cancelled"

    async def over() -> bool:
        return await harness.fetch("select 1 from job where subject = %s", harness.connector.id) == []

    await wait_until(over)
    assert (await harness.reload_run(run)).status == "cancelled"
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


@pytest.mark.parametrize("seed", range(2))
async def test_permissions_follow_by_themselves(harness: ConnectorHarness, seed: int) -> None:
    """On their own schedule, without a run: no document is read, no vector is written."""
    await harness.sync()
    harness.tool.change_permission(seed)
    harness.tool.calls.clear()
    async with harness.mill.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(SyncAccess(harness.connector.id), lane=harness.connector.lane))

    async def over() -> bool:
        return await harness.fetch("select 1 from job where kind = 'sync_access'") == []

    await wait_until(over)
    await harness.assert_matches_tool()
    assert harness.tool.detail_calls() == []
