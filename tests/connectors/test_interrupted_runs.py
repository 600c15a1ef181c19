"""What a run does with what an earlier one left half done, and what a dry run says about it."""

from typing import Any

import pytest

from gristmill import app, faults
from gristmill.connectors import admin
from gristmill.connectors.listing import by_git_tree
from gristmill.connectors.port import Checkpoint, Document, DocumentRef, Stream
from gristmill.errors import SourceGone
from gristmill.operations.delete import delete
from gristmill.operations.freshness import take_back
from tests.connectors.fakes.files import FakeWebDav
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.jira import FakeJira
from tests.connectors.fakes.tool import FakeCall, FakeComment, FakeTool, failing, rate_limited, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow


async def cancel_after(harness: ConnectorHarness, batches: int) -> None:
    """Start a run, and cancel it when it has saved so many batches."""
    with faults.watch("sync.saved", hold=True) as saved:
        run = await harness.start()
        for _ in range(batches - 1):
            await reached(saved)
            saved.passed.clear()
            saved.hold.set()
            saved.hold.clear()
        await reached(saved)
        await admin.cancel_sync(harness.mill.db, harness.connector.id)

    async def is_idle() -> bool:
        return await harness.fetch("select 1 from job where subject = %s", harness.connector.id) == []

    await wait_until(is_idle)
    assert (await harness.reload_run(run)).status == "cancelled"


