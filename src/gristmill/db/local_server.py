"""The PostgreSQL in the data dir: started by the first process that needs it, stopped after the last one.

Four locks under `<data_dir>/postgres/`, all of them flock, which the kernel frees at kill -9:

    users.lock    shared: held by every process that uses the server; exclusive: by the process that stops it
    start.lock    exclusive, while starting, joining or leaving: one process at a time
    server.lock   exclusive, inherited by PostgreSQL and all its processes: free exactly when all of them have ended
    reaper.lock   exclusive, inherited by the reaper (reaper.py), which stops the server after the last user

An inherited lock is taken before the process exists, so there is no moment in which it runs undetected.

    event                                       consequence
    two processes start at once                 `start.lock`: one starts the server, the other joins it
    a user exits, others remain                 nothing
    the last user closes                        it takes `users.lock` exclusively and stops the server itself
    the last user is killed                     the reaper gets `users.lock` and stops the server
    a process starts during the stop            it waits for `users.lock`, then starts a new server
    a process joins before the reaper acts      the reaper keeps waiting
    the reaper is killed                        the server keeps running; the next start spawns another reaper
    a user is killed while it starts            the reaper, spawned first, stops what was forked
    … while initdb runs                         `server.lock` is held until initdb ends; then it starts over
    the server is killed under its users        `start()` waits for, or kills, what is left of it, and starts it again;
                                                PostgreSQL recovers, and the reaper stays
    its pid was reused by another program       harmless: liveness is `server.lock`, not the pid
"""

import errno
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg

from gristmill.errors import SetupError

try:
    from gristmill.db import reaper
    from gristmill.db.cluster import ROLE, Cluster, open_cluster, rotate_log, startup_error
    from gristmill.db.programs import MAJOR
    from gristmill.db.reaper import EXCLUSIVE, SHARED, Lock
    from gristmill.db.service_user import ServiceUser
except ModuleNotFoundError as error:  # fcntl and pwd, on Windows
    raise SetupError(
        "Gristmill runs on Linux and macOS; on Windows, under WSL.",
        code="unsupported_platform",
    ) from error

log = logging.getLogger(__name__)

DATABASE = "gristmill"

_POLL = 0.02
_LAUNCHES = 3
_REPORT_EVERY = 5.0
_STOP_TIMEOUT = 15.0
# How long a server that reports to be ready may refuse us, for example because it has no free connections.
_REFUSAL_TIMEOUT = 30.0
_TRANSIENT_REASONS = ("starting up", "shutting down", "recovery", "not yet accepting")

_DISK_FULL_ERRORS = {errno.ENOSPC, errno.EDQUOT}
_LOCKING_ERRORS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_ACCESS_ERRORS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ELOOP,
}

# Our children, until they end and are reaped: they must not become zombies in a process that runs on.
_children: set[int] = set()


@dataclass(frozen=True)
class LocalServer:
    """This process's use of the running server; `url` is the database's address for psycopg."""

    url: str
    _folder: Path = field(repr=False)
    _users_lock: Lock = field(repr=False)
    _closing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def close(self) -> None:
        """Stop using the server; returns when it has stopped, if no other process uses it. May be called again."""
        with self._closing:
            if self._users_lock.fd < 0:
                return
            try:
                _release(self._folder, self._users_lock)
            except OSError as error:  # the data dir was removed meanwhile
                log.warning("PostgreSQL could not be stopped", extra={"reason": str(error)})
            finally:
                self._users_lock.close()
                _reap()

    def restart_if_dead(self) -> bool:
        """Start the server again if it has died; whether it had."""
        with self._closing:
            if self._users_lock.fd < 0:
                return False
            lock = Lock(self._folder / "server.lock")
            try:
                if not lock.try_acquire(EXCLUSIVE):
                    return False
            finally:
                lock.close()
            # We keep our own shared lock, so that closing the second use does not stop the server.
            start(self._folder.parent).close()
            return True


