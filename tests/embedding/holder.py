"""A process that holds one slot of a provider until it is killed: `python -m tests.embedding.holder URL KEY`."""

import asyncio
import sys

from gristmill.db import Database
from gristmill.embedding.governor import Governor
from gristmill.embedding.pacing import ProviderLimits


async def main(url: str, key: str) -> None:
    db = Database(url)
    await db.open()

    async def request() -> None:
        print("holds", flush=True)
        await asyncio.Event().wait()

    await Governor(db, key, ProviderLimits(None, None, 2), "The provider").run(request, tokens=0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
