"""A client of the GPU process of this machine, which starts the process if there is none.

    worker ──┐
    worker ──┼── socket ──► GPU process ──► batches of all of them ──► GPU
    worker ──┘

Each process has one connection, and sends requests on it without waiting for the last response. If the connection breaks, the
process was killed or has failed: requests without a response are sent again, to a new process, a few times. Computing a vector
twice has no effect. A client that is killed leaves nothing behind: the process ends by itself when it has no client.
"""

import asyncio
import contextlib
import fcntl
import importlib.util
import itertools
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import numpy as np

from gristmill import clock, faults
from gristmill.embedding.embedder import Vectors
from gristmill.embedding.gpu import protocol
from gristmill.errors import SetupError, Transient

_MODELS = ("granite-30m-en", "use-multilingual")
# Before each attempt. A process that was killed still accepts connections for a moment, until the kernel has closed its socket.
_PAUSES = (timedelta(), timedelta(milliseconds=300), timedelta(seconds=2))
_CALL_SECONDS = 300.0
_POLL = timedelta(milliseconds=100)
_INHERITED = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR", "XDG_CACHE_HOME")
_INHERITED_PREFIXES = ("CUDA_", "NVIDIA_", "PYTORCH_", "TORCH_")


class NoGpu(SetupError):
    """There is no GPU that PyTorch can use on this machine."""

    code = "no_gpu"


class GpuFailed(Transient):
    """The GPU process failed several times."""

    code = "gpu_failed"


def has_torch() -> bool:
    """Whether PyTorch is installed; importing it to see whether it finds a GPU takes seconds."""
    return importlib.util.find_spec("torch") is not None


class GpuClient:
    """Sends texts to the GPU process. `folder` separates installations: each has a process of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "cuda",
        idle: timedelta = timedelta(seconds=20),
        start_timeout: timedelta = timedelta(minutes=2),
    ) -> None:
        key = sha256(f"{folder.absolute()} {device}".encode()).hexdigest()[:16]
        # A socket's path may have no more than 107 bytes: it is not in the data folder.
        self.folder = Path(tempfile.gettempdir()) / f"gristmill-gpu-{os.getuid()}-{key}"
        self._device, self._idle, self._start_timeout = device, idle, start_timeout
        self._numbers = itertools.count(1)
        self._connecting = asyncio.Lock()
        self._connection: _GpuConnection | None = None
        self._closed = False

    async def embed(self, model: str, texts: Sequence[Sequence[int]]) -> Vectors:
        """The vectors of texts, given as tokens with the special ones. Raises NoGpu or GpuFailed."""
        if not texts:
            raise ValueError("no texts")
        tokens = [protocol.tokens(text) for text in texts]
        for pause in _PAUSES:
            await clock.pause(pause)
            try:
                connection = await self._connect()
                vectors = await connection.call(next(self._numbers), _MODELS.index(model), tokens)
                return vectors.astype(np.float32)
            except ConnectionError:
                continue
            except TimeoutError:
                break  # it hangs: whoever has waited this long waits no longer
        message = 'The process that computes embeddings on the GPU fails. Its log says why; `embed_device = "cpu"` does without it.'
        raise GpuFailed(message)

    async def close(self) -> None:
        """Close the connection. The process ends by itself when it has no client."""
        self._closed = True
        if self._connection is not None:
            await self._connection.close()

    async def _connect(self) -> "_GpuConnection":
        async with self._connecting:
            if self._closed:
                raise Transient("The embedder was closed; this process is stopping.", code="embedder_closed")
            if self._connection is None or self._connection.is_broken:
                self._connection = await self._open() or await self._start_process()
            return self._connection

    async def _open(self) -> "_GpuConnection | None":
        with contextlib.suppress(OSError):
            return _GpuConnection(*await asyncio.open_unix_connection(self.folder / protocol.SOCKET))
        return None

    async def _start_process(self) -> "_GpuConnection":
        async with asyncio.timeout(self._start_timeout.total_seconds()):
            while True:
                line = await asyncio.to_thread(self._spawn)
                if line.startswith("unusable"):
                    reason = line.removeprefix("unusable").strip()
                    raise NoGpu(f"The local embedders can't run on a GPU here: {reason}.")
                if connection := await self._wait_for_socket(is_other=line == "running"):
                    return connection
                if line != "running":
                    raise ConnectionError("the GPU process ended while it started")

    async def _wait_for_socket(self, *, is_other: bool) -> "_GpuConnection | None":
        """Connect. Another worker's process is waited for while it loads its models, but not after its end: it may have found no GPU."""
        while (connection := await self._open()) is None and is_other and self._is_process_alive():
            await faults.point("gpu.other_process_starts")
            await clock.pause(_POLL)
        return connection

    def _is_process_alive(self) -> bool:
        """Whether a process has the lock of the folder."""
        with (self.folder / protocol.LOCK).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _spawn(self) -> str:
        """Start the process; returns what it says."""
        self._make_folder()
        idle = str(self._idle.total_seconds())
        command = [
            sys.executable,
            "-m",
            "gristmill.embedding.gpu.process",
            str(self.folder),
            self._device,
            idle,
        ]
        with subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=_environment(),
        ) as process:
            assert process.stdout is not None
            readable, _, _ = select.select([process.stdout], [], [], self._start_timeout.total_seconds())
            return process.stdout.readline().decode().strip() if readable else ""

    def _make_folder(self) -> None:
        """The folder is ours alone: who can connect can use the GPU."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        status = self.folder.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise SetupError(f"{self.folder} belongs to someone else. Remove it.", code="bad_folder")


class _GpuConnection:
    """A connection, with the requests that wait for their response."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[protocol.HalfVectors]] = {}
        self._receiving = asyncio.create_task(self._receive(), name="gpu-responses")

    @property
    def is_broken(self) -> bool:
        return self._receiving.done()

    async def call(self, number: int, model: int, texts: Sequence[protocol.Tokens]) -> protocol.HalfVectors:
        if self.is_broken:
            raise ConnectionError("the GPU process is gone")
        future: asyncio.Future[protocol.HalfVectors] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._writer.write(protocol.encode_request(number, model, texts))
            await self._writer.drain()
            return await asyncio.wait_for(future, _CALL_SECONDS)
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        self._writer.close()
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)

    async def _receive(self) -> None:
        try:
            while True:
                number, vectors = await protocol.read_response(self._reader)
                if (future := self._waiting.get(number)) and not future.done():
                    future.set_result(vectors)
        except (ConnectionError, asyncio.IncompleteReadError):
            self._writer.close()
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the GPU process is gone"))


def _environment() -> dict[str, str]:
    """Without our settings, which may contain secrets."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