def start(data_dir: Path, *, extra_config: Mapping[str, str] = {}, major: int = MAJOR) -> LocalServer:
    """Start the server under `data_dir`, or join the running one; blocks, for minutes if it has to recover.

    `extra_config` applies if this call starts the server; `major` is another version only for an upgrade. Call it in a thread (`asyncio.to_thread`), and
    `LocalServer.close` too.
    """
    with _translate_os_errors(data_dir):
        cluster = open_cluster(data_dir, major)
        start_lock, users_lock = Lock(cluster.folder / "start.lock"), Lock(cluster.folder / "users.lock")
        try:
            _wait_for_lock(start_lock, EXCLUSIVE, "another process is starting PostgreSQL")
            _wait_for_lock(users_lock, SHARED, "PostgreSQL is being stopped")
            # Before the server, so that it is never without a reaper; and again after it, because a reaper that is
            # being killed may have released `users.lock` and not yet its own lock.
            _ensure_reaper(cluster)
            _ensure_serving(cluster, extra_config)
            _ensure_reaper(cluster)
        except BaseException:
            users_lock.close()
            raise
        finally:
            start_lock.close()
            _reap()
        return LocalServer(_url(cluster.pgdata, DATABASE), cluster.folder, users_lock)


def _ensure_serving(cluster: Cluster, extra_config: Mapping[str, str]) -> None:
    """Return when the server answers and has our database; start it whenever it does not run."""
    wait, refusal_wait, launches = _Wait(), _Wait(), list[_Launch]()
    while True:
        lock = Lock(cluster.folder / "server.lock")
        try:
            if lock.try_acquire(EXCLUSIVE):
                if launches and not launches[-1].was_killed():
                    raise startup_error(launches[-1].output(cluster.log), cluster.pgdata)
                if len(launches) == _LAUNCHES:
                    raise _repeatedly_killed_error(cluster)
                launches.append(_Launch.launch(cluster, lock, extra_config))
        finally:
            lock.close()
        if (reason := _probe(cluster.pgdata)) is None:
            return
        if not reaper.is_ready(cluster.pgdata) or any(phrase in reason for phrase in _TRANSIENT_REASONS):
            refusal_wait = _Wait()
        elif refusal_wait.seconds > _REFUSAL_TIMEOUT:
            raise startup_error(reason, cluster.pgdata)
        # Not after we started it ourselves: a server that was just forked looks the same.
        if (
            not launches
            and wait.seconds > reaper.STARTUP_GRACE
            and reaper.postmaster_pid(cluster.pgdata) is None
        ):
            reaper.kill_leftovers(cluster.pgdata)
        wait.pause(f"PostgreSQL does not answer yet: {reason}")


def _repeatedly_killed_error(cluster: Cluster) -> SetupError:
    return SetupError(
        f"PostgreSQL on {cluster.pgdata} was killed {_LAUNCHES} times while it started, perhaps because memory ran "
        f"out. Look into the system's log, and give it more memory.",
        code="database_killed",
    )


