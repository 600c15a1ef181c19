"""A pool of warm child processes that read documents, one at a time each, and can be killed.

    (start) ──▶ idle ──lease──▶ busy ──the document was read or refused──▶ idle
                                 └─crashed, hung, cancelled, too large or too old──▶ killed, and another one starts

A child inherits nothing from this process: no environment, no open files but its socket, no network. `sandbox.py` and
the caller's time limits bound what it can use; whatever happens to it, the pool goes on. Children end with this process,
also when it is killed. They are forks of a process that has imported their libraries (`fork_server.py`).

Bases share the children fairly (`stage_gate`). OCR takes seconds a page and much memory, so it has children of its own: a
document that turns out to need OCR returns its child at once, and continues in one of those when it is its base's turn.

A document returns its child in the middle, and waits for the next turn:

    from OCR       after every page that another base waits for, and also its own base: an image of a document while scans are
                   read, or a scan while images are described; after a turn of pages for other scans of its base
    otherwise      after a turn of pages (`sink.PAGES_PER_TURN`), if any document waits
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import IO, Self

from gristmill.errors import Transient
from gristmill.readers import fork_server, processor_time
from gristmill.readers.fork_server import ChildProcess
from gristmill.readers.protocol import (
    HEADER_BYTES,
    Message,
    ProtocolError,
    body_length,
    decode,
    encode,
)
from gristmill.stage_gate import ANYBODY, Requester, StageGate

_START_LIMIT = timedelta(seconds=60)
_OCR_PAGES_PER_TURN = 16  # while other scans of the base wait
_MAX_DOCUMENTS = 500  # of one child, so that memory leaks of a library stay small
_MAX_RESIDENT_BYTES = 400 * 1024 * 1024  # a child that uses more after its document is replaced
_MAX_RESIDENT_BYTES_OCR = 1536 * 1024 * 1024
_STDERR_TAIL = 4_096
# Bytecode is cached as elsewhere: without it, each child would compile its libraries again.
_INHERITED = ("PATH", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "LANG", "TZ")

# Run as a module, it imports this package's `__init__` (light on purpose) and what reading needs, nothing else.
_CHILD = "gristmill.readers.child"


class ReaderDied(Exception):
    """A child ended in the middle of a document; `code` is the cause, as far as it is known. `is_starved`: the machine had no
    time for it."""

    def __init__(self, detail: str, *, code: str, is_starved: bool = False) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail, self.is_starved = code, detail, is_starved


class ReaderProcess:
    """One child process, and the socket to it."""

    def __init__(self, process: ChildProcess, errors: IO[bytes]) -> None:
        self._process, self._errors = process, errors
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.documents = 0
        self.must_be_replaced = False

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def cpu_seconds(self) -> float | None:
        """The CPU time that the process has used so far; None where the system does not say."""
        return processor_time.of_process(self.pid)

    @classmethod
    async def start(cls) -> Self:
        """Start a child and wait until it is ready."""
        parent_socket, child_socket = socket.socketpair()
        errors = tempfile.TemporaryFile()  # noqa: SIM115  -- closed with the child
        try:
            process = await _start_process(child_socket, errors)
        except BaseException as error:
            parent_socket.close()
            errors.close()
            if not isinstance(error, OSError):
                raise
            raise Transient(
                f"The reader process could not be started: {error}", code="reader_unavailable"
            ) from error
        finally:
            child_socket.close()
        child = cls(process, errors)
        try:
            child._reader, child._writer = await asyncio.open_unix_connection(sock=parent_socket)
            async with asyncio.timeout(_START_LIMIT.total_seconds()):
                await child.receive()
        except (ReaderDied, TimeoutError) as error:
            await child.kill()
            raise Transient(
                f"The reader process could not be started: {error}", code="reader_unavailable"
            ) from error
        except BaseException:
            await child.kill()
            raise
        return child

    async def send(self, message: Message) -> None:
        """Send `message` to the child."""
        assert self._writer is not None
        with contextlib.suppress(ConnectionError):  # `receive` reports that the child is gone
            self._writer.write(encode(message))
            await self._writer.drain()

    async def receive(self) -> Message:
        """The child's next message. Raises ReaderDied when the child is gone."""
        assert self._reader is not None
        try:
            header = await self._reader.readexactly(HEADER_BYTES)
            return decode(await self._reader.readexactly(body_length(header)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except ProtocolError as error:
            raise ReaderDied(str(error), code="reader_crashed") from error
        raise await self._cause_of_death()

    async def kill(self) -> None:
        """End the process now, and wait until it is gone."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        if self._writer is not None:
            self._writer.close()
        # It takes milliseconds. A cancelled caller waits too, so that no dying process is left behind.
        exit_task = asyncio.ensure_future(asyncio.to_thread(self._process.wait))
        while not exit_task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([exit_task])
        self._errors.close()

    async def _cause_of_death(self) -> ReaderDied:
        status = await asyncio.to_thread(self._process.wait)
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _STDERR_TAIL))
        stderr = self._errors.read().decode(errors="replace").strip()
        last_line = stderr.splitlines()[-1] if stderr else ""
        if any(
            word in stderr for word in ("memory allocation of", "bad_alloc", "MemoryError", "out of memory")
        ):
            return ReaderDied(last_line, code="reader_out_of_memory")
        if -status == signal.SIGXCPU:
            return ReaderDied("it used up its CPU time", code="reader_timeout")
        if -status == signal.SIGKILL:
            return ReaderDied("something else killed it", code="reader_killed")
        return ReaderDied(f"it ended with status {status}. {last_line}"[:300], code="reader_crashed")


class ReaderPool:
    """At most `size` children that read, and `ocr_size` for OCR, kept warm; `share` is what one base may use of them."""

    def __init__(self, size: int | None = None, *, ocr_size: int = 1, share: float = 1.0) -> None:
        self.size = size or max(1, os.cpu_count() or 1)
        self._readers = StageGate(self.size, share)
        self._ocr = StageGate(ocr_size, share, is_slow=True)
        self._idle: list[ReaderProcess] = []
        self._idle_ocr: list[ReaderProcess] = []
        self._busy: set[ReaderProcess] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._closed = False

    async def __aenter__(self) -> Self:
        self.warm()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def pids(self) -> list[int]:
        """The process ids of all live children."""
        return [child.pid for child in (*self._idle, *self._idle_ocr, *self._busy)]

    def warm(self) -> None:
        """Start children that are missing, in the background: as many as there are processors."""
        present = len(self._idle) + len(self._busy) + len(self._tasks) + self._starting
        for _ in range(min(self.size, os.cpu_count() or 1) - present):
            task = asyncio.get_running_loop().create_task(self._start_idle())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Kill all children."""
        self._closed = True
        for task in (*self._tasks,):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        children = [*self._idle, *self._idle_ocr, *self._busy]
        self._idle.clear()
        self._idle_ocr.clear()
        await asyncio.gather(*(child.kill() for child in children))

    @asynccontextmanager
    async def lease_process(
        self, requester: Requester = ANYBODY, *, for_ocr: bool = False
    ) -> AsyncGenerator[ReaderProcess]:
        """A child to read one document with; afterwards it is idle again, or killed if it must be replaced."""
        gate, idle = (self._ocr, self._idle_ocr) if for_ocr else (self._readers, self._idle)
        async with gate.place(requester):
            child = await self._take_idle_or_start(idle)
            self._busy.add(child)
            try:
                yield child
            finally:
                self._busy.discard(child)
                if child.must_be_replaced or self._closed:
                    await child.kill()
                elif child not in idle:
                    idle.append(child)
                if not self._closed:
                    self.warm()

    def must_yield_ocr(self, requester: Requester, pages: int) -> bool:
        """Whether others wait for OCR, so that a document that has recognised so many pages should continue later."""
        is_turn_over = pages >= _OCR_PAGES_PER_TURN
        return self._ocr.is_wanted_by_others(requester.base) or self._ocr.is_wanted_within(
            requester, by_other_priorities=not is_turn_over
        )

    def must_yield(self, requester: Requester, *, for_ocr: bool) -> bool:
        """Whether others wait, so that a document that has had a turn should continue later."""
        gate = self._ocr if for_ocr else self._readers
        return gate.is_wanted_by_others(requester.base) or gate.is_wanted_within(
            requester, by_other_priorities=False
        )

    def recycle(self, child: ReaderProcess, resident_bytes: int, *, for_ocr: bool) -> None:
        """Decide whether a child that has finished its document is used again or replaced."""
        child.documents += 1
        limit = _MAX_RESIDENT_BYTES_OCR if for_ocr else _MAX_RESIDENT_BYTES
        child.must_be_replaced = child.documents >= _MAX_DOCUMENTS or resident_bytes > limit

    async def _take_idle_or_start(self, idle: list[ReaderProcess]) -> ReaderProcess:
        while idle is self._idle and not idle and self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        if idle:
            return idle.pop()
        self._starting += 1
        try:
            return await ReaderProcess.start()
        finally:
            self._starting -= 1

    async def _start_idle(self) -> None:
        with contextlib.suppress(
            Transient
        ):  # the document that needs a child starts one, and reports the error
            self._idle.append(await ReaderProcess.start())


async def _start_process(channel: socket.socket, errors: IO[bytes]) -> ChildProcess:
    """Start a process that reads documents from `channel`."""
    if not fork_server.is_supported():
        # On this thread, not in a pool: the kernel kills a child when the thread that started it ends.
        return subprocess.Popen(  # noqa: S603, ASYNC220
            [sys.executable, "-P", "-m", _CHILD, str(channel.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(channel.fileno(),),
            cwd="/",
            env=_child_environment(),
            start_new_session=True,
        )
    fork = asyncio.ensure_future(
        asyncio.to_thread(
            fork_server.of_this_process().fork, channel.fileno(), errors.fileno(), _child_environment()
        )
    )
    # It takes milliseconds, and a third of a second for the first child. A cancelled caller waits too, to end the child.
    cancelled = False
    while not fork.done():
        try:
            await asyncio.wait([fork])
        except asyncio.CancelledError:
            cancelled = True
    process = fork.result()
    if cancelled:
        process.kill()
        raise asyncio.CancelledError
    return process


def _child_environment() -> dict[str, str]:
    """What a child needs of our environment to start Python, and one thread for each native library."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return environment | {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "HOME": "/"}
