"""The files of the local PostgreSQL, and the programs that create and run it; `local_server.py` decides when.

    <data_dir>/postgres/
    ├── data/           PostgreSQL's data directory ("cluster"), with its socket
    ├── data.new/       the same while initdb runs; renamed when it is complete, so that a kill -9 in the middle leaves
    │                   nothing that looks like a database
    ├── server.log      the server's log, and the one before it (`server.log.1`)
    └── *.lock          see local_server.py

Every process that is started here inherits `server.lock`, so that the lock is free exactly when nothing runs.
Foreseeable failures are raised as `SetupError`, which says what to do.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gristmill.db import reaper, service_user
from gristmill.db.programs import MAJOR, find_programs
from gristmill.db.service_user import ServiceUser
from gristmill.db.switch import finish_switch
from gristmill.errors import SetupError

ROLE = "gristmill"

_MB = 1 << 20
# A new database takes 40 MB, its first WAL segments 128 MB; with less than this it would soon fail.
_MIN_FREE_SPACE = 200 * _MB
_LOG_LIMIT = 4 * _MB
# The kernel limits a socket's path to 108 bytes on Linux and 104 on macOS.
_MAX_SOCKET_PATH = 100

# A phrase in PostgreSQL's output, the error code, and the message for the user. The first match wins.
_KNOWN_FAILURES = (
    (
        "does *not* mean that you have run out of disk space",
        "shared_memory_limit",
        "The system has no shared memory segment left for {pgdata}. Raise kernel.shmmni, or remove old ones (ipcs -m).",
    ),
    (
        "No space left on device",
        "disk_full",
        "The disk that holds {pgdata} is full. Make room, or choose another GRISTMILL_DATA_DIR.",
    ),
    (
        "incompatible with server",
        "database_version",
        "{pgdata} was created by another PostgreSQL version than this Gristmill has. Install the Gristmill that created it.",
    ),
    (
        "is still in use",
        "database_locked",
        "A PostgreSQL that Gristmill did not start is running on {pgdata}. Stop it first.",
    ),
    (
        "could not create any Unix-domain sockets",
        "data_dir_on_unsupported_fs",
        "The file system of {pgdata} does not support Unix sockets. Choose a GRISTMILL_DATA_DIR on a local disk.",
    ),
    (
        "Cannot allocate memory",
        "not_enough_memory",
        "There is not enough free memory to start PostgreSQL. Free some: it needs an eighth of the memory, at least 32 MB.",
    ),
)

_ERROR_MARKERS = ("FATAL", "PANIC", "ERROR", "HINT", "error:")


@dataclass(frozen=True)
class Cluster:
    """The local database under one data dir."""

    folder: Path
    programs: Path
    user: ServiceUser

    @property
    def pgdata(self) -> Path:
        """PostgreSQL's data directory."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "server.log"

    def start(self, lock: reaper.Lock, extra_config: Mapping[str, str]) -> int:
        """Start the server, after initdb if necessary; its pid. It may still fail, or need time to recover.

        `lock` is the exclusive lock on `server.lock`, which proves that no server of ours runs here.
        """
        self._refuse_foreign_server()
        service_user.ensure_access(self.user, self.programs / "postgres", self.folder)
        if not self.pgdata.exists() or not any(self.pgdata.iterdir()):
            self._init_database(lock, sync=extra_config.get("fsync") != "off")
        self._repair_ownership()
        reaper.remove_socket(reaper.socket_folder(self.pgdata), self.pgdata)
        settings = configuration() | {
            "cluster_name": reaper.cluster_name(self.pgdata),
            "unix_socket_directories": self._choose_socket_folder(),
            **extra_config,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        # The pid in a stale postmaster.pid may belong to another program by now, or to a zombie, and PostgreSQL would
        # refuse to start. It ignores the pid in this variable, and still checks the shared memory in that file, which a
        # server that was started by other means would be using.
        stale_pid_file = reaper.postmaster_lines(self.pgdata)
        with self.open_log() as log:
            command = [self.programs / "postgres", "-D", self.pgdata, *options]
            environment = {"PG_GRANDPARENT_PID": stale_pid_file[0]} if stale_pid_file else {}
            return self.user.spawn(command, output=log, inherited_fds=[lock.fd], **environment)

    @contextmanager
    def open_log(self) -> Generator[int]:
        """A file descriptor that appends to the log."""
        fd = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    def _refuse_foreign_server(self) -> None:
        """Refuse to start beside a server that was started by other means: its socket must not be removed."""
        try:
            os.kill(int(reaper.postmaster_lines(self.pgdata)[0]), 0)
        except (IndexError, ValueError, ProcessLookupError):
            return
        except PermissionError:
            pass  # it runs, as another user
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(reaper.socket_folder(self.pgdata) / reaper.SOCKET))
            except OSError:
                return
        raise startup_error("is still in use", self.pgdata)

    def _init_database(self, lock: reaper.Lock, *, sync: bool) -> None:
        staging = self.folder / "data.new"
        if staging.exists():
            shutil.rmtree(staging)
        if (free := shutil.disk_usage(self.folder).free) < _MIN_FREE_SPACE:
            raise SetupError(
                f"The disk that holds {self.folder} has {free // _MB} MB left, and a new database needs "
                f"{_MIN_FREE_SPACE // _MB}. Make room, or choose another GRISTMILL_DATA_DIR.",
                code="disk_full",
            )
        staging.mkdir(mode=0o700)
        self.user.take_ownership(staging)
        command = [self.programs / "initdb", "-D", staging, "-U", ROLE, "--auth=trust", "--data-checksums"]
        # PostgreSQL's own C.UTF-8: text compares by code point, whatever the machine's locales.
        command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        command += ["--no-instructions"] if sync else ["--no-instructions", "--no-sync"]
        with self.user.popen(command, output=subprocess.PIPE, inherited_fds=[lock.fd]) as process:
            output = process.communicate()[0].decode(errors="replace")
        if process.returncode != 0:
            shutil.rmtree(staging, ignore_errors=True)
            raise startup_error(output, self.pgdata)
        staging.rename(self.pgdata)
        _fsync_folder(self.folder)

    def _repair_ownership(self) -> None:
        """Correct the owner and mode that a restored backup or a mounted volume has, and that PostgreSQL refuses."""
        if self.pgdata.stat().st_mode & 0o077:
            self.pgdata.chmod(0o700)
        if self.user.uid is not None and self.pgdata.stat().st_uid != self.user.uid:
            for path in (self.pgdata, *self.pgdata.rglob("*")):
                self.user.take_ownership(path)

    def _choose_socket_folder(self) -> str:
        path = os.fsencode(self.pgdata / reaper.SOCKET)
        # libpq separates hosts by commas, and they can't be quoted.
        if len(path) <= _MAX_SOCKET_PATH and b"," not in path:
            return (
                "."  # PostgreSQL's working directory is its data directory, so that the path needs no quoting
            )
        # Not $TMPDIR, which may be as long, or not accessible to the service user.
        folder = Path(tempfile.mkdtemp(prefix=reaper.SOCKET_FOLDER_PREFIX, dir="/tmp"))
        self.user.take_ownership(folder)
        return str(folder)


