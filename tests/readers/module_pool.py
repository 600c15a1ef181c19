"""Overrides the fixture `pool` with one pool for a whole module: for tests that do the children no harm."""

from collections.abc import AsyncGenerator

import pytest_asyncio

from gristmill.readers.pool import ReaderPool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncGenerator[ReaderPool]:
    """A pool that the tests of the module share."""
    async with ReaderPool(1) as reader_pool:
        yield reader_pool
