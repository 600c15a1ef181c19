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

from gristmill import memory, priority
from gristmill.ingest.chunk import Chunker, Piece
from gristmill.ingest.readers.results import Part
from gristmill.search import segment
from gristmill.search.segment import Segment, Words

WORTH_IT = 64  # chunks in one batch: somebody embeds fast enough to wait for us
_IDLE = 60.0  # seconds
_HEAD = 4

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class Crew:
    """Does pure work, in another process where that is faster."""

    def __init__(self, patience: timedelta = timedelta(minutes=2)) -> None:
        self.patience = patience
        self._hand: _Hand | None = None
        self._line = ThreadPoolExecutor(1, thread_name_prefix="crew")

    @property
    def is_ready(self) -> bool:
        """Whether somebody is there to take work."""
        return self._hand is not None and self._hand.ready

    async def lex(self, words: Sequence[Words], codes: NDArray[np.uint64]) -> Segment:
        """The segment of chunks."""
        if len(words) >= WORTH_IT:
            self._start()
        return await self._do(segment.build, words, codes)

    async def cut(
        self, tokenizer: Tokenizer, limit: int, documents: Sequence[Sequence[Part]]
    ) -> list[list[Piece]]:
        """The pieces of whole documents, of at most `limit` tokens."""
        return await self._do(cut, tokenizer, limit, documents)

    def close(self) -> None:
        """Let the process go."""
        if self._hand is not None:
            self._hand.end()
        self._line.shutdown(wait=False)

    def _start(self) -> None:
        if self._hand is None or self._hand.ended:
            self._hand = _Hand()
            self._line.submit(self._hand.start)

    async def _do(self, work: Callable[..., Result], *given: Any) -> Result:
        hand = self._hand
        if hand is not None and hand.ready:
            asked = asyncio.get_running_loop().run_in_executor(self._line, hand.ask, work, given)
            try:
                return await asyncio.wait_for(asyncio.shield(asked), self.patience.total_seconds())
            except _Gone:
                log.warning("the process beside this one is gone; its work is done here")
            except TimeoutError:
                log.warning("the process beside this one does not answer; its work is done here")
                asked.add_done_callback(lambda ended: ended.exception())  # looked at: its end is our doing
                await asyncio.to_thread(hand.end)
        return await asyncio.to_thread(work, *given)


def cut(tokenizer: Tokenizer, limit: int, documents: Sequence[Sequence[Part]]) -> list[list[Piece]]:
    """The pieces of whole documents, of at most `limit` tokens."""
    made: list[list[Piece]] = []
    for parts in documents:
        chunker = Chunker(tokenizer, limit)
        pieces = [piece for part in parts for piece in chunker.feed(part.text, part.page)]
        made.append([*pieces, *chunker.finish()])
    return made


# ── the other process ────────────────────────────────────────────────────────────────────────────────────


class _Gone(Exception):
    pass


class _Hand:
    """The process, asked by one thread at a time."""

    def __init__(self) -> None:
        self.ready = self.ended = False
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[int, Tokenizer] = {}
        self._used = time.monotonic()
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Have it run; until it says so, it is not asked."""
        if self.ended:
            return
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from gristmill.ingest.crew import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with contextlib.suppress(_Gone):
            self._receive()
            self.ready = True
            self._rest()

    def ask(self, work: Callable[..., Result], given: tuple[Any, ...]) -> Result:
        """Have work done there."""
        self._used = time.monotonic()
        given = tuple(self._taught(one) if isinstance(one, Tokenizer) else one for one in given)
        self._send((work, given))
        done, result = self._receive()
        if not done:
            raise result
        return result

    def _taught(self, tokenizer: Tokenizer) -> "_Named":
        """A tokenizer, which is sent once."""
        if id(tokenizer) not in self._known:
            self._known[id(tokenizer)] = tokenizer  # held, so that its id stays its own
            self.ask(_learn, (id(tokenizer), tokenizer.to_str()))
        return _Named(id(tokenizer))

    def end(self) -> None:
        """Let it go; what it is asked now is not answered."""
        self.ready, self.ended = False, True
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for line in (self._process.stdin, self._process.stdout):
                if line is not None:
                    with contextlib.suppress(OSError):
                        line.close()

    def _rest(self) -> None:
        """End it when nothing came for a while."""
        left = _IDLE - (time.monotonic() - self._used)
        if left <= 0:
            self.end()
        elif not self.ended:
            self._timer = threading.Timer(left, self._rest)
            self._timer.daemon = True
            self._timer.start()

    def _send(self, message: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, message)
        except (OSError, ValueError) as error:
            self.end()
            raise _Gone from error

    def _receive(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            return _read(self._process.stdout)
        except (OSError, EOFError, ValueError) as error:
            self.end()
            raise _Gone from error


class _Named:
    """A tokenizer that was taught before."""

    def __init__(self, key: int) -> None:
        self.key = key


_tokenizers: dict[int, Tokenizer] = {}


def _learn(key: int, tokenizer: str) -> None:
    _tokenizers[key] = Tokenizer.from_str(tokenizer)


def serve() -> None:
    """Be that process: answer until the other one is gone."""
    memory.stay_small()
    priority.step_back()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the other one, which ends this one
    lines = sys.stdin.buffer, sys.stdout.buffer
    _write(lines[1], None)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            work, given = _read(lines[0])
            given = tuple(_tokenizers[one.key] if isinstance(one, _Named) else one for one in given)
            try:
                answer = True, work(*given)
            except Exception as error:
                answer = False, error
            _write(lines[1], answer)


def _write(line: IO[bytes], message: object) -> None:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    line.write(len(data).to_bytes(_HEAD, "big") + data)
    line.flush()


def _read(line: IO[bytes]) -> Any:
    head = line.read(_HEAD)
    size = int.from_bytes(head, "big")
    data = line.read(size)
    if len(head) < _HEAD or len(data) < size:
        raise EOFError
    return pickle.loads(data)  # noqa: S301, it comes from our own process
