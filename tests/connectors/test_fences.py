"""A worker that lost a run's job writes nothing more for that run."""

import pytest

from gristmill import app, faults
from gristmill.connectors import prune
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import fake_tool_fixture
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import reached

pytestmark = pytest.mark.slow


tool = fake_tool_fixture(FakeGitHub)


async def take_jobs_away(mill: app.Gristmill) -> None:
    """Let another live worker take over every running job."""
    async with mill.db.transaction() as tx:
        await tx.execute(
            "with other as (insert into worker (id, lease_until) values (gen_random_uuid(), 'infinity') returning id)"
            " update job set lease = gen_random_uuid(), worker = other.id from other where state = 'running'"
        )


async def test_an_estimate_is_written_by_the_holder_of_the_lease_only(
    mill: app.Gristmill, harness: ConnectorHarness
) -> None:
    """Promise 5."""
    with faults.watch("worker.settled") as ended, faults.watch("sync.estimated", hold=True) as estimated:
        run = await harness.start()
        await reached(estimated)
        await take_jobs_away(mill)
        ended.passed.clear()
        estimated.hold.set()
        await reached(ended)
    assert (await harness.reload_run(run)).total_items is None


async def test_deletions_are_held_by_the_holder_of_the_lease_only(
    mill: app.Gristmill, harness: ConnectorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 5."""
    await harness.sync()
    monkeypatch.setattr(prune, "MASS_DELETION_COUNT", 0)
    monkeypatch.setattr(prune, "MASS_DELETION_SHARE", 0)
    harness.tool.delete(0)
    with faults.watch("worker.settled") as ended, faults.watch("prune.guarded", hold=True) as guarded:
        run = await harness.start()
        await reached(guarded)
        await take_jobs_away(mill)
        ended.passed.clear()
        guarded.hold.set()
        await reached(ended)
    assert not (await harness.reload_run(run)).deletions_held
