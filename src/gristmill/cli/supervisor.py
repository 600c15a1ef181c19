"""Runs `gristmill serve` as several processes: the supervisor, which is this process, and those that it starts and watches.

    supervisor ─┬─ server-1, server-2 …   requests: one or more processes on one port
                └─ worker-1, worker-2 …   jobs: none, one or more, as batch work (niceness.py)

The supervisor imports the application and then forks, so that the processes share its memory and start within milliseconds.
It runs neither threads nor an event loop, so that forking is safe at any time. It keeps the listening socket open: while a
server process is started again, connections wait instead of being refused.

    event                                   consequence
    a process ends                          it is started again: at once, or after up to 30 s if it keeps ending
    … before the first start is complete    all processes stop, and `gristmill serve` ends with its exit code
    a process can't be forked               it is tried again like one that ended, except at the first start
    SIGTERM, SIGINT, SIGHUP                 SIGTERM to all; a process that does not end in time is killed
    the supervisor is killed                every process notices at once, by a pipe, and kills itself
"""

import contextlib
import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

log = logging.getLogger(__name__)

# Seconds until a process that ended is started again, by the number of times that it ended without running for a minute.
_DELAYS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
_STABLE_SECONDS = 60.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask this process to stop: Ctrl-C, a service manager's, and that of a terminal that was closed, unless `nohup`
    lets the process ignore it."""
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM) if is_ignored else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Role:
    """A process to run: `run` is called in it with a function that reports readiness, and returns the exit code."""

    name: str
    run: Callable[[Callable[[], None]], int]


@dataclass(eq=False)
class _Child:
    """The current process of a role, or the next one."""

    role: Role
    pid: int = 0  # 0: it does not run
    ready_pipe: int = -1
    is_ready: bool = False
    started_at: float = 0.0
    start_at: float = 0.0
    failures: int = 0


class Supervisor:
    """Runs one process for each role until a signal asks it to stop."""

    def __init__(self, roles: Sequence[Role], *, stop_timeout: float) -> None:
        self._children = [_Child(role) for role in roles]
        self._stop_timeout = stop_timeout  # seconds until a process that does not stop is killed
        self._selector = selectors.DefaultSelector()
        self._life = os.pipe()  # only the supervisor keeps the write end
        self._started = False  # all roles were ready once
        self._kill_at: float | None = None  # set while stopping
        self._exit_code = 0

    def run(self, announce: Callable[[], None]) -> int:
        """Run until a signal asks to stop; `announce` is called once every process is ready. Returns the exit code."""
        with _receive_signals() as signals:
            self._selector.register(signals, selectors.EVENT_READ, None)
            while True:
                self._start_due()
                if not self._started and all(child.is_ready for child in self._children):
                    self._started = True
                    announce()
                for key, _ in self._selector.select(self._timeout()):
                    if key.data is None:
                        self._handle_signals(signals)
                    else:
                        self._read_ready_pipe(key.data)
                if self._kill_at is not None:
                    if not any(child.pid for child in self._children):
                        return self._exit_code
                    if time.monotonic() > self._kill_at:
                        self._signal_all(signal.SIGKILL)

    def _start_due(self) -> None:
        """Start what is due. Until all are ready for the first time, one at a time: an error is then reported once."""
        if self._kill_at is not None:
            return
        now = time.monotonic()
        for child in self._children:
            if child.pid == 0 and now >= child.start_at:
                try:
                    self._fork(child)
                except OSError as error:
                    self._record_failed_fork(child, error)
            if not self._started and not child.is_ready:
                return

    def _timeout(self) -> float | None:
        deadlines = [child.start_at for child in self._children if child.pid == 0]
        if self._kill_at is not None:
            deadlines = [self._kill_at if any(child.pid for child in self._children) else 0.0]
        elif not self._started:
            deadlines = []
        return max(0.0, min(deadlines) - time.monotonic()) + 0.01 if deadlines else None

    def _handle_signals(self, signals: socket.socket) -> None:
        received = set(signals.recv(4096))
        if received & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}:
            self._stop()
        self._reap()

    def _stop(self) -> None:
        """Pass the request on. As in a single process, the third one ends everything, even if something hangs."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._stop_timeout
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.pid:  # not reaped yet, so that the pid is still its own
                os.kill(child.pid, number)

    def _reap(self) -> None:
        """Take the exit codes of all processes that ended. In a container without an init, orphans are among them."""
        children = {child.pid: child for child in self._children if child.pid}
        with contextlib.suppress(ChildProcessError):  # none is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if pid in children:
                    self._record_end(children[pid], os.waitstatus_to_exitcode(status))

    def _record_end(self, child: _Child, code: int) -> None:
        pid, child.pid = child.pid, 0
        self._close_ready_pipe(child)
        was_ready, child.is_ready = child.is_ready, False
        if self._kill_at is not None:
            return
        if not self._started:  # it has printed why; with other settings it may work, by itself it will not
            self._exit_code = code if code > 0 else 1
            if code < 0:
                log.error("a process was killed while it started", extra=_facts(child, pid, code))
            self._stop()
            return
        if was_ready and time.monotonic() - child.started_at > _STABLE_SECONDS:
            child.failures = 0
        self._start_later(child, "a process ended and is started again", _facts(child, pid, code))

    def _record_failed_fork(self, child: _Child, error: OSError) -> None:
        """The machine has no memory, no process or no file descriptor left for another one, at the moment."""
        facts: dict[str, object] = {"role": child.role.name, "reason": error.strerror}
        if self._started:
            self._start_later(child, "a process could not be started, which is tried again", facts)
            return
        log.error("a process could not be started", extra=facts)
        self._exit_code = 1
        self._stop()

    def _start_later(self, child: _Child, message: str, facts: dict[str, object]) -> None:
        delay = _DELAYS[min(child.failures, len(_DELAYS) - 1)]
        child.failures += 1
        child.start_at = time.monotonic() + delay
        log.warning(message, extra={**facts, "after_seconds": delay})

    def _read_ready_pipe(self, child: _Child) -> None:
        if child.ready_pipe < 0:
            return  # it has ended, and its signal was handled first
        child.is_ready = os.read(child.ready_pipe, 1) != b""
        self._close_ready_pipe(child)

    def _close_ready_pipe(self, child: _Child) -> None:
        if child.ready_pipe >= 0:
            self._selector.unregister(child.ready_pipe)
            os.close(child.ready_pipe)
            child.ready_pipe = -1

    def _fork(self, child: _Child) -> None:
        ready_read, ready_write = os.pipe()
        # Signals wait meanwhile: one for the new process must not be handled as one for the supervisor.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._run_child(child.role, ready_write)
        except OSError:
            os.close(ready_read)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os.close(ready_write)
        child.pid, child.ready_pipe, child.is_ready = pid, ready_read, False
        child.started_at = time.monotonic()
        self._selector.register(ready_read, selectors.EVENT_READ, child)

    def _run_child(self, role: Role, ready_pipe: int) -> NoReturn:
        """Be the process of a role."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*stop_signals(), signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            # Its own session: Ctrl-C reaches only the supervisor, and Linux may share the CPU among sessions.
            os.setsid()
            _show_name(role.name)
            life_read, life_write = self._life
            os.close(life_write)
            self._selector.close()
            threading.Thread(
                target=_die_with_supervisor, args=(life_read,), name="supervisor watch", daemon=True
            ).start()
            code = role.run(lambda: _report_ready(ready_pipe))
        except BaseException:
            log.exception("a process failed", extra={"role": role.name})
        finally:
            # Nothing of the supervisor may run here: no exit handler, no `finally` of its callers.
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:  # also if they are closed
                os._exit(code)


def _facts(child: _Child, pid: int, code: int) -> dict[str, object]:
    reason = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    return {"role": child.role.name, "ended_pid": pid, "reason": reason}


def _show_name(name: str) -> None:
    """Give this process a name in `ps -e` and `top`; the kernel cuts names after 15 characters."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"gm-{name}", encoding="ascii")


def _report_ready(pipe: int) -> None:
    os.write(pipe, b"r")
    os.close(pipe)


def _die_with_supervisor(pipe: int) -> None:
    """Wait until the supervisor has ended. What this process did not commit is lost as with any kill -9."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _receive_signals() -> Generator[socket.socket]:
    """A socket that receives a byte for each signal."""
    receiver, sender = socket.socketpair()
    receiver.setblocking(False)
    sender.setblocking(False)
    numbers = (*stop_signals(), signal.SIGCHLD)
    handlers = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}
    previous_fd = signal.set_wakeup_fd(sender.fileno())
    try:
        yield receiver
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        receiver.close()
        sender.close()
