"""The mill on a real port, and a receiver of webhooks."""

from collections.abc import AsyncGenerator

import pytest

from gristmill import app
from tests.events.receiver import Receiver, receiving
from tests.serve_api import serve_api


@pytest.fixture
async def url(mill: app.Gristmill) -> AsyncGenerator[str]:
    """The address of the mill's API."""
    async with serve_api(mill) as address:
        yield address


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    """A receiver that accepts every request."""
    async with receiving() as webhook_receiver:
        yield webhook_receiver
