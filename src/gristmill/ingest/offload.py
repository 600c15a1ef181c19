"""Offload CPU-bound work on many texts, chunking and lexing, to subprocesses.

Python runs one thread at a time, so the event loop and a fast embedder would wait for the code that prepares batches.
`CpuOffload` sends large batches and large documents to a subprocess. Small ones, and all of them while no subprocess is
ready, run in a thread. The first large one starts a subprocess, and one that finds it busy a second one, so that a batch is
lexed while the documents of the next are chunked. They stop after a minute without work, or with this process.

A subprocess has no state worth keeping: a large document is sent part by part, each time with the state of its chunker,
which is small. If a subprocess dies, or does not answer within two minutes, its work is done here, and the next large
batch or part starts another one.
"""

import asyncio
import contextlib
import gc
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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

MIN_BATCH = 64  # chunks: batches grow this large only if the embedder is fast enough to wait for this process
LARGE_TEXT = 1 << 19  # characters of a document from which the subprocess is started for it
MAX_SUBPROCESSES = min(2, os.cpu_count() or 1)
_THREADS = 4
_IDLE_SECONDS = 60.0
_LENGTH_BYTES = 4

# It needs a few modules of these packages: to import all of the packages would take it seven times as long. Garbage collections
# would take a tenth of its start, and free nothing.
_SUBPROCESS = """
import gc, importlib.util, sys
gc.disable()
for name in ("gristmill.ingest", "gristmill.search", "gristmill.embedding"):
    spec = importlib.util.find_spec(name)
    sys.modules[name] = importlib.util.module_from_spec(spec)
from gristmill.ingest.offload import serve
serve()
"""

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class CpuOffload:
    """Runs pure functions, in a subprocess where that is faster."""

    def __init__(
        self, timeout: timedelta = timedelta(minutes=2), max_subprocesses: int = MAX_SUBPROCESSES
    ) -> None:
        self.timeout = timeout
        self._slots = [_Slot() for _ in range(max_subprocesses)]
        self._threads = ThreadPoolExecutor(
            _THREADS, thread_name_prefix="cpu-local", initializer=niceness.lower_thread_priority
        )

    @property
    def is_ready(self) -> bool:
        """Whether a subprocess takes work."""
        return any(slot.is_ready for slot in self._slots)

    async def build_segment(self, words: Sequence[ChunkText], codes: NDArray[np.uint64]) -> Segment:
        """The search segment of these chunks."""
        if len(words) >= MIN_BATCH:
            self._start_subprocess()
        return await self._run(segment.build, words, codes)

    async def chunk_documents(
        self, tokenizer: Tokenizer, limit: int, overlap: int, documents: Sequence[Sequence[TextPart]]
    ) -> list[list[TextChunk]]:
        """The chunks of whole documents, of at most `limit` tokens each, of which the next one repeats `overlap`."""
        return await self._run(chunk_documents, tokenizer, limit, overlap, documents)

    async def feed(
        self, tokenizer: Tokenizer, chunker: Chunker, parts: Sequence[TextPart], *, is_last: bool = False
    ) -> tuple[Chunker, list[TextChunk]]:
        """Add the next parts of a document. Returns the chunker to use from now on, and the chunks that they complete."""
        if chunker.characters_fed >= LARGE_TEXT:
            self._start_subprocess()
        return await self._run(feed_chunker, tokenizer, chunker, parts, is_last)

    def close(self) -> None:
        """Stop the subprocesses and the threads."""
        for slot in self._slots:
            if slot.process is not None:
                slot.process.stop()
            slot.executor.shutdown(wait=False)
        self._threads.shutdown(wait=False)

    def _start_subprocess(self) -> None:
        """Start a subprocess, unless one is starting or has nothing to do."""
        if all(slot.is_busy for slot in self._slots if slot.is_running):
            for slot in [slot for slot in self._slots if not slot.is_running][:1]:
                slot.process = _Subprocess()
                slot.executor.submit(slot.process.start)

    async def _run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        # Each kind of work has its caches of words: of two idle subprocesses, one lexes and the other chunks.
        slots = self._slots[::-1] if work is segment.build else self._slots
        slot = min((slot for slot in slots if slot.is_ready), key=_calls, default=None)
        if slot is not None and slot.process is not None:
            process = slot.process
            call = asyncio.get_running_loop().run_in_executor(slot.executor, process.call, work, arguments)
            slot.calls += 1
            try:
                return await asyncio.wait_for(asyncio.shield(call), self.timeout.total_seconds())
            except _SubprocessDied:
                log.warning("the offload subprocess died: doing its work in this process")
            except TimeoutError:
                log.warning("the offload subprocess does not answer: doing its work in this process")
                call.add_done_callback(lambda ended: ended.exception())  # stopping the subprocess fails it
                await asyncio.to_thread(process.stop)
            finally:
                slot.calls -= 1
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def feed_chunker(
    tokenizer: Tokenizer, chunker: Chunker, parts: Sequence[TextPart], is_last: bool
) -> tuple[Chunker, list[TextChunk]]:
    """Add the next parts of a document, and its end if they are the last. Returns the chunker with the chunks."""
    chunker.use_tokenizer(tokenizer)
    chunks = [chunk for part in parts for chunk in chunker.feed(part.text, part.page)]
    return chunker, [*chunks, *chunker.finish()] if is_last else chunks


