"""Stops the embedded PostgreSQL once its last user is gone, be it by clean exit or by kill -9.

Run as a plain script, `python -I -S keeper.py FOLDER FD`, by whoever starts the server: it imports nothing
but a few modules of the standard library, so that it stays at 10 MB, and lives in a session of its own. It
sleeps in the kernel until it gets the exclusive lock on `users.lock`, which every user holds shared; then it
stops the server and ends. `FD` is its hold on `keeper.lock`, taken before it was born.

What it and `embedded.py` both need is here as well: the locks, and how to find and stop the server.
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

# A fast shutdown writes out what is dirty, at most shared_buffers (512 MB); a minute is plenty, and an
# immediate one after that costs a recovery, no data.
_FAST_SHUTDOWN_TIMEOUT = 60.0
# A server that was just forked has no postmaster.pid yet; one that is silent for longer is dead, and what
# still holds its lock are backends that have not noticed.
STARTUP_GRACE = 2.0


class Lock:
    """A hold on a lock file, which the kernel lets go when the last process that has it open is gone."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.fd = os.open(path, flags, 0o600)
        _open_locks.add(self)

    def try_acquire(self, mode: int) -> bool:
        """Take the lock, shared or exclusive, if it can be had at once. When not, a former hold is lost too."""
        try:
            fcntl.flock(self.fd, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def acquire(self, mode: int) -> None:
        """Sleep until the lock is had."""
        fcntl.flock(self.fd, mode)

    def close(self) -> None:
        """Let go, as far as this process is concerned: a child that inherited the hold keeps it."""
        fd, self.fd = self.fd, -1
        _open_locks.discard(self)
        if fd >= 0:
            os.close(fd)


_open_locks: set[Lock] = set()


def _close_all() -> None:
    for lock in tuple(_open_locks):
        lock.close()


# Close-on-exec covers programs that we start. A child that is forked and runs on, as multiprocessing makes
# them, would keep our holds past our own death.
os.register_at_fork(after_in_child=_close_all)


def is_stopped(folder: Path) -> bool:
    """Whether no process of the server is left: each of them inherits the hold on `server.lock`."""
    try:
        lock = Lock(folder / "server.lock")
    except FileNotFoundError:
        return True
    try:
        return lock.try_acquire(SHARED)
    finally:
        lock.close()


def cluster_name(pgdata: Path) -> str:
    """What every process of the server over `pgdata` shows on its command line, and no other process does."""
    info = pgdata.stat()
    return f"gristmill-{info.st_dev:x}-{info.st_ino:x}"


def postmaster_lines(pgdata: Path) -> list[str]:
    """The lines of `postmaster.pid`: pid, folder, start, port, socket folder, and more; none when it isn't there."""
    try:
        return (pgdata / "postmaster.pid").read_text(errors="surrogateescape").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def postmaster_pid(pgdata: Path) -> int | None:
    """The pid of the running server. A zombie, or a stranger that was given an old pid, is not it."""
    lines = postmaster_lines(pgdata)
    if not lines or not lines[0].strip().isdigit():
        return None
    pid = int(lines[0])
    return pid if cluster_name(pgdata) in _command_lines(pid).get(pid, "") else None


def is_ready(pgdata: Path) -> bool:
    """Whether the server has written that it takes connections."""
    lines = postmaster_lines(pgdata)
    return len(lines) > 7 and lines[7].strip() == "ready"


def socket_folder(pgdata: Path) -> Path:
    """Where the server that wrote `postmaster.pid` has its socket; `.` there means `pgdata`."""
    lines = postmaster_lines(pgdata)
    return pgdata / lines[4] if len(lines) > 4 else pgdata


def remove_socket(folder: Path, pgdata: Path) -> None:
    """Remove what a server that is gone left in `folder`, and the folder if it was made for the socket."""
    if folder != pgdata and not folder.name.startswith(SOCKET_FOLDER_PREFIX):
        return  # the folder of another server, such as /tmp, that somebody started by hand
    for name in (SOCKET, f"{SOCKET}.lock"):
        (folder / name).unlink(missing_ok=True)
    if folder != pgdata:
        with contextlib.suppress(OSError):
            folder.rmdir()


def kill_leftovers(pgdata: Path) -> None:
    """Kill what outlived its server: a backend busy with a long query doesn't notice for as long as it is."""
    if not pgdata.exists():
        return
    name = cluster_name(pgdata)
    for pid, command in _command_lines().items():
        if name in command and "postgres" in command:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def stop(folder: Path, *, fast_timeout: float, timeout: float) -> bool:
    """Stop the server under `folder`: fast, after `fast` seconds at once; False if it lives after `limit`.

    The caller holds `users.lock` exclusively, so that nobody starts it meanwhile.
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
    """The command lines of all processes, or of one, by pid. Without /proc, as on macOS, `ps` tells."""
    if Path("/proc/self/cmdline").exists():
        proc = Path("/proc")
        return dict(_proc_commands([proc / str(pid)] if pid is not None else proc.iterdir()))
    import subprocess  # here, because the keeper does without on Linux

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
    """Wait for the end of the last user, then stop the server."""
    folder, fd = Path(sys.argv[1]), int(sys.argv[2])
    # A service manager signals all that it started; the keeper has to outlive the others.
    for ignored_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored_signal, signal.SIG_IGN)
    users_lock = Lock(folder / "users.lock")
    users_lock.acquire(EXCLUSIVE)
    stop(folder, fast_timeout=_FAST_SHUTDOWN_TIMEOUT, timeout=2 * _FAST_SHUTDOWN_TIMEOUT)
    # In this order: whoever gets `users.lock` next must find that there is no keeper.
    os.close(fd)
    users_lock.close()


if __name__ == "__main__":
    main()
