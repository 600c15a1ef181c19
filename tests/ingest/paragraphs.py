"""Texts and bases in which each paragraph is a chunk."""

from gristmill.catalog import Base
from gristmill.operations import bases
from tests.operations.manual_worker import ManualWorker

SMALL = {"maxTokens": 64}


def paragraphs(count: int, of: str = "rye") -> str:
    """A text in which each paragraph is a chunk."""
    return "\n\n".join(f"{of} {number} " + f"word{number} " * 40 for number in range(count))


async def small_chunk_base(worker: ManualWorker, name: str = "small") -> Base:
    """A base whose chunks are paragraphs."""
    return await bases.patch(worker.db, (await worker.base(name)).id, chunking=SMALL)