@pytest.mark.parametrize(("kind", "batches"), [(FakeWebDav, 1), (FakeGitHub, 2)], ids=["webdav", "github"])
async def test_the_run_after_a_cancelled_one_sees_what_changed_since(
    mill: app.Gristmill, kind: type[FakeTool], batches: int
) -> None:
    """S2-09, S2-27. The cancelled run has listed a part already: what was edited and deleted there meanwhile, too."""
    with serve_fake(kind()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        for _ in range(10):
            tool.add()
        await harness.sync()
        tool.advance_clock(7200)
        await cancel_after(harness, batches)
        for pick in range(0, 20, 2):
            tool.edit(pick)
        for pick in (0, 1, 5):
            tool.delete(pick)
        tool.advance_clock(7200)
        before = set(await harness.indexed_documents())
        plan = (await harness.sync(dry_run=True)).plan
        run = await harness.sync(allow_deletions=True)
        assert run.status == "success", await harness.log_text(run)
        await harness.assert_matches_tool()
        gone = len(before - set(tool.expected_documents()))
        assert plan is not None
        assert (plan["change"], plan["prune"]) == (run.documents_ingested, gone)


async def test_what_changed_while_it_could_not_be_seen_is_read_when_it_is_shown_again(
    mill: app.Gristmill,
) -> None:
    """S2-27. The deletions of so many were held back, and by now the watermark is later than the changes."""
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        repo = tool.repos[0]
        for _ in range(30):
            tool.add_issue(repo)
        await harness.sync()
        hidden, repo.issues = repo.issues[:-2], repo.issues[-2:]
        tool.advance_clock(7200)
        for issue in hidden[::2]:
            issue.text, issue.updated = f"Text {tool.new_word()}", tool.now
        tool.advance_clock(7200)
        repo.issues[0].text, repo.issues[0].updated = f"Text {tool.new_word()}", tool.now
        assert (await harness.sync()).error_code == "mass_deletion_held"
        repo.issues = [*hidden, *repo.issues]
        plan = (await harness.sync(dry_run=True)).plan
        run = await harness.sync()
        await harness.assert_matches_tool()
        assert plan is not None
        assert plan["change"] == run.documents_ingested == len(hidden[::2])
        tool.calls.clear()
        await harness.sync()
        assert tool.detail_calls() == []


async def test_an_audience_that_could_not_be_resolved_is_asked_for_again_by_the_next_run(
    mill: app.Gristmill,
) -> None:
    """S2-28, S2-29. No document of the security level has changed, so no stream names its audience."""
    with serve_fake(FakeJira()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        _, issue = tool.all_issues()[0]
        issue.level = 7
        await harness.sync()
        await harness.assert_matches_tool()

        def asks_for_levels(call: FakeCall) -> bool:
            return "levelId" in call.params

        tool.add_rule(asks_for_levels, failing(tool, 404))
        await harness.refresh_permissions()
        assert await harness.visible_ids("ann@example.org") < tool.visible_ids("ann@example.org")
        tool.advance_clock(7200)
        await harness.sync()
        assert await harness.visible_ids("ann@example.org") == tool.visible_ids("ann@example.org")


async def test_a_dry_run_counts_what_an_earlier_run_could_not_read(mill: app.Gristmill) -> None:
    """By now the watermark is later than the change."""
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        issue = tool.add_issue(tool.repos[0])
        issue.comments = []
        await harness.sync()
        tool.advance_clock(7200)
        issue.text, issue.updated = f"Text {tool.new_word()}", tool.now
        issue.comments = [FakeComment(tool.new_id(), f"said {tool.new_word()}", tool.now)]

        def reads_comments(call: FakeCall) -> bool:
            return call.path.endswith(f"/issues/{issue.number}/comments")

        tool.add_rule(reads_comments, failing(tool, 403), times=100)
        assert (await harness.sync()).item_errors == 1
        tool.rules.clear()
        tool.advance_clock(7200)
        tool.repos[0].files["README.md"] = f"guide {tool.new_word()}"
        plan = (await harness.sync(dry_run=True)).plan
        assert plan is not None
        assert (plan["add"], plan["change"], plan["prune"]) == (0, 2, 0)
        assert (await harness.sync()).documents_ingested == 2


async def test_a_moved_file_keeps_its_record_and_a_dry_run_counts_it_as_changed(mill: app.Gristmill) -> None:
    """It is neither added nor pruned."""
    records = "select id from item where type = 'record' and status <> 'deleting' order by id"
    with serve_fake(FakeWebDav()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        before = await harness.fetch(records)
        tool.move_document(5)
        plan = (await harness.sync(dry_run=True)).plan
        assert plan is not None
        assert (plan["add"], plan["change"], plan["prune"]) == (0, 1, 0)
        run = await harness.sync()
        assert (run.documents_ingested, run.documents_pruned) == (1, 0)
        assert await harness.fetch(records) == before
        await harness.assert_matches_tool()


async def test_a_file_that_someone_deleted_here_stays_deleted_when_it_is_moved(mill: app.Gristmill) -> None:
    with serve_fake(FakeWebDav()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        before = set(tool.expected_documents())
        ((record,),) = await harness.fetch(
            "select id from item where source_key = %s", f"file:{tool.followed()[5]}"
        )
        await delete(mill.db, harness.base.id, [record])
        tool.move_document(5)
        (new_id,) = set(tool.expected_documents()) - before
        assert (await harness.sync()).status == "success"
        assert set(tool.expected_documents()) - set(await harness.indexed_documents()) == {new_id}
        assert await harness.fetch("select source_key from exclusion") == [(new_id,)]
        await take_back(mill.db, harness.base.id, None, admin.forget_records)
        await harness.sync()
        await harness.assert_matches_tool()


async def test_a_dry_run_of_a_full_reread_forgets_nothing(mill: app.Gristmill) -> None:
    with serve_fake(FakeWebDav()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        plan = (await harness.sync(dry_run=True, force=True)).plan
        assert plan is not None
        assert (plan["add"], plan["change"], plan["unchanged"]) == (0, 0, len(tool.expected_documents()))
        tool.calls.clear()
        await harness.sync()
        assert tool.detail_calls() == []


async def test_a_rate_limit_between_downloads_keeps_what_was_downloaded(mill: app.Gristmill) -> None:
    """A tool that allows five downloads an hour is read all the same, five files at a time."""
    with serve_fake(FakeWebDav()) as tool:
        harness = await ConnectorHarness.create(mill, tool)

        def is_download(call: FakeCall) -> bool:
            return call.method == "GET"

        for limit in (1, 2):
            tool.add_rule(is_download, rate_limited(tool), after=5 * limit)
        run = await harness.start()

        async def ended_run() -> Any:
            current = await harness.reload_run(run)
            await harness.run_delayed_jobs()
            return current if current.completed_at else None

        assert (await wait_until(ended_run)).status == "success"
        await harness.assert_matches_tool()
        downloads = [call.path for call in tool.calls if is_download(call)]
        assert len(downloads) == len(set(downloads)) + 2  # those that were refused


class _LostTree:
    """The files of a branch whose newest tree was replaced while it was read."""

    async def fetch_head(self) -> str:
        return "new"

    async def fetch_tree(self, tree_id: str) -> dict[str, str]:
        if tree_id == "new":
            raise SourceGone("It is gone.")
        return {"a.md": "1"}

    async def fetch_file(self, path: str, digest: str) -> Document:
        raise AssertionError(path, digest)

    def ref(self, path: str) -> DocumentRef:
        return DocumentRef(f"file:{path}", Stream("repository:1", "file"))


async def test_a_tree_that_is_gone_is_not_taken_for_an_empty_one() -> None:
    """Else its checkpoint would pass files that were never read."""
    checkpoint = Checkpoint(1, {"tree": "old"})
    batches = by_git_tree.read(Stream("repository:1", "file"), 1, checkpoint, _LostTree(), audiences=())
    with pytest.raises(SourceGone):
        await anext(aiter(batches))
