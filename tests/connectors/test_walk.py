"""Walks over every tool: after any sequence of changes, hides, shows and faults, the base equals the tool for every viewer."""

from datetime import timedelta

import pytest

from gristmill import app
from gristmill.connectors import transport
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import FAKES, ConnectorHarness
from tests.connectors.walk import take_walk
from tests.thorough import examples

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow at once: what they wait for is over."""
    monkeypatch.setattr(transport, "_MAX_DELAY", 0.02)
    monkeypatch.setattr(transport, "_MARGIN", timedelta(0))


@pytest.mark.parametrize("name", sorted(FAKES))
async def test_the_base_equals_the_tool_for_every_viewer_after_any_sequence(
    mill: app.Gristmill, name: str
) -> None:
    """S2-05..13, S2-27, S2-28, S2-34, S2-38. `python -m bench.connector_walk` takes longer walks and shortens what fails."""
    with serve_fake(FAKES[name]()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await take_walk(harness, seed=1, count=examples(20, 120))
