"""The contract of every connector: whatever happens in the tool or in Gristmill, the base ends up equal to the tool.

What does not fit a tool is declared by its fake (`has_permissions`, `reads_at_once`, `keeps_deleted`); the tests then say what
holds in its place.
"""

import random
from collections.abc import Callable

import pytest

from gristmill import faults
from gristmill.connectors import admin
from gristmill.connectors.listing.details import CONCURRENCY
from gristmill.connectors.prune import MASS_DELETION_COUNT
from tests.connectors.fakes.files import FakeFiles
from tests.connectors.fakes.tool import SECRET, FakeCall, FakeTool, failing, rate_limited
from tests.connectors.harness import ConnectorHarness
from tests.connectors.walk import same_request
from tests.thorough import examples
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow


def is_any(_: FakeCall) -> bool:
    return True


def make_changes(tool: FakeTool, dice: random.Random, count: int) -> None:
    """Make a few changes, some of them in the same second."""
    for _ in range(count):
        acts: list[Callable[[int], None]] = [
            tool.edit,
            tool.edit,
            tool.edit,
            tool.delete,
            lambda _: tool.add(),
        ]
        act = dice.choice([*acts, tool.change_permission if tool.has_permissions else tool.move_document])
        act(dice.randrange(1000))
        tool.advance_clock(dice.choice([0, 0, 1, 5]))


async def test_the_first_run_reads_everything_and_the_next_reads_no_document(
    harness: ConnectorHarness,
) -> None:
    """With permissions: S2-05..13, S2-11, S2-12, S2-17, S2-28, S2-34. Nothing changed, so nothing is read or filed again: S2-10."""
    run = await harness.sync()
    assert (run.status, run.item_errors, run.error_code) == ("success", 0, None)
    assert run.documents_processed == run.documents_ingested == len(harness.tool.expected_documents())
    await harness.assert_matches_tool()
    harness.tool.calls.clear()
    run = await harness.sync()
    assert run.documents_ingested == 0
    assert harness.tool.detail_calls() == []
    await harness.assert_matches_tool()


async def test_a_run_reads_everything_that_changed_before_or_during_the_last_run(
    harness: ConnectorHarness,
) -> None:
    """S2-09, S2-27, C5b; FIELD 8. Documents are edited, added and deleted before a run and between any two of its
    requests. The run after it, which nothing disturbs, makes the base equal to the tool."""
    dice = random.Random(11)
    await harness.sync()
    for _ in range(examples(1, 4)):
        make_changes(harness.tool, dice, 6)
        harness.tool.advance_clock(5)
        harness.tool.add_rule(is_any, lambda: make_changes(harness.tool, dice, 1), after=3, times=12)
        await harness.sync(allow_deletions=True)
        harness.tool.rules.clear()
        run = await harness.sync(allow_deletions=True)
        log = await harness.log_text(run)
        # Jira Data Center does not say who is in a security level: its runs name what only admins see.
        assert run.status == "success" or "could not be found out" in log, log
        await harness.assert_matches_tool()


async def test_what_becomes_visible_later_is_read_whatever_its_date(harness: ConnectorHarness) -> None:
    """S2-09, S2-27. What the credentials can't see looks deleted; when they see it again it has its old date."""
    tool = harness.tool
    await harness.sync()
    content, all_ids = tool.snapshot(), tool.expected_documents().keys()
    for pick in range(3):
        tool.delete(pick * 7)
    hidden = len(all_ids - tool.expected_documents().keys())
    assert hidden
    tool.advance_clock(7200)
    await harness.sync(allow_deletions=True)
    await harness.assert_matches_tool()
    tool.restore(content)
    tool.advance_clock(7200)
    plan = (await harness.sync(dry_run=True)).plan
    assert plan is not None
    to_read = 0 if tool.keeps_deleted else hidden
    assert plan["add"] == to_read
    run = await harness.sync()
    assert (run.status, run.documents_ingested) == ("success", to_read), await harness.log_text(run)
    await harness.assert_matches_tool()
    assert (await harness.sync()).documents_ingested == 0


async def test_all_documents_that_changed_in_one_second_are_read(harness: ConnectorHarness) -> None:
    """More of them than fit on a page: the position alone can't distinguish them."""
    for _ in range(30):
        harness.tool.add()
    run = await harness.sync()
    assert run.status == "success"
    await harness.assert_matches_tool()


async def test_a_long_rate_limit_delays_the_job_and_nothing_is_read_twice(
    harness: ConnectorHarness,
) -> None:
    """The run shows until when it waits, and continues from its checkpoints."""
    for _ in range(20):
        harness.tool.add()
    tool = harness.tool
    limited = same_request(tool, 0 if tool.reads_at_once else 8)
    tool.add_rule(limited, rate_limited(tool), times=tool.tries)
    run = await harness.start()

    async def is_waiting() -> bool:
        rows = await harness.fetch("select 1 from job where id = %s and state = 'delayed'", run.job_id)
        return rows != [] and (await harness.reload_run(run)).rate_limited_until is not None

    await wait_until(is_waiting)
    assert (await harness.reload_run(run)).status == "running"
    before = harness.tool.detail_calls()
    await harness.run_delayed_jobs()
    assert (await harness.wait_until_ended(run)).status == "success"
    await harness.assert_matches_tool()
    after = harness.tool.detail_calls()[len(before) :]
    assert len(before) - len(set(before)) == tool.tries - 1
    # Only documents that were read at the same time as the limited one are read again. With more requests for each, some of the
    # others were read faster.
    at_once = CONCURRENCY if tool.requests_each == 1 else 2 * CONCURRENCY * tool.requests_each
    assert len(set(before) & set(after)) <= at_once


