"""Documents that get no response in a run are read again before it ends, and hold it up no longer than that."""

from collections.abc import Generator

import pytest

from gristmill import app
from gristmill.connectors import transport
from tests.connectors.fakes.files import FakeWebDav
from tests.connectors.fakes.slack import FakeSlack
from tests.connectors.fakes.tool import FakeCall, failing, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeWebDav]:
    """A WebDAV server, whose requests are repeated at once."""
    monkeypatch.setattr(transport, "_MAX_DELAY", 0.0)
    with serve_fake(FakeWebDav()) as fake:
        yield fake


def is_download(call: FakeCall) -> bool:
    return call.method == "GET"


async def wait_until_retried(harness: ConnectorHarness) -> None:
    """Wait until the run's job has failed and is to be tried again."""

    async def is_retried() -> bool:
        query = "select 1 from job where kind = 'sync_connector' and state = 'delayed' and attempt > 0"
        return bool(await harness.fetch(query))

    await wait_until(is_retried)


async def test_documents_without_a_response_are_read_again_before_the_run_ends(
    mill: app.Gristmill, tool: FakeWebDav
) -> None:
    """Downloads that fail for a moment leave no trace in the run's result."""
    harness = await ConnectorHarness.create(mill, tool)
    tool.add_rule(is_download, failing(tool, 502), after=3, times=2)
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("success", 0), await harness.log_text(run)
    assert "2 documents got no response; they are read again." in await harness.log_text(run)
    await harness.assert_matches_tool()


async def test_a_tool_that_goes_down_during_downloads_is_waited_for(
    mill: app.Gristmill, tool: FakeWebDav
) -> None:
    """An outage costs minutes, not the interval of the schedule: the run itself continues."""
    harness = await ConnectorHarness.create(mill, tool)
    is_down = False

    def goes_down_with_the_third_download(call: FakeCall) -> bool:
        nonlocal is_down
        is_down = is_down or (is_download(call) and sum(map(is_download, tool.calls)) > 2)
        return is_down

    tool.add_rule(goes_down_with_the_third_download, failing(tool, 503), times=10_000)
    run = await harness.start()
    await wait_until_retried(harness)
    assert (await harness.reload_run(run)).completed_at is None
    tool.rules.clear()
    await harness.run_delayed_jobs()
    run = await harness.wait_until_ended(run)
    assert (run.status, run.item_errors) == ("success", 0), await harness.log_text(run)
    await harness.assert_matches_tool()


async def test_a_tool_is_asked_again_even_if_the_run_remembers_its_responses(
    mill: app.Gristmill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connector to Slack knows its channels once it has listed them, and checks itself by them."""
    monkeypatch.setattr(transport, "_MAX_DELAY", 0.0)
    with serve_fake(FakeSlack()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        for _ in range(3):  # one of them has replies
            tool.add()
        is_down = False

        def goes_down_with_the_thread(call: FakeCall) -> bool:
            nonlocal is_down
            is_down = is_down or call.path.endswith("conversations.replies")
            return is_down

        tool.add_rule(goes_down_with_the_thread, failing(tool, 503), times=10_000)
        run = await harness.start()
        await wait_until_retried(harness)
        tool.rules.clear()
        await harness.run_delayed_jobs()
        run = await harness.wait_until_ended(run)
        assert (run.status, run.item_errors) == ("success", 0), await harness.log_text(run)
        await harness.assert_matches_tool()


async def test_a_document_that_never_responds_is_a_failure_of_its_own(
    mill: app.Gristmill, tool: FakeWebDav
) -> None:
    """It is tried three times in a run, and everything else is read."""
    harness = await ConnectorHarness.create(mill, tool)
    path = f"/dav/{tool.followed()[2].replace(' ', '%20')}"
    tool.add_rule(lambda call: is_download(call) and call.path == path, failing(tool, 500), times=10_000)
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1), await harness.log_text(run)
    assert sum(call.path == path for call in tool.calls if is_download(call)) == 3
    assert len(await harness.indexed_documents()) == len(tool.expected_documents()) - 1
    tool.rules.clear()
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()
