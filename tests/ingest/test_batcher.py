"""A batcher processes every value, whenever it is submitted."""

import asyncio
from collections.abc import Sequence

import pytest

from gristmill.ingest.batcher import Batcher


@pytest.mark.parametrize("iterations", range(12))
async def test_a_value_submitted_while_the_last_batch_ends_is_processed(iterations: int) -> None:
    """A few loop iterations after a batch, its task has ended but its callbacks have not run."""

    async def double(values: Sequence[int]) -> Sequence[int]:
        return [2 * number for number in values]

    batcher = Batcher(double, size=4)

    async def late() -> int:
        for _ in range(iterations):
            await asyncio.sleep(0)
        return await batcher.submit(21)

    async with asyncio.timeout(60):
        assert await asyncio.gather(batcher.submit(1), late()) == [2, 42]


async def test_only_the_value_at_fault_fails() -> None:
    async def halve(values: Sequence[int]) -> Sequence[int]:
        if 0 in values:
            raise ValueError
        return [number // 2 for number in values]

    batcher = Batcher(halve, size=4)
    answers = await asyncio.gather(*(batcher.submit(n) for n in (4, 0, 8)), return_exceptions=True)
    assert answers[::2] == [2, 4]
    assert isinstance(answers[1], ValueError)
