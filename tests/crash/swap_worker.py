"""A worker process with two quick embedders: `python -m tests.crash.swap_worker PAID`.

Settings come from the environment, as for `gristmill worker`. The embedder `other` adds a line with the text, as JSON, to the file
`PAID`, which survives any kill. It says `working` once it is ready, and works until it is killed or gets SIGTERM.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gristmill import app
from gristmill.embedding.embedder import Vectors
from gristmill.settings import load
from gristmill.telemetry import logs
from tests.embedding.hashed import HashedEmbedder

DIMENSIONS = 256


class PaidEmbedder(HashedEmbedder):
    """Records each text that it embedded."""

    def __init__(self, paid: Path) -> None:
        super().__init__("other", dimensions=DIMENSIONS)
        self.identity = f"other/1/{DIMENSIONS}"
        self._paid = os.open(paid, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        os.write(self._paid, "".join(json.dumps(text) + "\n" for text in texts).encode())
        return await super().embed_documents(texts)


async def work(paid: Path) -> None:
    """Work until SIGTERM."""
    settings = load()
    logs.configure(settings.log_level, settings.log_format)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    embedders = {"hashed": HashedEmbedder(), "other": PaidEmbedder(paid)}
    async with app.gristmill(settings, work=True, extra_embedders=embedders):
        print("working", flush=True)
        await stop.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(Path(sys.argv[1])))
