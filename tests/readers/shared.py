"""One pool for all tests of a module: for those that do their children no harm."""

from collections.abc import AsyncGenerator

import pytest_asyncio

from gristmill.readers import ReaderPool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncGenerator[ReaderPool]:
    async with ReaderPool(1) as opened:
        yield opened
