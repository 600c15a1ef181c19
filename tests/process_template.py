"""Starts `python -m MODULE` as a fork of a process that has imported Gristmill already.

Importing takes a new process two seconds of CPU, and the tests start some hundred of them. What is forked is a process of its
own in every respect that tests look at: it gets its environment, arguments, standard streams and folder as a new one does,
runs the module as `__main__`, and dies of signals by itself. `gristmill serve` forks its own processes in the same way.

    test ── request, streams ──▶ template ── fork ──▶ process
      ◀──────── pidfd ─────────────┘  ◀── waitpid ──────┘
      ◀── exit code, through a pipe ──┘

The template has one thread, starts no process before the first request, and ends when the test process ends.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn, Protocol

_ROOT = Path(__file__).parents[1]
_PRELOADED = (
    "gristmill.app",
    "gristmill.cli.commands",
    "gristmill.cli.serve",
)
_MAX_REQUEST = 1 << 18
_RETURN_CODE_BYTES = 4


class Process(Protocol):
    """What tests use of a process; `subprocess.Popen[str]` has it too."""

    @property
    def pid(self) -> int: ...
    @property
    def stdout(self) -> IO[str] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


class ForkedProcess:
    """A process that the template has forked."""

    def __init__(self, pid: int, pidfd: int, exit_pipe: int) -> None:
        self.pid = pid
        self.stdout: IO[str] | None = None
        self._pidfd, self._exit_pipe = pidfd, exit_pipe
        self._returncode: int | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """Close the descriptors: not before, as another thread may be waiting for them."""
        os.close(self._exit_pipe)
        os.close(self._pidfd)

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        with self._lock:
            if self._returncode is None and self._has_ended(timeout=0):
                data = os.read(self._exit_pipe, _RETURN_CODE_BYTES)
                assert len(data) == _RETURN_CODE_BYTES, "the template has died"
                self._returncode = int.from_bytes(data, signed=True)
            return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; its exit code."""
        self._has_ended(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, sig)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout: float | None) -> bool:
        poll = select.poll()
        poll.register(self._exit_pipe, select.POLLIN)  # also once the other end is closed
        return bool(poll.poll(None if timeout is None else timeout * 1000))


def start(
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    stdout: IO[str] | None = None,
    stderr: IO[str],
    fork: bool = True,
) -> Process:
    """Start `python -m` with these arguments. Without `stdout`, its output is read from the pipe of the same name. With
    `fork=False`, as on other systems than Linux, it is started without the template."""
    if not fork or sys.platform != "linux":
        command = [sys.executable, "-m", *arguments]
        return subprocess.Popen(
            command, env=dict(env), stdout=stdout or subprocess.PIPE, stderr=stderr, text=True
        )
    if stdout is not None:
        return _template().fork(arguments, env, stdout.fileno(), stderr.fileno())
    reader, writer = os.pipe()
    try:
        process = _template().fork(arguments, env, writer, stderr.fileno())
    finally:
        os.close(writer)
    process.stdout = os.fdopen(reader, encoding="utf-8")
    return process


def start_in_terminal(arguments: Sequence[str], env: Mapping[str, str], terminal: int) -> Process:
    """Start `python -m` with these arguments in a terminal of its own, so that Ctrl-C reaches it as a signal."""
    if sys.platform == "linux":
        return _template().fork(arguments, env, terminal, terminal, in_terminal=True)
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env=dict(env),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        preexec_fn=lambda: control_terminal(terminal),
        text=True,
    )


def control_terminal(terminal: int) -> None:
    """Make the terminal the controlling one of this process."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


class _Template:
    """The test process's end of the template."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.process_template", str(other.fileno())],
                env={**os.environ, "PYTHONWARNINGS": "error"},
                cwd=_ROOT,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        atexit.register(self.close)

    def fork(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        *,
        in_terminal: bool = False,
    ) -> ForkedProcess:
        words = {
            "arguments": list(arguments),
            "env": dict(env),
            "folder": str(Path.cwd()),
            "in_terminal": in_terminal,
        }
        request = json.dumps(words).encode()
        assert len(request) < _MAX_REQUEST, "a request must fit into one message"
        exit_pipe, exit_writer = os.pipe()
        with self._lock:
            socket.send_fds(self._socket, [request], [stdout, stderr, exit_writer])
            os.close(exit_writer)
            reply, descriptors, _, _ = socket.recv_fds(self._socket, 64, 1)
        assert reply, "the template has died"
        return ForkedProcess(int(reply), descriptors[0], exit_pipe)

    def close(self) -> None:
        self._socket.close()
        self._process.wait(30)


@functools.cache
def _template() -> _Template:
    return _Template()


def _serve(connection: socket.socket) -> None:
    """Fork a process for each request, and report the exit code of each, until the test process closes the connection. In a
    process that was forked, run its module and do not return."""
    running: dict[int, tuple[int, int]] = {}  # pid and exit pipe by pidfd
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not connection:
                pid, exit_pipe = running.pop(key.fd)
                selector.unregister(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(BrokenPipeError):
                    os.write(exit_pipe, code.to_bytes(_RETURN_CODE_BYTES, signed=True))
                os.close(exit_pipe)
                os.close(key.fd)
                continue
            request, descriptors, _, _ = socket.recv_fds(connection, _MAX_REQUEST, 3)
            if not request:
                return
            stdout, stderr, exit_pipe = descriptors
            pid = os.fork()
            if pid == 0:
                selector.close()
                connection.close()
                for pidfd, (_, other_pipe) in running.items():
                    os.close(pidfd)
                    os.close(other_pipe)
                os.close(exit_pipe)
                _become(stdout=stdout, stderr=stderr, **json.loads(request))
            os.close(stdout)
            os.close(stderr)
            pidfd = os.pidfd_open(pid)
            running[pidfd] = pid, exit_pipe
            selector.register(pidfd, selectors.EVENT_READ)
            socket.send_fds(connection, [str(pid).encode()], [pidfd])


def _become(
    arguments: list[str], env: dict[str, str], folder: str, *, in_terminal: bool, stdout: int, stderr: int
) -> NoReturn:
    """Become the process of a request."""
    if in_terminal:
        control_terminal(stdout)
        os.dup2(stdout, 0)
        sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    for descriptor, standard in ((stdout, 1), (stderr, 2)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    sys.exit()


def main() -> None:
    """Run as the template."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which closes the connection
    connection = socket.socket(fileno=int(sys.argv[1]))
    for module in _PRELOADED:
        importlib.import_module(module)
    assert threading.active_count() == 1, "a fork has only the thread that forked"
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy what all of them share
    _serve(connection)


if __name__ == "__main__":
    main()
