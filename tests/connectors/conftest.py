"""A Gristmill that may reach fake tools on this machine, and a connector that feeds a base from one."""

from collections.abc import Generator
from datetime import timedelta

import pytest

from gristmill import app
from gristmill.connectors import sync
from gristmill.settings import Settings
from tests.connectors.fakes.tool import FakeTool, serve_fake
from tests.connectors.harness import FAKES, ConnectorHarness

# Test by test, the contract runs over one tool that lists by time of change and one that lists marks; over all others if thorough
# tests are asked for. A walk of each tool (test_walk.py) is always taken.
_USUAL = ("github", "sharepoint")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The usual settings, with private addresses allowed."""
    return settings.model_copy(update={"allow_private_addresses": True})


@pytest.fixture(autouse=True)
def short_indexing_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs check more often whether everything is indexed, because each test waits for several runs."""
    monkeypatch.setattr(sync, "_INDEXING_POLL", timedelta(milliseconds=100))


@pytest.fixture(
    params=[
        pytest.param(name, marks=() if name in _USUAL else pytest.mark.thorough) for name in sorted(FAKES)
    ]
)
def tool(request: pytest.FixtureRequest) -> Generator[FakeTool]:
    """Each fake tool in turn, with some documents."""
    with serve_fake(FAKES[request.param]()) as fake:
        yield fake


@pytest.fixture
async def harness(mill: app.Gristmill, tool: FakeTool) -> ConnectorHarness:
    """A connector to the fake tool, which feeds a base and has not run yet."""
    return await ConnectorHarness.create(mill, tool)