def chunk_documents(
    tokenizer: Tokenizer, limit: int, overlap: int, documents: Sequence[Sequence[TextPart]]
) -> list[list[TextChunk]]:
    """The chunks of whole documents, of at most `limit` tokens each, of which the next one repeats `overlap`."""
    results: list[list[TextChunk]] = []
    for parts in documents:
        chunker = Chunker(tokenizer, limit, overlap)
        chunks = [chunk for part in parts for chunk in chunker.feed(part.text, part.page)]
        results.append([*chunks, *chunker.finish()])
    return results


# ── the subprocesses ──────────────────────────────────────────────────────────────────────────────────────


class _SubprocessDied(Exception):
    pass


class _Subprocess:
    """A subprocess that runs functions; used by one thread at a time."""

    def __init__(self) -> None:
        self.is_ready = self.is_stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._sent_tokenizers: dict[int, Tokenizer] = {}
        self._last_used = time.monotonic()
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Start it, and mark it ready when it says so."""
        if self.is_stopped:
            return
        self._process = subprocess.Popen(  # noqa: S603, its code is the constant above
            [sys.executable, "-c", _SUBPROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        if self.is_stopped:  # while the process was being created, so `stop` could not kill it
            self.stop()
            return
        with contextlib.suppress(_SubprocessDied):
            self._receive()
            self.is_ready = not self.is_stopped
            self._stop_when_idle()

    def call(self, work: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
        """Run `work` there and return its result, or raise its error."""
        self._last_used = time.monotonic()
        sent = tuple(
            self._tokenizer_ref(argument) if isinstance(argument, Tokenizer) else argument
            for argument in arguments
        )
        self._send((work, sent))
        succeeded, result = self._receive()
        if not succeeded:
            raise result
        return result

    def _tokenizer_ref(self, tokenizer: Tokenizer) -> "_TokenizerRef":
        """A reference to a tokenizer, which is sent only once."""
        if id(tokenizer) not in self._sent_tokenizers:
            self._sent_tokenizers[id(tokenizer)] = tokenizer  # referenced, so that its id is not reused
            self.call(_register_tokenizer, (id(tokenizer), tokenizer.to_str()))
        return _TokenizerRef(id(tokenizer))

    def stop(self) -> None:
        """Kill it. A running call fails."""
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
        """Stop it after a while without work."""
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


def _new_executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="cpu-offload")


@dataclass(eq=False)
class _Slot:
    """The place of one subprocess: the thread that talks to it, and how many calls wait for an answer."""

    executor: ThreadPoolExecutor = field(default_factory=_new_executor)
    process: _Subprocess | None = None
    calls: int = 0

    @property
    def is_running(self) -> bool:
        """Whether it has a subprocess, which may still be starting."""
        return self.process is not None and not self.process.is_stopped

    @property
    def is_ready(self) -> bool:
        """Whether its subprocess takes work."""
        return self.process is not None and self.process.is_ready

    @property
    def is_busy(self) -> bool:
        """Whether its subprocess has something to do."""
        return self.is_ready and self.calls > 0


def _calls(slot: _Slot) -> int:
    return slot.calls


class _TokenizerRef:
    """Refers to a tokenizer that was sent before."""

    def __init__(self, key: int) -> None:
        self.key = key


_tokenizers: dict[int, Tokenizer] = {}


def _register_tokenizer(key: int, tokenizer: str) -> None:
    _tokenizers[key] = Tokenizer.from_str(tokenizer)


def serve() -> None:
    """Run as the subprocess: handle calls until the parent closes the pipe."""
    gc.freeze()
    gc.enable()
    memory.return_freed_memory()
    niceness.lower_thread_priority()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops this process
    pipes = sys.stdin.buffer, sys.stdout.buffer
    _write(pipes[1], None)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            work, arguments = _read(pipes[0])
            arguments = tuple(
                _tokenizers[argument.key] if isinstance(argument, _TokenizerRef) else argument
                for argument in arguments
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
    return pickle.loads(data)  # noqa: S301, it comes from this program's own process
