"""A tool that responds in part: what it answers is stored, and what it does not ends after a few attempts, not never."""

from collections.abc import Callable

import pytest

from gristmill import app, jobs
from gristmill.connectors import transport
from gristmill.connectors.port import Batch, DocumentRef
from gristmill.connectors.registry import KINDS
from gristmill.connectors.testing import open_temporarily
from gristmill.errors import Unreadable
from gristmill.jobs import NewJob
from gristmill.work import SyncAccess, SyncConnector
from tests.connectors.fakes.confluence import FakeConfluence, FakeConfluenceDataCenter
from tests.connectors.fakes.drives import FakeGraph
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.gitlab import FakeGitLab
from tests.connectors.fakes.jira import FakeJira, FakeJiraDataCenter
from tests.connectors.fakes.tool import FakeTool, failing, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.sources.site import SiteResponse
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def repeat_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are repeated without a pause."""
    monkeypatch.setattr(transport, "_MAX_DELAY", 0.0)


async def retry_until_over(harness: ConnectorHarness, kind: str, rounds: int = 30) -> int:
    """Make the connector's job due whenever it is delayed, until it is over; how often that was."""
    for count in range(rounds):

        async def is_at_rest() -> bool:
            states = await harness.fetch("select state::text from job where kind = %s", kind)
            return states in ([], [("delayed",)], [("dead",)])

        await wait_until(is_at_rest)
        if not await harness.fetch("select 1 from job where kind = %s and state = 'delayed'", kind):
            return count
        await harness.run_delayed_jobs()
    raise AssertionError("the job goes on for ever")


async def begin_refresh(harness: ConnectorHarness) -> None:
    """Queue a refresh of the permissions."""
    async with harness.mill.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(SyncAccess(harness.connector.id), lane=harness.connector.lane))


async def test_a_run_whose_tool_never_returns_a_document_fails_in_the_end(mill: app.Gristmill) -> None:
    """S2-22: after nine attempts without progress; lists are read in each of them."""
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        tool.add_rule(tool.is_detail, failing(tool), times=10**9)
        run = await harness.start()
        assert await retry_until_over(harness, SyncConnector.kind) <= SyncConnector.attempts
        run = await harness.reload_run(run)
        assert (run.status, run.error_code) == ("failed", "connector_unavailable")
        tool.rules.clear()
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()


async def test_a_refresh_reads_the_permissions_of_all_but_the_repository_that_does_not_respond(
    mill: app.Gristmill,
) -> None:
    """And ends, after some attempts."""
    with serve_fake(FakeGitHub()) as tool:
        for number in range(7):
            tool.add_repo(f"acme/p{number}", private=True).collaborators = {"ann": 1, "cat": 3}
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        for repo in tool.repos:
            repo.collaborators.pop("cat", None)
        silent = "/repos/acme/p3/collaborators"
        tool.add_rule(lambda call: call.path == silent, failing(tool), times=10**9)
        await begin_refresh(harness)
        assert await retry_until_over(harness, SyncAccess.kind) <= 2 * SyncAccess.attempts
        expected = tool.expected_documents()
        still_seen = await harness.visible_ids("cat@example.org") - tool.visible_ids("cat@example.org")
        assert all(key in expected for key in still_seen)
        repositories = {
            row[0]
            for row in await harness.fetch(
                "select distinct source ->> 'scope' from item where source_key = any (%s)", list(still_seen)
            )
        }
        assert repositories == {f"repository:{repo.id}" for repo in tool.repos if repo.name == "acme/p3"}
        tool.rules.clear()
        await harness.refresh_permissions()
        await harness.assert_matches_tool()


def limit_requests(tool: FakeTool, refuse: Callable[[], SiteResponse]) -> Callable[[], None]:
    """Let the tool refuse all but the first eight requests; the function allows eight more."""
    left = [8]

    def act() -> SiteResponse | None:
        left[0] -= 1
        return refuse() if left[0] < 0 else None

    tool.add_rule(lambda _: True, act, times=10**9)

    def allow_more() -> None:
        left[0] = 8

    return allow_more