async def test_a_run_waits_out_a_short_rate_limit(harness: ConnectorHarness) -> None:
    after = 0 if harness.tool.reads_at_once else 2
    harness.tool.add_rule(harness.tool.is_detail, rate_limited(harness.tool, seconds=0), after=after, times=2)
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


async def test_a_document_that_fails_is_counted_and_read_by_the_next_run(harness: ConnectorHarness) -> None:
    """S2-38."""
    harness.tool.add_rule(same_request(harness.tool), failing(harness.tool, 403), times=100)
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)
    count = len(harness.tool.expected_documents())
    assert len(await harness.indexed_documents()) == (0 if harness.tool.reads_at_once else count - 1)
    harness.tool.rules.clear()
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


async def test_rejected_credentials_end_the_run_with_a_clear_error(harness: ConnectorHarness) -> None:
    """S2-18, S2-40: in which the secret does not occur."""
    harness.tool.add_rule(is_any, failing(harness.tool, 401), times=100)
    run = await harness.sync()
    assert (run.status, run.error_code) == ("failed", "connector_unauthorized")
    assert SECRET not in await harness.log_text(run)
    harness.tool.rules.clear()
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


async def test_a_mass_deletion_is_held_until_it_is_allowed(harness: ConnectorHarness) -> None:
    # The fakes keep at least eight documents.
    while (missing := MASS_DELETION_COUNT + 9 - len(harness.tool.expected_documents())) > 0:
        for _ in range(missing):
            harness.tool.add()
    await harness.sync()
    count = len(harness.tool.expected_documents())
    while (excess := len(harness.tool.expected_documents()) - count + MASS_DELETION_COUNT) >= 0:
        for _ in range(excess + 1):
            harness.tool.delete(0)
    run = await harness.sync()
    if harness.tool.keeps_deleted:  # there is nothing to hold: what it no longer names stays
        assert (run.status, run.documents_pruned) == ("success", 0)
        assert len(await harness.indexed_documents()) == count
        return
    assert (run.status, run.error_code) == ("completed_with_errors", "mass_deletion_held")
    assert len(await harness.indexed_documents()) == count
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
    before = harness.tool.expected_documents().keys()
    harness.tool.delete(0)
    deleted_ids = before - harness.tool.expected_documents().keys()
    harness.tool.add()
    run = await harness.sync(dry_run=True)
    assert run.plan is not None
    assert (run.plan["add"], run.plan["prune"]) == (1, 0 if harness.tool.keeps_deleted else len(deleted_ids))
    await harness.sync()
    await harness.assert_matches_tool()


async def test_a_cancelled_run_stops_and_the_next_goes_on(harness: ConnectorHarness) -> None:
    """C22."""
    with faults.watch("sync.saved", hold=True) as saved:
        run = await harness.start()
        await reached(saved)
        cancelled_run = await admin.cancel_sync(harness.mill.db, harness.connector.id)
    assert cancelled_run.status == "cancelled"

    async def is_idle() -> bool:  # what it stored is indexed all the same
        return await harness.fetch("select 1 from job") == []

    await wait_until(is_idle)
    assert (await harness.reload_run(run)).status == "cancelled"
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


async def test_permissions_are_synchronised_by_a_job_of_their_own(harness: ConnectorHarness) -> None:
    """On their own schedule, without a run: no document is read, no vector is written."""
    await harness.sync()
    harness.tool.calls.clear()
    if not harness.tool.has_permissions:
        await harness.refresh_permissions()
        assert await harness.visible_ids("stranger@example.org") == set(harness.tool.expected_documents())
    for pick in range(2 if harness.tool.has_permissions else 0):
        harness.tool.change_permission(pick)
        await harness.refresh_permissions()
        await harness.assert_matches_tool()
    assert harness.tool.detail_calls() == []


async def test_a_moved_document_keeps_its_record(harness: ConnectorHarness) -> None:
    """Tools that name files by their paths: in others, a document has an id that stays."""
    tool = harness.tool
    await harness.sync()
    records = "select id from item where type = 'record' and status <> 'deleting'"
    before, ids = set(await harness.fetch(records)), set(tool.expected_documents())
    for pick in (1, 5):
        tool.move_document(pick)
    run = await harness.sync()
    assert (run.status, run.documents_pruned) == ("success", 0), await harness.log_text(run)
    await harness.assert_matches_tool()
    assert before <= set(await harness.fetch(records))
    assert (ids <= set(tool.expected_documents())) is not isinstance(tool, FakeFiles)
