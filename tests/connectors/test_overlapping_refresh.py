"""A refresh of permissions that overlaps with a run: what only the run knows is asked for again, by whichever ends later."""

import pytest

from gristmill import app, faults, jobs
from gristmill.jobs import NewJob
from gristmill.work import SyncAccess
from tests.connectors.fakes.confluence import FakeConfluence
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.github_model import Repo
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow
CAT = "cat@example.org"


def add_private_repo(tool: FakeGitHub) -> Repo:
    """A repository with a file and without issues: a run says who sees it before it names a document of it."""
    repo = tool.add_repo("acme/new", private=True)
    repo.collaborators = {"ann": 1, "cat": 3}
    return repo


async def pass_until_known(harness: ConnectorHarness, held: faults.PointWatch, repo: Repo) -> None:
    """Let a run go on, batch by batch, until it has said who sees a repository."""
    key = f"repository:{repo.id}"
    while True:
        await reached(held)
        if await harness.fetch("select 1 from connector_audience where key = %s", key):
            return
        held.passed.clear()
        held.hold.set()
        held.hold.clear()


async def assert_no_answer_is_older_than_shown(harness: ConnectorHarness) -> None:
    """`aclAsOf` of the connector is not later than that of any of its documents."""
    query = "select acl_as_of <= (select min(as_of) from connector_audience) from connector"
    assert await harness.fetch(query) == [(True,)]


async def test_a_run_asks_again_for_what_a_refresh_could_not_know(mill: app.Gristmill) -> None:
    """S2-28. The run has asked who sees a new repository; a refresh that knows no document of it ends; the run stores the first."""
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        repo = add_private_repo(tool)
        with faults.watch("sync.saved", hold=True) as held:
            run = await harness.start()
            await pass_until_known(harness, held, repo)
            del repo.collaborators["cat"]
            await harness.refresh_permissions()
        assert (await harness.wait_until_ended(run)).status == "success"
        assert await harness.visible_ids(CAT) == tool.visible_ids(CAT)
        await harness.assert_matches_tool()
        await assert_no_answer_is_older_than_shown(harness)


async def test_a_refresh_asks_also_for_what_a_run_has_stored_meanwhile(mill: app.Gristmill) -> None:
    """S2-28. The run has asked before the refresh began, and ends before it."""
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        repo = add_private_repo(tool)
        with faults.watch("sync.saved", hold=True) as held:
            run = await harness.start()
            await pass_until_known(harness, held, repo)
            del repo.collaborators["cat"]
            with faults.watch("access.answered", hold=True) as answered:
                async with mill.db.transaction() as tx:
                    work = SyncAccess(harness.connector.id)
                    await jobs.enqueue(tx, NewJob(work, lane=harness.connector.lane))
                await reached(answered)
                held.hold.set()
                assert (await harness.wait_until_ended(run)).status == "success"

        async def is_over() -> bool:
            return await harness.fetch("select 1 from job where kind = 'sync_access'") == []

        await wait_until(is_over)
        assert await harness.visible_ids(CAT) == tool.visible_ids(CAT)
        await harness.assert_matches_tool()
        await assert_no_answer_is_older_than_shown(harness)


async def test_a_run_that_did_not_ask_for_all_permissions_does_not_say_so(mill: app.Gristmill) -> None:
    """S2-28: who sees a restricted page of Confluence is read with the page, and by a refresh; `aclAsOf` is that of the oldest answer."""
    with serve_fake(FakeConfluence()) as tool:
        tool.restrict(0)
        harness = await ConnectorHarness.create(mill, tool)
        for _ in range(2):
            assert (await harness.sync()).status == "success"
            await assert_no_answer_is_older_than_shown(harness)
        await harness.refresh_permissions()
        await assert_no_answer_is_older_than_shown(harness)
