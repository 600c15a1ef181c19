"""The contract of every connector in one story: one base, followed through changes, faults, moves and permissions.

`test_contract.py` has the whole contract, test by test, for the tools that it fits.
"""

import random

import pytest

from gristmill import app
from tests.connectors.fakes.files import FakeFiles
from tests.connectors.fakes.tool import FakeCall, FakeTool, failing, rate_limited, serve_fake
from tests.connectors.harness import MORE_FAKES, ConnectorHarness

pytestmark = pytest.mark.slow


def make_changes(tool: FakeTool, dice: random.Random) -> None:
    """Make some changes of every sort."""
    for act in (tool.edit, tool.edit, tool.delete, tool.change_permission):
        act(dice.randrange(1000))
        tool.advance_clock(dice.choice([0, 0, 1, 5]))
    tool.add()


async def record_id(harness: ConnectorHarness, source_id: str) -> object:
    """The id of a document's record."""
    rows = await harness.fetch(
        "select id from item where base_id = %s and source_key = %s and type = 'record' and status <> 'deleting'",
        harness.base.id,
        source_id,
    )
    return rows[0][0] if rows else None


@pytest.mark.parametrize("name", sorted(MORE_FAKES))
async def test_the_base_equals_the_tool_through_changes_faults_and_moves(
    mill: app.Gristmill, name: str
) -> None:
    """S2-05..13, S2-27, S2-34, S2-38: first run, nothing new, changes during a run, hidden and shown, moved, failing."""
    with serve_fake(MORE_FAKES[name]()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        dice = random.Random(7)
        plan = (await harness.sync(dry_run=True)).plan
        assert plan is not None
        assert plan["add"] == len(tool.expected_documents())
        run = await harness.sync()
        assert (run.status, run.item_errors) == ("success", 0), await harness.log_text(run)
        assert run.documents_ingested == len(tool.expected_documents())
        await harness.assert_matches_tool()

        tool.calls.clear()
        assert (await harness.sync()).documents_ingested == 0
        assert tool.detail_calls() == []

        # Changes between any two requests, and a document that can't be read at first.
        content = tool.snapshot()
        make_changes(tool, dice)
        tool.add_rule(lambda _: True, lambda: make_changes(tool, dice), after=3, times=3)
        tool.add_rule(tool.is_detail, failing(tool, 403), after=1)
        await harness.sync(allow_deletions=True)
        tool.rules.clear()
        run = await harness.sync(allow_deletions=True)
        assert run.status == "success", await harness.log_text(run)
        await harness.assert_matches_tool()

        # What was deleted is there again, with its old date; some files are moved.
        files = dict(tool.files) if isinstance(tool, FakeFiles) else {}
        tool.restore(content)
        moves = tool.rename_unchanged(files) if isinstance(tool, FakeFiles) else []
        ids = [await record_id(harness, f"file:{old}") for old, _ in moves]
        tool.add_rule(tool.is_detail, rate_limited(tool, seconds=0), after=1)
        run = await harness.sync(allow_deletions=True)
        assert run.status == "success", await harness.log_text(run)
        await harness.assert_matches_tool()
        for (_, new), old_id in zip(moves, ids, strict=True):
            assert await record_id(harness, f"file:{new}") == old_id is not None


@pytest.mark.parametrize("name", sorted(MORE_FAKES))
async def test_rejected_credentials_have_a_clear_error(mill: app.Gristmill, name: str) -> None:
    """S2-18, S2-40: at the check and in the run; and no message contains the secret."""
    with serve_fake(MORE_FAKES[name]()) as tool:
        harness = await ConnectorHarness.create(mill, tool)

        def is_any(_: FakeCall) -> bool:
            return True

        tool.add_rule(is_any, failing(tool, 401), times=100)
        run = await harness.sync()
        assert (run.status, run.error_code) == ("failed", "connector_unauthorized")
        assert "s3cret" not in await harness.log_text(run)
