"""A mill that may reach doubles on this machine, and a connector that feeds a base from one."""

from collections.abc import Generator

import pytest

from gristmill import app
from gristmill.settings import Settings
from tests.connectors.fakes.tool import FakeTool, serve_fake
from tests.connectors.harness import FAKES, ConnectorHarness


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """As elsewhere, and private addresses may be asked."""
    return settings.model_copy(update={"allow_private_addresses": True})


@pytest.fixture(params=sorted(FAKES))
def tool(request: pytest.FixtureRequest) -> Generator[FakeTool]:
    """Each double in turn, with something in it."""
    with serve_fake(FAKES[request.param]()) as double:
        yield double


@pytest.fixture
async def bench(mill: app.Gristmill, tool: FakeTool) -> ConnectorHarness:
    """A connector to the double, that feeds a base and has not run yet."""
    return await ConnectorHarness.create(mill, tool)
