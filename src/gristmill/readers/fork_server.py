"""Starts reader processes as forks of one process that has imported their libraries.

    pool ── channel, stderr, exit pipe ──▶ fork server ── fork ──▶ child (`child.py`)
      ◀──────────── pid, pidfd ──────────────┘  ◀── waitpid ────────┘
      ◀──────────── exit status ─────────────┘

A new interpreter takes a third of a second of CPU until it has imported them, a fork some milliseconds, and forks share the memory
of the libraries. The fork server has one thread, inherits nothing from this process but its socket, and opens no document.

    it dies                     its children die with it, by the signal of `sandbox.py`; the next call starts another one
    this process ends, or is    the socket ends, and with it the fork server
    killed

macOS and Linux before 5.3 lack what this needs: there, each child is an interpreter of its own.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import NoReturn, Protocol

_FORK = b"fork"
_TIMEOUT = 60.0  # seconds: starting the fork server takes less, also on a busy machine
_STATUS_BYTES = 4
_MAX_REPLY_BYTES = 256
_CLOSE_SECONDS = 5.0


class ChildProcess(Protocol):
    """What the pool uses of a process; `subprocess.Popen` has it too."""

    @property
    def pid(self) -> int:
        """The process's id."""
        ...

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        ...

    def wait(self) -> int:
        """Wait until it has ended; its exit status."""
        ...

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        ...


class ForkedChild:
    """A process that the fork server has forked."""

    def __init__(self, pid: int, pidfd: int, exit_pipe: int) -> None:
        self.pid = pid
        self._pidfd, self._exit_pipe = pidfd, exit_pipe
        self._status: int | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """Close the descriptors: not before, as another thread may be waiting for them."""
        os.close(self._pidfd)
        os.close(self._exit_pipe)

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._read_status(timeout=0)

    def wait(self) -> int:
        """Wait until it has ended; its exit status."""
        status = self._read_status(timeout=None)
        assert status is not None
        return status

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _read_status(self, timeout: float | None) -> int | None:
        poll = select.poll()
        poll.register(self._exit_pipe, select.POLLIN)  # also once the other end is closed
        if not poll.poll(timeout):
            return self._status
        with self._lock:
            if self._status is None:
                data = os.read(self._exit_pipe, _STATUS_BYTES)
                # Without a status, the fork server was killed, and its children with it.
                self._status = int.from_bytes(data, signed=True) if data else -signal.SIGKILL
            return self._status


class ForkServer:
    """This process's end of its fork server, which the first call starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.close)

    def fork(self, channel: int, stderr: int, env: Mapping[str, str]) -> ForkedChild:
        """Fork a child with these descriptors; `OSError` if that fails. Blocks while the fork server starts; `env` is its
        environment."""
        with self._lock:
            if self._connection is None or self._owner != os.getpid() or self._is_dead():
                self._start(env)
            try:
                return self._request_child(channel, stderr)
            except OSError:
                self._stop()
                raise

    def close(self) -> None:
        """Stop the fork server and its children."""
        with self._lock:
            if self._owner == os.getpid():
                self._stop()

    def _is_dead(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _start(self, env: Mapping[str, str]) -> None:
        if self._owner == os.getpid():
            self._stop()
        self._connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.settimeout(_TIMEOUT)
        self._owner = os.getpid()
        with other:
            self._process = subprocess.Popen(  # noqa: S603, our own module
                [sys.executable, "-P", "-m", "gristmill.readers.fork_server", str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                cwd="/",
                env=dict(env),
                start_new_session=True,
            )

    def _request_child(self, channel: int, stderr: int) -> ForkedChild:
        assert self._connection is not None
        exit_pipe, exit_writer = os.pipe()
        try:
            try:
                socket.send_fds(self._connection, [_FORK], [channel, stderr, exit_writer])
            finally:
                os.close(exit_writer)
            reply, descriptors, _, _ = socket.recv_fds(self._connection, _MAX_REPLY_BYTES, 1)
            if not descriptors:
                raise OSError(reply.decode(errors="replace") or "the fork server has ended")
        except BaseException:
            os.close(exit_pipe)
            raise
        return ForkedChild(int(reply), descriptors[0], exit_pipe)

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            try:
                self._process.wait(_CLOSE_SECONDS)  # it ends with the connection
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


@functools.cache
def is_supported() -> bool:
    """Whether this system has descriptors of processes."""
    if sys.platform != "linux":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # an old kernel, or a container that forbids it
        return False
    return True


@functools.cache
def of_this_process() -> ForkServer:
    """The fork server that all pools of this process use."""
    return ForkServer()


# ── the fork server's own process ─────────────────────────────────────────────────────────────────────────


def _serve(connection: socket.socket) -> None:
    """Fork a child for each request and report the exit status of each, until the other end closes the connection."""
    running: dict[int, tuple[int, int]] = {}  # pid and exit pipe by pidfd
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    server_pid = os.getpid()
    while True:
        for key, _ in selector.select():
            if key.fileobj is not connection:
                selector.unregister(key.fd)
                _report_status(key.fd, *running.pop(key.fd))
                continue
            request, descriptors, _, _ = socket.recv_fds(connection, len(_FORK), 3)
            if not request:
                return
            channel, stderr, exit_pipe = descriptors
            try:
                pid = os.fork()
            except OSError as error:
                connection.send(str(error).encode()[:_MAX_REPLY_BYTES])
                for descriptor in descriptors:
                    os.close(descriptor)
                continue
            if pid == 0:
                selector.close()
                connection.close()
                for descriptor in (exit_pipe, *running, *(pipe for _, pipe in running.values())):
                    os.close(descriptor)
                _run_child(channel, stderr, server_pid)
            os.close(channel)
            os.close(stderr)
            pidfd = os.pidfd_open(pid)
            running[pidfd] = pid, exit_pipe
            selector.register(pidfd, selectors.EVENT_READ)
            socket.send_fds(connection, [str(pid).encode()], [pidfd])


def _report_status(pidfd: int, pid: int, exit_pipe: int) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(exit_pipe, status.to_bytes(_STATUS_BYTES, signed=True))
    os.close(exit_pipe)
    os.close(pidfd)


def _run_child(channel: int, stderr: int, parent: int) -> NoReturn:
    """Be a reader process."""
    from gristmill.readers import child

    status = 1
    try:
        os.setsid()
        os.dup2(stderr, 2)
        os.close(stderr)
        child.main(channel, parent)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)  # nothing of the fork server may run here


def main(fd: int) -> None:
    """Run as the fork server."""
    connection = socket.socket(fileno=fd)
    from gristmill.readers import child

    for name in child.PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy what all of them share
    with contextlib.suppress(ConnectionError):
        _serve(connection)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