def open_cluster(data_dir: Path, major: int = MAJOR) -> Cluster:
    """The cluster under `data_dir`; creates its folder if necessary."""
    programs = find_programs(major)
    data_dir = data_dir.absolute()
    folder = data_dir / "postgres"
    pgdata = folder / "data"
    user = service_user.choose(data_dir, pgdata)
    for path in (data_dir, folder):
        if not path.exists():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700)
        user.allow_traversal(path)
    finish_switch(folder)
    _check_version(pgdata, major)
    return Cluster(folder, programs, user)


def startup_error(output: str, pgdata: Path) -> SetupError:
    """The error for the user, from what initdb or the server printed before it failed."""
    for phrase, code, meaning in _KNOWN_FAILURES:
        if phrase in output:
            return SetupError(meaning.format(pgdata=pgdata), code=code)
    # Without the refusals of our own probes while the server was starting.
    lines = [
        line.strip() for line in output.splitlines() if line.strip() and "the database system is" not in line
    ]
    error_lines = [line for line in lines if any(mark in line for mark in _ERROR_MARKERS)]
    excerpt = " / ".join((error_lines or lines or ["nothing"])[-4:])
    return SetupError(
        f"PostgreSQL could not start on {pgdata}: {excerpt}. More is in {pgdata.parent / 'server.log'}.",
        code="database_start_failed",
    )


