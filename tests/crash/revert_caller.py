"""One call that goes back to the embedder before: `python -m tests.crash.revert_caller BASE PAID`.

Settings and faults come from the environment. It says `calling` before the call, and `reverted` if it was not killed.
"""

import asyncio
import sys
from pathlib import Path
from uuid import UUID

from gristmill import app
from gristmill.catalog import BaseId
from gristmill.operations import swap_embedder
from gristmill.settings import load
from tests.crash.swap_worker import PaidEmbedder
from tests.embedding.hashed import HashedEmbedder


async def revert(base: UUID, paid: Path) -> None:
    """Revert the last change, as the API does."""
    embedders = {"hashed": HashedEmbedder(), "other": PaidEmbedder(paid)}
    async with app.gristmill(load(), work=False, extra_embedders=embedders) as mill:
        print("calling", flush=True)
        await swap_embedder.revert(mill.db, BaseId(base), mill.embedders)
        print("reverted", flush=True)


if __name__ == "__main__":
    asyncio.run(revert(UUID(sys.argv[1]), Path(sys.argv[2])))
