"""Several feeds, of which one can't be read: the others are read all the same, and once."""

from typing import Any

import pytest

from gristmill.connectors import transport
from gristmill.connectors.model import ConnectorRun
from gristmill.work import SyncConnector
from tests.connectors.fakes.pages import FakeFeed
from tests.connectors.fakes.tool import FakeCall, failing, fake_tool_fixture, rate_limited
from tests.connectors.harness import ConnectorHarness
from tests.sources.site import SiteResponse
from tests.wait_until import wait_until

BROKEN = "/feed/1.xml"


class FakeFeeds(FakeFeed):
    """Three feeds with an entry each; the first of them will not be readable."""

    def __init__(self) -> None:
        super().__init__()
        self.route("GET", "/feed/{name}", self._one_feed)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"feeds": [f"{self.site.url}/feed/{number}.xml" for number in (1, 2, 3)]}

    def break_feed(self, act: Any, times: int = 10**9) -> None:
        """Let the first feed respond otherwise."""
        self.add_rule(lambda call: call.path == BROKEN, act, times=times)

    def requests_of(self, path: str) -> int:
        """How often something was requested."""
        return sum(call.path == path for call in self.calls)

    def _one_feed(self, call: FakeCall, name: str) -> SiteResponse:
        del call
        item = f"<item><title>Entry</title><guid>{name}</guid><description>w{name[0]}x</description></item>"
        return SiteResponse(200, f"<rss version='2.0'><channel>{item}</channel></rss>".encode())


tool = fake_tool_fixture(FakeFeeds)


@pytest.fixture(autouse=True)
def repeat_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are repeated without a pause."""
    monkeypatch.setattr(transport, "_MAX_DELAY", 0.0)


async def words(harness: ConnectorHarness) -> set[str]:
    """The words of all entries that can be searched."""
    return {word for each in (await harness.indexed_documents()).values() for word in each.words}


async def wait_for_delay(harness: ConnectorHarness) -> ConnectorRun:
    """A new run that will be continued later."""
    run = await harness.start()

    async def is_delayed() -> bool:
        return await harness.fetch("select 1 from job where id = %s and state = 'delayed'", run.job_id) != []

    await wait_until(is_delayed)
    return run


async def complete(harness: ConnectorHarness, run: ConnectorRun) -> ConnectorRun:
    """Let a run end, without the pauses between its attempts."""

    async def ended_run() -> ConnectorRun | None:
        current = await harness.reload_run(run)
        await harness.run_delayed_jobs()
        return current if current.completed_at is not None else None

    return await wait_until(ended_run)


async def test_the_other_feeds_are_read_and_not_requested_again_by_the_next_attempt(
    harness: ConnectorHarness, tool: FakeFeeds
) -> None:
    tool.break_feed(failing(tool, 503), times=4)
    run = await wait_for_delay(harness)

    async def others_are_read() -> bool:
        return await words(harness) == {"w2x", "w3x"}

    await wait_until(others_are_read)
    assert (await complete(harness, run)).status == "success"
    assert await words(harness) == {"w1x", "w2x", "w3x"}
    assert [tool.requests_of(f"/feed/{number}.xml") for number in (1, 2, 3)] == [5, 1, 1]
    tool.calls.clear()
    await harness.sync()
    assert [tool.requests_of(f"/feed/{number}.xml") for number in (1, 2, 3)] == [1, 1, 1]


async def test_a_feed_that_stays_down_is_a_problem_of_the_run_and_not_its_end(
    harness: ConnectorHarness, tool: FakeFeeds
) -> None:
    """S2-22: after nine attempts."""
    tool.break_feed(failing(tool, 503))
    run = await complete(harness, await harness.start())
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)
    assert f"{BROKEN} returned status 503" in await harness.log_text(run)
    assert await words(harness) == {"w2x", "w3x"}
    assert tool.requests_of(BROKEN) == 4 * SyncConnector.attempts
    plan = (await harness.sync(dry_run=True)).plan
    assert plan is not None
    assert (plan["errors"], plan["prune"]) == (1, 0)
    tool.rules.clear()
    assert (await harness.sync()).status == "success"
    assert await words(harness) == {"w1x", "w2x", "w3x"}


async def test_a_feed_that_asks_for_a_wait_does_not_keep_the_others_waiting(
    harness: ConnectorHarness, tool: FakeFeeds
) -> None:
    tool.break_feed(rate_limited(tool), times=1)
    run = await wait_for_delay(harness)
    assert (await harness.reload_run(run)).rate_limited_until is not None
    assert len(await harness.fetch("select 1 from item where type = 'record'")) == 2
    assert (await complete(harness, run)).status == "success"
    assert [tool.requests_of(f"/feed/{number}.xml") for number in (1, 2, 3)] == [2, 1, 1]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_feed_that_is_closed_or_gone_is_named_once_and_the_others_are_read(
    harness: ConnectorHarness, tool: FakeFeeds, status: int
) -> None:
    """Also one that asks for a log-in: the connector has no credentials that could be wrong for all feeds."""
    tool.break_feed(failing(tool, status))
    tool.add_rule(lambda call: call.path == "/feed/3.xml", failing(tool, 503), times=4)
    run = await complete(harness, await harness.start())
    assert (run.status, run.item_errors) == ("completed_with_errors", 1), await harness.log_text(run)
    assert (await harness.log_text(run)).count(f"(status {status})") == 1
    assert await words(harness) == {"w2x", "w3x"}
    assert tool.requests_of(BROKEN) == 1


async def test_an_enclosure_that_asks_for_a_log_in_is_left_out(
    harness: ConnectorHarness, tool: FakeFeeds
) -> None:
    def respond() -> SiteResponse:
        assert tool.site is not None
        item = f"<item><guid>1</guid><description>w1x</description><enclosure url='{tool.site.url}/a.pdf'/></item>"
        return SiteResponse(200, f"<rss version='2.0'><channel>{item}</channel></rss>".encode())

    tool.break_feed(respond)
    tool.add_rule(lambda call: call.path == "/a.pdf", failing(tool, 401), times=10**9)
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)
    assert "a.pdf asks for a log-in" in await harness.log_text(run)
    assert await words(harness) == {"w1x", "w2x", "w3x"}
