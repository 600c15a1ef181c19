"""A worker process with the quick embedder: `python -m tests.ingest.worker DIMENSIONS PAUSE COUNTED`.

Settings come from the environment, as for `gristmill worker`. Each text takes `PAUSE` seconds, and then adds a byte
at the end of the file `COUNTED`, which survives any kill: its size is the number of texts that were embedded. It says
`working` once it is ready, and works until it is killed or gets SIGTERM.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np

from gristmill import app, clock
from gristmill.embedding.embedder import Vectors
from gristmill.settings import load
from gristmill.telemetry import logs
from tests.embedding.hashed import HashedEmbedder


class RecordingEmbedder(HashedEmbedder):
    """Takes its time, and records each text that it embedded."""

    def __init__(self, dimensions: int, pause: float, counter_file: Path) -> None:
        super().__init__(dimensions=dimensions)
        self._pause = timedelta(seconds=pause)
        self._counter = os.open(counter_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if not self._pause:
            os.write(self._counter, b"." * len(texts))
            return await super().embed_documents(texts)
        vectors: list[Vectors] = []
        for text in texts:
            await clock.pause(self._pause)
            vectors.append(self.vector(text))
            os.write(self._counter, b".")
        return np.stack(vectors)


async def work(dimensions: int, pause: float, counter_file: Path) -> None:
    """Work until SIGTERM."""
    settings = load()
    logs.configure(settings.log_level, settings.log_format)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    embedder = RecordingEmbedder(dimensions, pause, counter_file)
    async with app.gristmill(settings, work=True, extra_embedders={"hashed": embedder}):
        print("working", flush=True)
        await stop.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])))
