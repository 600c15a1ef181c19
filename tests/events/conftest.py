"""The mill on a real port."""

from collections.abc import AsyncGenerator

import pytest

from gristmill import app
from tests.serve_api import serve_api


@pytest.fixture
async def url(mill: app.Gristmill) -> AsyncGenerator[str]:
    """The address of the mill's API."""
    async with serve_api(mill) as address:
        yield address
