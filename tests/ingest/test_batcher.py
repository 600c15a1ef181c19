"""A stage serves whoever is put in, at whatever moment."""

import asyncio
from collections.abc import Sequence

import pytest

from gristmill.ingest.batcher import Batcher


@pytest.mark.parametrize("turns", range(12))
async def test_who_comes_while_the_last_batch_ends_is_served(turns: int) -> None:
    """Some turns of the loop after a batch its task has ended, and nothing has told of that yet."""

    async def double(given: Sequence[int]) -> Sequence[int]:
        return [2 * number for number in given]

    stage = Batcher(double, size=4)

    async def late() -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await stage.submit(21)

    async with asyncio.timeout(5):
        assert await asyncio.gather(stage.submit(1), late()) == [2, 42]


async def test_what_is_at_fault_fails_alone() -> None:
    async def halve(given: Sequence[int]) -> Sequence[int]:
        if 0 in given:
            raise ValueError
        return [number // 2 for number in given]

    stage = Batcher(halve, size=4)
    answers = await asyncio.gather(*(stage.submit(n) for n in (4, 0, 8)), return_exceptions=True)
    assert answers[::2] == [2, 4]
    assert isinstance(answers[1], ValueError)