def rotate_log(log: Path) -> int:
    """Rotate a log that has grown too large; the size of the log that the server appends to."""
    size = log.stat().st_size if log.exists() else 0
    if size <= _LOG_LIMIT:
        return size
    log.replace(log.with_name(f"{log.name}.1"))
    return 0


def configuration() -> dict[str, str]:
    """The server's settings for this machine; on its command line, so that they override postgresql.conf."""
    memory = _available_memory()
    return {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "shared_buffers": _megabytes(memory // 8, 32, 512),
        "effective_cache_size": _megabytes(memory // 2, 128, 1 << 20),
        "maintenance_work_mem": _megabytes(memory // 16, 64, 512),
        "work_mem": _megabytes(memory // 512, 4, 32),
        "dynamic_shared_memory_type": _dynamic_shared_memory(),
        # A back-up of the running server needs the WAL of a replica. No table is created and filled in one transaction, so
        # that `minimal` would write no less.
        "wal_level": "replica",
        "max_wal_senders": "0",
        "max_logical_replication_workers": "0",
        "wal_compression": "on",
        "min_wal_size": "128MB",
        "max_wal_size": "2GB",
        "checkpoint_completion_target": "0.9",
        # Compiling a query costs more than running any of ours; the disk is an SSD, or the page cache.
        "jit": "off",
        "random_page_cost": "1.1",
        # The job table changes quickly, and claims get slower with every dead row.
        "autovacuum_naptime": "15s",
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_analyze_scale_factor": "0.05",
        "log_min_messages": "warning",
        "log_checkpoints": "off",
        "log_timezone": "UTC",
        "timezone": "UTC",
    }


def _check_version(pgdata: Path, major: int) -> None:
    try:
        version = (pgdata / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        if pgdata.exists() and any(pgdata.iterdir()):
            raise SetupError(
                f"{pgdata} is neither empty nor a PostgreSQL database. Move it away.",
                code="not_a_database",
            ) from None
        return
    if version != str(major):
        earlier = version.isdigit() and int(version) < major
        advice = (
            "Run `gristmill upgrade`, which copies it and keeps the old one."
            if earlier
            else "Install the Gristmill that created it, or choose another GRISTMILL_DATA_DIR."
        )
        raise SetupError(
            f"{pgdata} was created by PostgreSQL {version}, and this Gristmill has {major}. {advice}",
            code="database_version",
        )


def _available_memory() -> int:
    """The memory that we may use: the container's limit, or the machine's."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue  # not this kind of container, or "max"
    return total


def _megabytes(size: int, minimum: int, maximum: int) -> str:
    return f"{min(max(size // _MB, minimum), maximum)}MB"


def _dynamic_shared_memory() -> str:
    # Parallel index builds share up to maintenance_work_mem. Docker limits /dev/shm to 64 MB, where they would fail;
    # files in the data directory are slower and always work. macOS has no such folder, and no limit.
    shm = Path("/dev/shm")  # noqa: S108
    return "mmap" if shm.exists() and shutil.disk_usage(shm).free < 1024 * _MB else "posix"


def _fsync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
