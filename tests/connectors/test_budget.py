"""A run whose time budget is used up after every batch continues from its checkpoints, up to a limit."""

from datetime import timedelta

import pytest

from gristmill import faults
from gristmill.connectors import sync as syncing
from gristmill.settings import Settings
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import fake_tool_fixture
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """No time budget at all, or what the test sets."""
    overrides = getattr(request, "param", {"sync_budget": timedelta(microseconds=1)})
    return settings.model_copy(update={"allow_private_addresses": True, **overrides})


tool = fake_tool_fixture(FakeGitHub)


async def test_a_run_out_of_time_continues_where_it_was(harness: ConnectorHarness) -> None:
    """S2-14, S2-15."""
    run = await harness.sync()
    assert run.status == "success"
    assert 3 <= run.continuations <= syncing.MAX_CONTINUATIONS
    details = harness.tool.detail_calls()
    assert len(set(details)) == len(details)
    await harness.assert_matches_tool()


async def test_a_run_is_continued_a_limited_number_of_times(
    harness: ConnectorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-15: at most so many times; the next run goes on from there."""
    monkeypatch.setattr(syncing, "MAX_CONTINUATIONS", 1)
    run = await harness.sync()
    assert (run.status, run.error_code) == ("partial", "continuation_limit")
    monkeypatch.undo()
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


@pytest.mark.parametrize("settings", [{"max_queue_per_base": 3, "worker_slots": 2}], indirect=True)
async def test_a_run_waits_while_too_much_is_queued(harness: ConnectorHarness) -> None:
    """It holds no worker meanwhile, and continues from its checkpoints."""
    with faults.watch("index.opened", hold=True):
        run = await harness.start()

        async def is_waiting() -> bool:
            rows = await harness.fetch("select 1 from job where id = %s and state = 'delayed'", run.job_id)
            return rows != []

        await wait_until(is_waiting)
        assert (await harness.reload_run(run)).documents_processed < len(harness.tool.expected_documents())

    async def is_over() -> bool:
        await harness.run_delayed_jobs()
        return (await harness.reload_run(run)).completed_at is not None

    await wait_until(is_over)
    await harness.assert_matches_tool()
