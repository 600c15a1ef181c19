"""What people change while a run is under way counts for that run, and the newest answer of a tool counts, whoever asked for it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gristmill import app, faults
from gristmill.connectors import audience_store, document_store
from gristmill.connectors.model import ConnectorRun
from gristmill.connectors.port import Audience, Document, DocumentRef, Stream
from gristmill.operations import bases
from tests.connectors.fakes.confluence import FakeConfluence
from tests.connectors.fakes.drives import FakeGraph
from tests.connectors.fakes.files import FakeS3
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import FakeTool, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow

BOSS, STRANGER = "boss@example.org", "stranger@example.org"
# With a batch in hand that was read by the old settings; and before anything was read.
any_point = pytest.mark.parametrize(
    "point", ["sync.saved", pytest.param("sync.opened", marks=pytest.mark.thorough)]
)
both_kinds = pytest.mark.parametrize("kind", [FakeGitHub, FakeS3], ids=["by time", "by mark"])


async def change_in_run(
    harness: ConnectorHarness, point: str = "sync.opened", **changes: object
) -> ConnectorRun:
    """Change the connector while a run of it is held at a fault point; the ended run."""
    with faults.watch(point, hold=True) as held:
        run = await harness.start()
        await reached(held)
        await harness.change(**changes)
    run = await harness.wait_until_ended(run)
    assert run.status == "success", await harness.log_text(run)
    return run


@any_point
async def test_an_access_list_that_is_set_in_the_middle_of_a_run_holds_for_all_documents(
    mill: app.Gristmill, point: str
) -> None:
    """S2-28: also for those that the run has read under the old list and stores only now."""
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        run = await change_in_run(harness, point, acl=[f"user_email:{BOSS}"], acl_given=True)
        assert "The connector was changed" in await harness.log_text(run)
        assert await harness.visible_ids(STRANGER) == set()
        assert await harness.visible_ids(BOSS) == set(tool.expected_documents())


async def test_an_access_list_that_is_removed_in_the_middle_of_a_run_gives_way_to_the_tools(
    mill: app.Gristmill,
) -> None:
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool, acl=[f"user_email:{BOSS}"])
        await change_in_run(harness, acl=None, acl_given=True)
        assert await harness.visible_ids(BOSS) == tool.visible_ids(BOSS)
        await harness.assert_matches_tool()


async def test_the_tool_is_asked_when_its_permissions_apply_again(mill: app.Gristmill) -> None:
    """It was not asked while the connector had a list of its own, and the next refresh by schedule may be hours away."""
    with serve_fake(FakeConfluence()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        await harness.change(acl=[f"user_email:{BOSS}"], acl_given=True)
        tool.restrict(0)
        await harness.change(acl=None, acl_given=True)

        async def is_over() -> bool:
            return (
                await harness.fetch("select 1 from job where kind = 'sync_access' and state <> 'dead'") == []
            )

        await wait_until(is_over)
        await harness.assert_matches_tool()


@both_kinds
@any_point
async def test_a_base_that_is_added_in_the_middle_of_a_run_is_filled_by_it(
    mill: app.Gristmill, kind: type[FakeTool], point: str
) -> None:
    with serve_fake(kind()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        second_base = await bases.create(mill.db, "second", HashedEmbedder(), {})
        await change_in_run(harness, point, base_ids=[harness.base.id, second_base.id])
        await harness.assert_matches_tool()
        await ConnectorHarness(mill, tool, second_base, harness.connector).assert_matches_tool()


async def test_a_base_that_is_added_while_a_run_prunes_is_filled_by_it(mill: app.Gristmill) -> None:
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        tool.delete(1)
        second_base = await bases.create(mill.db, "second", HashedEmbedder(), {})
        await change_in_run(harness, "prune.asked", base_ids=[harness.base.id, second_base.id])
        await harness.assert_matches_tool()
        await ConnectorHarness(mill, tool, second_base, harness.connector).assert_matches_tool()


async def test_settings_that_change_in_the_middle_of_a_run_apply_to_it(mill: app.Gristmill) -> None:
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.change(config={**tool.config(), "pullRequests": False})
        await change_in_run(harness, "sync.saved", config=tool.config())
        await harness.assert_matches_tool()


async def test_a_run_does_not_give_back_access_that_a_refresh_has_revoked(mill: app.Gristmill) -> None:
    """S2-28. The run has asked who is in the groups before they were emptied, and stores the answer after the refresh."""
    with serve_fake(FakeConfluence()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        for _ in range(3):
            tool.add()
        tool.advance_clock()
        with faults.watch("sync.saved", hold=True) as saved:
            run = await harness.start()
            await reached(saved)
            for members in tool.groups.values():
                members.clear()
            await harness.refresh_permissions()
        await harness.wait_until_ended(run)
        for email in ("ann@example.org", "bob@example.org", "cat@example.org"):
            assert await harness.visible_ids(email) <= tool.visible_ids(email), email


async def test_an_older_answer_gives_no_document_another_audience(mill: app.Gristmill) -> None:
    """The permissions of drives belong to files: a run has described one with a reader who lost it before the run stores it."""
    with serve_fake(FakeGraph()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        older = harness.connector
        newer = replace(older, read_at=older.read_at + timedelta(hours=1))
        rows = await harness.fetch(
            "select source_id, scope, kind, audience from connector_document order by 1"
        )
        source_id, scope, kind, audience = rows[0]
        other = next(row[3] for row in rows if row[3] != audience)
        stream = Stream(scope, kind)
        document = Document(DocumentRef(source_id, stream, {}), title="t", body="", audience=audience)

        async def stored() -> list[tuple[str]]:
            query = "select audience from connector_document where source_id = %s"
            return await harness.fetch(query, source_id)

        async with mill.db.transaction() as tx:
            assert await audience_store.set_document_audiences(tx, newer, {source_id: other}) == [source_id]
            assert await audience_store.effective_audiences(tx, older, [document]) == {source_id: other}
            await document_store.save_documents(tx, older, stream, [document], 1)
        assert await stored() == [(other,)]
        async with mill.db.transaction() as tx:
            assert await audience_store.set_document_audiences(tx, older, {source_id: audience}) == []
        assert await stored() == [(other,)]
        async with mill.db.transaction() as tx:
            await document_store.save_documents(tx, newer, stream, [document], 1)
        assert await stored() == [(audience,)]


async def test_an_older_answer_closes_no_audience(mill: app.Gristmill) -> None:
    with serve_fake(FakeGitHub()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        older = harness.connector
        newer = replace(older, read_at=older.read_at + timedelta(hours=1))
        async with mill.db.transaction() as tx:
            await audience_store.save_audiences(tx, newer, [Audience("a", emails=frozenset({BOSS}))])
            assert await audience_store.close_audiences(tx, older, ["a"]) == []
            assert await audience_store.save_audiences(tx, older, [Audience("a", everybody=True)]) == []
            assert await audience_store.close_audiences(tx, newer, ["a"]) == ["a"]