@dataclass(frozen=True)
class _Launch:
    """One attempt to start the server."""

    pid: int
    log_start: int

    @classmethod
    def launch(cls, cluster: Cluster, lock: Lock, extra_config: Mapping[str, str]) -> Self:
        log_start = rotate_log(cluster.log)
        pid = cluster.start(lock, extra_config)
        _children.add(pid)
        return cls(pid, log_start)

    def was_killed(self) -> bool:
        """Whether the server, which has ended, was killed by a signal, perhaps for lack of memory. A retry may help."""
        _children.discard(self.pid)
        try:
            return os.WIFSIGNALED(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            return False

    def output(self, log: Path) -> str:
        """What the server wrote to its log."""
        with log.open("rb") as file:
            file.seek(self.log_start)
            return file.read().decode(errors="replace")


def _probe(pgdata: Path) -> str | None:
    """Why the server can't be used yet, or None when it can; creates our database if it is missing."""
    try:
        connection = psycopg.connect(_url(pgdata, "postgres"), autocommit=True, connect_timeout=10)
    except psycopg.OperationalError as error:
        return str(error).strip()
    try:
        with connection:
            if connection.execute("select from pg_database where datname = %s", [DATABASE]).rowcount == 0:
                connection.execute(f"create database {DATABASE}")
    except psycopg.Error as error:
        if connection.broken:
            return str(error).strip()
        raise startup_error(str(error), pgdata) from error
    return None


def _url(pgdata: Path, database: str) -> str:
    # The port is explicit, because PGPORT in the environment would choose another socket.
    host = quote(bytes(reaper.socket_folder(pgdata)), safe="")
    return f"postgresql://{ROLE}@/{database}?host={host}&port=5432"


def _ensure_reaper(cluster: Cluster) -> None:
    """Spawn a reaper unless one is running."""
    lock = Lock(cluster.folder / "reaper.lock")
    try:
        if lock.try_acquire(EXCLUSIVE):
            command = [sys.executable, "-I", "-S", reaper.__file__, cluster.folder, str(lock.fd)]
            with cluster.open_log() as output:
                _children.add(ServiceUser().spawn(command, output=output, inherited_fds=[lock.fd]))
    finally:
        lock.close()


def _release(folder: Path, users_lock: Lock) -> None:
    start_lock = Lock(folder / "start.lock")
    try:
        # One process leaves at a time: of two that left together, each could believe that the other stays.
        if not _wait_for_lock(
            start_lock, EXCLUSIVE, "another process is starting PostgreSQL", limit=_STOP_TIMEOUT
        ):
            return
        if users_lock.try_acquire(EXCLUSIVE):
            if not reaper.stop(folder, fast_timeout=_STOP_TIMEOUT, timeout=_STOP_TIMEOUT):
                log.warning("PostgreSQL is still stopping; its reaper completes the stop")
        elif not users_lock.try_acquire(SHARED):
            # The reaper got the lock between our shared one and the exclusive one.
            _wait_for_lock(users_lock, SHARED, "PostgreSQL is being stopped", limit=_STOP_TIMEOUT)
    finally:
        start_lock.close()


class _Wait:
    """Sleeps in small steps, and logs every few seconds what it is waiting for."""

    def __init__(self) -> None:
        self._started = self._reported = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def pause(self, reason: str) -> None:
        now = time.monotonic()
        if now - self._reported > _REPORT_EVERY:
            self._reported = now
            log.info("waiting for PostgreSQL", extra={"reason": reason, "seconds": round(self.seconds)})
        time.sleep(_POLL)


def _wait_for_lock(lock: Lock, mode: int, reason: str, *, limit: float = math.inf) -> bool:
    wait = _Wait()
    while not lock.try_acquire(mode):
        if wait.seconds > limit:
            return False
        wait.pause(reason)
    return True


def _reap() -> None:
    for pid in tuple(_children):
        try:
            ended_pid, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # it was reaped elsewhere, or is our parent's child
            ended_pid = pid
        if ended_pid:
            _children.discard(pid)


@contextmanager
def _translate_os_errors(data_dir: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        detail = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        if error.errno in _DISK_FULL_ERRORS:
            code, message = "disk_full", f"The disk that holds {data_dir} is full ({detail}). Make room"
        elif error.errno in _LOCKING_ERRORS:
            code = "data_dir_on_unsupported_fs"
            message = f"The file system of {data_dir} has no file locks ({detail}). Use a local disk"
        elif error.errno in _ACCESS_ERRORS:
            code = "data_dir_not_writable"
            message = f"The data dir {data_dir} can't be written to ({detail}). Give this user write access"
        else:
            code = "database_start_failed"
            message = f"PostgreSQL could not be started in {data_dir} ({detail}). Fix the cause"
        raise SetupError(f"{message}, or choose another GRISTMILL_DATA_DIR.", code=code) from error