@pytest.mark.parametrize("name", ["github", "sharepoint"])
async def test_a_refresh_goes_on_after_a_rate_limit_where_it_was(mill: app.Gristmill, name: str) -> None:
    """S2-28. Eight requests at a time: readers who lost their access lose it here, however many limits that takes."""
    with serve_fake(FakeGitHub() if name == "github" else FakeGraph()) as tool:
        if isinstance(tool, FakeGitHub):
            for number in range(8):
                tool.add_repo(f"acme/p{number}", private=True).collaborators = {"ann": 1, "cat": 3}
        else:
            for _ in range(60):
                tool.add()
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        if isinstance(tool, FakeGitHub):
            for repo in tool.repos:
                repo.collaborators.pop("cat", None)
        else:
            for pick in range(12):
                tool.restrict(pick)

        def refuse() -> SiteResponse:
            if isinstance(tool, FakeGitHub):
                body = {"message": "API rate limit exceeded"}
                return tool.respond(body, 403, X_RateLimit_Remaining="0", Retry_After="1800")
            return tool.respond({"error": {"code": "tooManyRequests"}}, 429, Retry_After="1800")

        allow_more = limit_requests(tool, refuse)
        await begin_refresh(harness)
        for _ in range(30):

            async def is_at_rest() -> bool:
                states = await harness.fetch("select state::text from job where kind = %s", SyncAccess.kind)
                return states in ([], [("delayed",)])

            await wait_until(is_at_rest)
            if not await harness.fetch("select 1 from job where kind = %s", SyncAccess.kind):
                break
            allow_more()
            await harness.run_delayed_jobs()
        else:
            raise AssertionError("the refresh never gets beyond the first limit")
        tool.rules.clear()
        await harness.assert_matches_tool()
        # It may take hours: no answer is older than what people are shown.
        query = "select acl_as_of <= (select min(as_of) from connector_audience) from connector"
        assert await harness.fetch(query) == [(True,)]


async def test_a_page_of_a_proxy_is_no_sign_that_a_document_is_gone(mill: app.Gristmill) -> None:
    """The listing no longer names it, and what the tool says of the document itself can't be understood: it stays, and the run says so."""
    with serve_fake(FakeConfluence()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        before = set(await harness.indexed_documents())
        tool.advance_clock()
        tool.delete(0)
        tool.add_rule(tool.is_detail, lambda: SiteResponse(body=b"<html>Please log in"), times=1000)
        run = await harness.sync()
        assert (run.status, run.documents_pruned) == ("completed_with_errors", 0)
        assert "did not return JSON" in await harness.log_text(run)
        assert set(await harness.indexed_documents()) == before
        tool.rules.clear()
        run = await harness.sync()
        assert (run.status, run.documents_pruned) == ("success", 1)
        await harness.assert_matches_tool()


@pytest.mark.parametrize(
    "kind",
    [FakeConfluence, FakeConfluenceDataCenter, FakeGitHub, FakeGitLab, FakeJira, FakeJiraDataCenter],
)
async def test_an_error_with_status_200_is_no_empty_list_and_no_missing_document(
    kind: type[FakeTool],
) -> None:
    """What a list does not name is removed, and what the tool says is gone: an error must say neither."""
    with serve_fake(kind()) as tool:
        connector_kind = KINDS[tool.kind]
        async with open_temporarily(connector_kind, tool.config(), tool.credentials()) as connector:
            batches: list[Batch] = [batch async for batch in connector.sync({})]
        refs: dict[str, DocumentRef] = {
            document.ref.stream.kind: document.ref for batch in batches for document in batch.documents
        }
        busy = {"errorMessages": ["Try again later."], "error": {"message": "Try again later."}}
        async with open_temporarily(connector_kind, tool.config(), tool.credentials()) as connector:
            assert await connector.find_problems() == []  # what is followed is known
            tool.add_rule(lambda _: True, lambda: tool.respond(busy), times=10**9)
            problems = [batch async for batch in connector.sync({})]
            assert {batch.stream for batch in problems} == {batch.stream for batch in batches}
            for batch in problems:
                assert batch.problem is not None, batch.stream
                assert not batch.is_listing_complete
            for ref in refs.values():
                with pytest.raises(Unreadable):
                    await connector.fetch(ref)
