"""The process that holds the models on the GPU: `python -m gristmill.embedding.gpu.process FOLDER DEVICE IDLE_SECONDS`.

One per folder, by a lock on it. It says on its standard output what became of it, in one line,

    ready NAME          it listens on the socket, and the device is called NAME
    running             another process has the lock
    unusable REASON     there is no such device here

and ends when it has had no client for IDLE_SECONDS. It knows nothing of documents: it gets tokens and returns vectors. DEVICE is
`cuda`, or `cpu` for tests: the same process without a GPU and without PyTorch.
"""

import asyncio
import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np

from gristmill import clock
from gristmill.embedding.gpu import models, protocol
from gristmill.embedding.gpu.batches import BatchRunner, DeviceModel, Request
from gristmill.embedding.local_models import LOCAL_MODELS, LocalModel
from gristmill.embedding.onnx_session import load_or_convert_model, open_session

_IDLE_CHECK = timedelta(seconds=0.5)

log = logging.getLogger(__name__)


def main(folder: Path, device: str, idle_seconds: float) -> None:
    """Serve until no client has been connected for a while."""
    lock = os.open(folder / protocol.LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("running", flush=True)
        return
    try:
        name, models = _load_models(device, folder)
        for model in models.values():  # what the first text would wait for
            model.start([protocol.tokens([0, 5, 2])])()
    except Exception as error:  # PyTorch's errors have no common class
        reason = " ".join(str(error).split()) or type(error).__name__
        print("unusable", reason[:500], flush=True)
        return
    asyncio.run(_serve(folder, models, f"ready {name}", idle_seconds))


def _load_models(device: str, folder: Path) -> tuple[str, dict[str, DeviceModel]]:
    """The name of the device, and the models on it."""
    if device == "cpu":
        return device, {model.name: _CpuModel(model, folder) for model in LOCAL_MODELS}
    torch = models.load_torch()
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch finds no GPU")
    return torch.cuda.get_device_name(), {name: model(device) for name, model in models.TORCH_MODELS.items()}


class _CpuModel:
    """The graph that runs on a CPU, one text after the other."""

    def __init__(self, model: LocalModel, folder: Path) -> None:
        self.dimensions = model.dimensions
        self._session = open_session(load_or_convert_model(folder, model))

    def start(self, texts: Sequence[protocol.Tokens]) -> Callable[[], protocol.HalfVectors]:
        rows = [self._session.run(None, {"ids": text.astype(np.int64)[np.newaxis]})[0][0] for text in texts]
        vectors = np.stack(rows).astype(np.float16)
        return lambda: vectors


async def _serve(folder: Path, models: dict[str, DeviceModel], greeting: str, idle_seconds: float) -> None:
    server = _GpuServer(models)
    # Whoever can connect has waited for the models: the socket gets its name last.
    starting = folder / f"{protocol.SOCKET}.{os.getpid()}"
    listener = await asyncio.start_unix_server(server.handle, starting)
    starting.chmod(0o600)
    starting.rename(folder / protocol.SOCKET)
    print(greeting, flush=True)
    os.close(sys.stdout.fileno())  # who started this process waits for its end
    async with listener:
        while time.monotonic() - server.used_at < idle_seconds or server.clients:
            await clock.pause(_IDLE_CHECK)
    (folder / protocol.SOCKET).unlink(missing_ok=True)


class _GpuServer:
    def __init__(self, models: dict[str, DeviceModel]) -> None:
        self._models = list(models.items())
        self._runner = BatchRunner(models, _end_process)
        self.clients = 0
        self.used_at = time.monotonic()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client's requests until it is gone."""
        self.clients += 1
        loop = asyncio.get_running_loop()

        def respond(number: int) -> Callable[[protocol.HalfVectors], object]:
            return lambda vectors: loop.call_soon_threadsafe(
                writer.write, protocol.encode_vectors(number, vectors)
            )

        try:
            while True:
                number, model, texts = await protocol.read_request(reader)
                name, loaded = self._models[model]
                self._runner.submit(Request(name, texts, loaded.dimensions, respond(number)))
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()
        finally:
            self.clients -= 1
            self.used_at = time.monotonic()


def _end_process(error: Exception) -> None:
    """The clients see it, and start another one."""
    log.critical("the GPU failed: this process ends", exc_info=error)
    os._exit(1)


if __name__ == "__main__":
    # Others use it too: it has no parent, and does not end with the worker that started it.
    if os.fork():
        os._exit(0)
    logging.basicConfig(level=logging.WARNING)
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
