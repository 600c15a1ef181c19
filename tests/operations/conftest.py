"""A worker in the test's hands, on the test's database."""

import pytest

from gristmill.db import Database
from gristmill.settings import Settings
from tests.operations.hand import Hand


@pytest.fixture
async def hand(db: Database, settings: Settings) -> Hand:
    """A worker moved by hand."""
    return await Hand.at(db, settings)
