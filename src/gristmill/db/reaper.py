"""Stops the local PostgreSQL after its last user has ended, by a clean exit or by kill -9.

Run as a plain script, `python -I -S reaper.py FOLDER FD`, by the process that starts the server. It imports only a few
modules of the standard library, so that it stays at 10 MB, and runs in a session of its own. It sleeps in the kernel until
it gets the exclusive lock on `users.lock`, which every user holds shared; then it stops the server and exits. `FD` is its
inherited lock on `reaper.lock`.

The code that `local_server.py` needs too is also here: the locks, and how to find and stop the server.
"""

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

SHARED, EXCLUSIVE = fcntl.LOCK_SH, fcntl.LOCK_EX
POLL = 0.01
SOCKET = ".s.PGSQL.5432"
SOCKET_FOLDER_PREFIX = "gristmill-"

# A fast shutdown writes all dirty pages, at most shared_buffers (512 MB). A minute is plenty; an immediate shutdown after
# that costs a recovery, but no data.
_FAST_SHUTDOWN_TIMEOUT = 60.0
# A server that was just forked has no postmaster.pid yet. One without it for longer is dead, and its lock is held by
# backends that have not noticed.
STARTUP_GRACE = 2.0


class Lock:
    """A lock file, which the kernel unlocks when the last process that has it open has ended."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.fd = os.open(path, flags, 0o600)
        _open_locks.add(self)

    def try_acquire(self, mode: int) -> bool:
        """Take the lock, shared or exclusive, if it is free. If not, a lock that we had before is lost too."""
        try:
            fcntl.flock(self.fd, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def acquire(self, mode: int) -> None:
        """Wait for the lock."""
        fcntl.flock(self.fd, mode)

    def close(self) -> None:
        """Release the lock in this process; a child that inherited it keeps it."""
        fd, self.fd = self.fd, -1
        _open_locks.discard(self)
        if fd >= 0:
            os.close(fd)


_open_locks: set[Lock] = set()


def _close_all() -> None:
    for lock in tuple(_open_locks):
        lock.close()


# Close-on-exec covers programs that we start. A forked child that does not exec, as of multiprocessing, would keep our
# locks after we have ended.
os.register_at_fork(after_in_child=_close_all)


def is_stopped(folder: Path) -> bool:
    """Whether no process of the server is left: each of them inherits `server.lock`."""
    try:
        lock = Lock(folder / "server.lock")
    except FileNotFoundError:
        return True
    try:
        return lock.try_acquire(SHARED)
    finally:
        lock.close()


def cluster_name(pgdata: Path) -> str:
    """A name that is on the command line of every process of the server on `pgdata`, and of no other process."""
    info = pgdata.stat()
    return f"gristmill-{info.st_dev:x}-{info.st_ino:x}"


def postmaster_lines(pgdata: Path) -> list[str]:
    """The lines of `postmaster.pid`: pid, folder, start, port, socket folder, and more; empty if it does not exist."""
    try:
        return (pgdata / "postmaster.pid").read_text(errors="surrogateescape").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def postmaster_pid(pgdata: Path) -> int | None:
    """The pid of the running server; None for a zombie, or a program that reused the pid."""
    lines = postmaster_lines(pgdata)
    if not lines or not lines[0].strip().isdigit():
        return None
    pid = int(lines[0])
    return pid if cluster_name(pgdata) in _command_lines(pid).get(pid, "") else None


def is_ready(pgdata: Path) -> bool:
    """Whether the server reports that it accepts connections."""
    lines = postmaster_lines(pgdata)
    return len(lines) > 7 and lines[7].strip() == "ready"


def socket_folder(pgdata: Path) -> Path:
    """The folder of the socket, from `postmaster.pid`; `.` there means `pgdata`."""
    lines = postmaster_lines(pgdata)
    return pgdata / lines[4] if len(lines) > 4 else pgdata


def remove_socket(folder: Path, pgdata: Path) -> None:
    """Remove the socket of a server that has ended, and its folder if it was created for it."""
    if folder != pgdata and not folder.name.startswith(SOCKET_FOLDER_PREFIX):
        return  # the folder, such as /tmp, of a server that was started by other means
    for name in (SOCKET, f"{SOCKET}.lock"):
        (folder / name).unlink(missing_ok=True)
    if folder != pgdata:
        with contextlib.suppress(OSError):
            folder.rmdir()


def kill_leftovers(pgdata: Path) -> None:
    """Kill backends that outlived their server: one that is busy with a long query does not notice until it ends."""
    if not pgdata.exists():
        return
    name = cluster_name(pgdata)
    for pid, command in _command_lines().items():
        if name in command and "postgres" in command:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def stop(folder: Path, *, fast_timeout: float, timeout: float) -> bool:
    """Stop the server under `folder`: fast, and immediately after `fast_timeout` seconds; False if it outlives `timeout`.

    The caller holds `users.lock` exclusively, so that no process starts it meanwhile.
    """
    pgdata = folder / "data"
    started, sent_signals = time.monotonic(), set[int]()
    sockets = socket_folder(pgdata)
    while not is_stopped(folder):
        elapsed = time.monotonic() - started
        if elapsed > timeout:
            return False
        shutdown_signal = signal.SIGINT if elapsed < fast_timeout else signal.SIGQUIT
        if (pid := postmaster_pid(pgdata)) is not None:
            sockets = socket_folder(pgdata)
            if shutdown_signal not in sent_signals:
                sent_signals.add(shutdown_signal)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, shutdown_signal)
        elif elapsed > STARTUP_GRACE:
            kill_leftovers(pgdata)
        time.sleep(POLL)
    remove_socket(sockets, pgdata)
    return True


def _command_lines(pid: int | None = None) -> dict[int, str]:
    """The command lines of all processes, or of one, by pid; from `ps` where there is no /proc, as on macOS."""
    if Path("/proc/self/cmdline").exists():
        proc = Path("/proc")
        return dict(_proc_commands([proc / str(pid)] if pid is not None else proc.iterdir()))
    import subprocess  # here, because the reaper does not need it on Linux

    selection = ["-p", str(pid)] if pid is not None else ["-ax"]
    listing = subprocess.run(  # noqa: S603
        ["/bin/ps", *selection, "-ww", "-o", "pid=,command="], capture_output=True, check=False
    )
    lines = (line.split(None, 1) for line in listing.stdout.decode(errors="replace").splitlines())
    return {int(line[0]): line[1] for line in lines if len(line) == 2}


def _proc_commands(processes: Iterable[Path]) -> Iterator[tuple[int, str]]:
    for process in processes:
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(process.name), (process / "cmdline").read_bytes().decode(errors="replace")


def main() -> None:
    """Wait until the last user has ended, then stop the server."""
    folder, fd = Path(sys.argv[1]), int(sys.argv[2])
    # A service manager signals every process that it started; the reaper has to outlive the others.
    for ignored_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored_signal, signal.SIG_IGN)
    users_lock = Lock(folder / "users.lock")
    users_lock.acquire(EXCLUSIVE)
    stop(folder, fast_timeout=_FAST_SHUTDOWN_TIMEOUT, timeout=2 * _FAST_SHUTDOWN_TIMEOUT)
    # In this order: the next process to get `users.lock` must find that there is no reaper.
    os.close(fd)
    users_lock.close()


if __name__ == "__main__":
    main()
