"""A process beside ours for pure work on many texts: cutting them into pieces, and lexing their words.

Python runs one thread at a time, so that a fast embedder would wait for what prepares its batches. `Crew` gives large
batches away; small ones, and everything while nobody is there to take it, are worked on in a thread. The process is
started by the first batch that is worth it, and ends when nothing came for a minute, or with ours.

It holds nothing: when it dies, or does not answer for two minutes, what it was asked for is done here, and another one is
started for the next batch.
"""

import asyncio
import contextlib
import logging
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gristmill import niceness
from gristmill.ingest.chunk import Chunker, TextChunk
from gristmill.readers.results import TextPart
from gristmill.search import segment
from gristmill.search.segment import ChunkText, Segment
from gristmill.telemetry import memory

MIN_BATCH = 64  # chunks in one batch: somebody embeds fast enough to wait for us
_IDLE_SECONDS = 60.0  # seconds
_LENGTH_BYTES = 4

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class CpuOffload:
    """Does pure work, in another process where that is faster."""

    def __init__(self, timeout: timedelta = timedelta(minutes=2)) -> None:
        self.timeout = timeout
        self._subprocess: _Subprocess | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="crew")

    @property
    def is_ready(self) -> bool:
        """Whether somebody is there to take work."""
        return self._subprocess is not None and self._subprocess.is_ready

    async def build_segment(self, words: Sequence[ChunkText], codes: NDArray[np.uint64]) -> Segment:
        """The segment of chunks."""
        if len(words) >= MIN_BATCH:
            self._start_subprocess()
        return await self._run(segment.build, words, codes)

    async def chunk_documents(
        self, tokenizer: Tokenizer, limit: int, documents: Sequence[Sequence[TextPart]]
    ) -> list[list[TextChunk]]:
        """The pieces of whole documents, of at most `limit` tokens."""
        return await self._run(chunk_documents, tokenizer, limit, documents)

    def close(self) -> None:
        """Let the process go."""
        if self._subprocess is not None:
            self._subprocess.stop()
        self._executor.shutdown(wait=False)

    def _start_subprocess(self) -> None:
        if self._subprocess is None or self._subprocess.is_stopped:
            self._subprocess = _Subprocess()
            self._executor.submit(self._subprocess.start)

    async def _run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        process = self._subprocess
        if process is not None and process.is_ready:
            call = asyncio.get_running_loop().run_in_executor(self._executor, process.call, work, arguments)
            try:
                return await asyncio.wait_for(asyncio.shield(call), self.timeout.total_seconds())
            except _SubprocessDied:
                log.warning("the process beside this one is gone; its work is done here")
            except TimeoutError:
                log.warning("the process beside this one does not answer; its work is done here")
                call.add_done_callback(lambda ended: ended.exception())  # looked at: its end is our doing
                await asyncio.to_thread(process.stop)
        return await asyncio.to_thread(work, *arguments)


def chunk_documents(
    tokenizer: Tokenizer, limit: int, documents: Sequence[Sequence[TextPart]]
) -> list[list[TextChunk]]:
    """The pieces of whole documents, of at most `limit` tokens."""
    documents_chunks: list[list[TextChunk]] = []
    for parts in documents:
        chunker = Chunker(tokenizer, limit)
        pieces = [piece for part in parts for piece in chunker.feed(part.text, part.page)]
        documents_chunks.append([*pieces, *chunker.finish()])
    return documents_chunks


# ── the other process ────────────────────────────────────────────────────────────────────────────────────


class _SubprocessDied(Exception):
    pass


class _Subprocess:
    """The process, asked by one thread at a time."""

    def __init__(self) -> None:
        self.is_ready = self.is_stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._sent_tokenizers: dict[int, Tokenizer] = {}
        self._last_used = time.monotonic()
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Have it run; until it says so, it is not asked."""
        if self.is_stopped:
            return
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from gristmill.ingest.offload import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with contextlib.suppress(_SubprocessDied):
            self._receive()
            self.is_ready = True
            self._stop_when_idle()

    def call(self, work: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
        """Have work done there."""
        self._last_used = time.monotonic()
        arguments = tuple(
            self._tokenizer_ref(one) if isinstance(one, Tokenizer) else one for one in arguments
        )
        self._send((work, arguments))
        done, result = self._receive()
        if not done:
            raise result
        return result

    def _tokenizer_ref(self, tokenizer: Tokenizer) -> "_TokenizerRef":
        """A tokenizer, which is sent once."""
        if id(tokenizer) not in self._sent_tokenizers:
            self._sent_tokenizers[id(tokenizer)] = tokenizer  # held, so that its id stays its own
            self.call(_register_tokenizer, (id(tokenizer), tokenizer.to_str()))
        return _TokenizerRef(id(tokenizer))

    def stop(self) -> None:
        """Let it go; what it is asked now is not answered."""
        self.is_ready, self.is_stopped = False, True
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _stop_when_idle(self) -> None:
        """End it when nothing came for a while."""
        left = _IDLE_SECONDS - (time.monotonic() - self._last_used)
        if left <= 0:
            self.stop()
        elif not self.is_stopped:
            self._timer = threading.Timer(left, self._stop_when_idle)
            self._timer.daemon = True
            self._timer.start()

    def _send(self, message: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, message)
        except (OSError, ValueError) as error:
            self.stop()
            raise _SubprocessDied from error

    def _receive(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            return _read(self._process.stdout)
        except (OSError, EOFError, ValueError) as error:
            self.stop()
            raise _SubprocessDied from error


class _TokenizerRef:
    """A tokenizer that was taught before."""

    def __init__(self, key: int) -> None:
        self.key = key


_tokenizers: dict[int, Tokenizer] = {}


def _register_tokenizer(key: int, tokenizer: str) -> None:
    _tokenizers[key] = Tokenizer.from_str(tokenizer)


def serve() -> None:
    """Be that process: answer until the other one is gone."""
    memory.return_freed_memory()
    niceness.lower_thread_priority()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the other one, which ends this one
    pipes = sys.stdin.buffer, sys.stdout.buffer
    _write(pipes[1], None)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            work, arguments = _read(pipes[0])
            arguments = tuple(
                _tokenizers[one.key] if isinstance(one, _TokenizerRef) else one for one in arguments
            )
            try:
                reply = True, work(*arguments)
            except Exception as error:
                reply = False, error
            _write(pipes[1], reply)


def _write(pipe: IO[bytes], message: object) -> None:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> Any:
    header = pipe.read(_LENGTH_BYTES)
    size = int.from_bytes(header, "big")
    data = pipe.read(size)
    if len(header) < _LENGTH_BYTES or len(data) < size:
        raise EOFError
    return pickle.loads(data)  # noqa: S301, it comes from our own process
