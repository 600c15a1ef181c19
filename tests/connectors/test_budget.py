"""A run whose time is used up after every batch: it goes on from its marks, and not for ever."""

from collections.abc import Generator
from datetime import timedelta

import pytest

from gristmill import faults
from gristmill.connectors import sync as syncing
from gristmill.settings import Settings
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """No time at all; or what the test asks for."""
    given = getattr(request, "param", {"sync_budget": timedelta(microseconds=1)})
    return settings.model_copy(update={"allow_private_addresses": True, **given})


@pytest.fixture
def tool() -> Generator[FakeGitHub]:
    with serve_fake(FakeGitHub()) as double:
        yield double


async def test_a_run_out_of_time_goes_on_where_it_was(bench: ConnectorHarness) -> None:
    """S2-14, S2-15."""
    run = await bench.sync()
    assert run.status == "success"
    assert 3 <= run.continuations <= syncing.MAX_CONTINUATIONS
    details = bench.tool.detail_calls()
    assert len(set(details)) == len(details)
    await bench.assert_matches_tool()


async def test_a_run_is_not_continued_for_ever(
    bench: ConnectorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-15: at most so many times; the next run goes on from there."""
    monkeypatch.setattr(syncing, "MAX_CONTINUATIONS", 1)
    run = await bench.sync()
    assert (run.status, run.error_code) == ("partial", "continuation_limit")
    monkeypatch.undo()
    assert (await bench.sync()).status == "success"
    await bench.assert_matches_tool()


@pytest.mark.parametrize("settings", [{"max_queue_per_base": 3, "worker_slots": 2}], indirect=True)
async def test_a_run_waits_while_too_much_is_queued(bench: ConnectorHarness) -> None:
    """It holds no worker meanwhile, and goes on from its marks."""
    with faults.watch("index.opened", hold=True):
        run = await bench.start()

        async def waits() -> bool:
            rows = await bench.fetch("select 1 from job where id = %s and state = 'delayed'", run.job_id)
            return rows != []

        await wait_until(waits)
        assert (await bench.reload_run(run)).documents_processed < len(bench.tool.expected_documents())

    async def hurried() -> bool:
        await bench.run_delayed_jobs()
        return (await bench.reload_run(run)).completed_at is not None

    await wait_until(hurried)
    await bench.assert_matches_tool()
