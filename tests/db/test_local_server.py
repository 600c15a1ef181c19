"""The local server with real processes, killed at every moment. Each test ends with no process left."""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psycopg
import pytest

from gristmill.db import cluster, reaper
from gristmill.db.local_server import LocalServer, start
from gristmill.errors import SetupError

pytestmark = pytest.mark.slow

FAST_CONFIG = {"fsync": "off", "shared_buffers": "16MB"}

# A process that uses the server: it prints the URL, waits until its input ends, then closes.
USER = f"""
import sys
from pathlib import Path
from gristmill.db.local_server import start
server = start(Path(sys.argv[1]), extra_config={FAST_CONFIG})
print(server.url, flush=True)
sys.stdin.read()
server.close()
"""

# The same, with a forked child that keeps running, as those of multiprocessing do.
FORKING_USER = USER.replace(
    "print(server.url, flush=True)",
    "import os, signal\nchild = os.fork()\nif child == 0: signal.pause()\nprint(child, flush=True)",
)


class User:
    """A process that uses the server under a data dir."""

    def __init__(self, data_dir: Path, program: str = USER) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, data_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def read_line(self) -> str:
        """The line that the process prints when the server answers it."""
        return _pipe(self.process.stdout).readline().decode().strip()

    def leave(self) -> None:
        _pipe(self.process.stdin).close()
        assert self.process.wait() == 0
        _pipe(self.process.stdout).close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        _pipe(self.process.stdin).close()
        _pipe(self.process.stdout).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def until(condition: Callable[[], bool], *, within: float = 20) -> None:
    """Look every 10 ms, as often as fits into `within` seconds on a machine where looking costs nothing."""
    for _ in range(round(within / 0.01)):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the condition was never met")


def processes(data_dir: Path) -> dict[int, str]:
    """The processes of the data dir other than its users: the server, its backends, the reaper, initdb."""
    marks = [f"{data_dir}/postgres"]
    with contextlib.suppress(FileNotFoundError):
        marks.append(reaper.cluster_name(data_dir / "postgres/data"))
    found_processes: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (
                (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
            )
            if any(mark in command for mark in marks):
                found_processes[int(entry.name)] = command
    return found_processes


def reaper_pids(data_dir: Path) -> list[int]:
    return [pid for pid, command in processes(data_dir).items() if "reaper.py" in command]


def postmaster(data_dir: Path) -> int:
    pid = reaper.postmaster_pid(data_dir / "postgres/data")
    assert pid is not None
    return pid


def is_running(data_dir: Path) -> bool:
    return not reaper.is_stopped(data_dir / "postgres")


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def write(url: str, query: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(query.encode())


def refusal(data_dir: Path, **extra_config: str) -> SetupError:
    with pytest.raises(SetupError) as caught:
        start(data_dir, extra_config=FAST_CONFIG | extra_config).close()
    return caught.value


@contextlib.contextmanager
def running(data_dir: Path) -> Generator[LocalServer]:
    with contextlib.closing(start(data_dir, extra_config=FAST_CONFIG)) as server:
        yield server


@contextlib.contextmanager
def temporary_folder() -> Generator[Path]:
    # Not tmp_path: root's is not accessible to others, and too long for a socket.
    path = Path(tempfile.mkdtemp(prefix="gm-", dir="/tmp"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture
def room() -> Generator[Path]:
    with temporary_folder() as room:
        yield room


@pytest.fixture
def fresh_dir(room: Path) -> Generator[Path]:
    """A data dir that does not exist yet; the test must leave no process of it running."""
    data_dir = room / "data"
    yield data_dir
    try:
        until(lambda: not processes(data_dir))
    finally:
        for pid in processes(data_dir):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def database_folder() -> Generator[Path]:
    with temporary_folder() as room:
        with running(room / "database"):
            pass
        yield room / "database"


@pytest.fixture
def data_dir(fresh_dir: Path, database_folder: Path) -> Path:
    """A data dir with a database, copied, which is faster than initdb."""
    subprocess.run(["cp", "-a", "--sparse=always", database_folder, fresh_dir], check=True)
    return fresh_dir


def test_the_first_start_creates_a_database(fresh_dir: Path) -> None:
    with running(fresh_dir) as server:
        assert ask(server.url, "select current_database()") == "gristmill"
        assert ask(server.url, "select current_setting('data_checksums')") == "on"
        assert ask(server.url, "select 'a' < 'B' or 'Ä' < 'z'") is False, "text compares by code point"
        write(server.url, "create extension vector")
        pgdata = fresh_dir / "postgres/data"
        assert pgdata.stat().st_mode & 0o777 == 0o700
        assert fresh_dir.stat().st_mode & 0o007 == 0, "other users can't enter"
        assert pgdata.stat().st_uid != 0
        assert len(reaper_pids(fresh_dir)) == 1
    assert not is_running(fresh_dir), "close returns when the server has stopped"


def test_a_later_start_finds_the_data(data_dir: Path) -> None:
    with running(data_dir) as server:
        write(server.url, "create table kept as select 7 as n")
    with running(data_dir) as server:
        assert ask(server.url, "select n from kept") == 7


def test_the_defaults_are_durable(data_dir: Path) -> None:
    settings = cluster.configuration()
    assert not {"fsync", "synchronous_commit", "full_page_writes"} & settings.keys()
    with running(data_dir) as server:
        assert ask(server.url, "select current_setting('synchronous_commit')") == "on"
        assert ask(server.url, "select current_setting('listen_addresses')") == ""


@pytest.mark.parametrize("starter_leaves_first", [True, False])
def test_the_last_user_stops_the_server(data_dir: Path, starter_leaves_first: bool) -> None:
    with User(data_dir) as starter, User(data_dir) as joiner:
        url = starter.read_line()
        assert joiner.read_line() == url
        server, pids_before = postmaster(data_dir), reaper_pids(data_dir)
        first, last = (starter, joiner) if starter_leaves_first else (joiner, starter)
        first.leave()
        assert (postmaster(data_dir), reaper_pids(data_dir)) == (server, pids_before)
        assert ask(url, "select 1") == 1
        last.leave()
        assert not is_running(data_dir)


def test_closing_twice_has_the_effect_of_closing_once(data_dir: Path) -> None:
    with running(data_dir) as server:
        other = start(data_dir)
        other.close()
        other.close()
        assert ask(server.url, "select 1") == 1


def test_two_users_that_leave_at_once_stop_the_server(data_dir: Path) -> None:
    with User(data_dir) as first, User(data_dir) as second:
        assert first.read_line() == second.read_line()
        _pipe(first.process.stdin).close()
        second.leave()
        first.leave()
        assert not is_running(data_dir)


def test_the_server_stops_when_its_only_user_is_killed(data_dir: Path) -> None:
    with User(data_dir) as user:
        user.read_line()
        user.kill()
        until(lambda: not is_running(data_dir), within=5)
    assert not (data_dir / "postgres/data/postmaster.pid").exists(), "it was shut down, not killed"


def test_the_server_keeps_running_for_the_others_when_a_user_is_killed(data_dir: Path) -> None:
    with User(data_dir) as killed, running(data_dir) as server:
        killed.read_line()
        pid = postmaster(data_dir)
        killed.kill()
        assert ask(server.url, "select 1") == 1
        assert postmaster(data_dir) == pid


def test_a_child_forked_by_a_killed_user_does_not_keep_the_server_running(data_dir: Path) -> None:
    with User(data_dir, FORKING_USER) as user:
        child = int(user.read_line())
        try:
            user.kill()
            until(lambda: not is_running(data_dir))
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_killed_reaper_is_replaced_at_the_next_start(data_dir: Path) -> None:
    with User(data_dir) as user:
        user.read_line()
        (first,) = reaper_pids(data_dir)
        os.kill(first, signal.SIGKILL)
        until(lambda: not reaper_pids(data_dir))
        with User(data_dir) as joiner:
            joiner.read_line()
            (second,) = reaper_pids(data_dir)
            assert second != first
            user.kill()
            joiner.kill()
    until(lambda: not is_running(data_dir))


def test_without_a_reaper_the_last_user_still_stops_the_server(data_dir: Path) -> None:
    with running(data_dir):
        os.kill(reaper_pids(data_dir)[0], signal.SIGKILL)
    assert not is_running(data_dir)


def test_a_server_without_users_or_reaper_is_joined_and_stopped(data_dir: Path) -> None:
    with User(data_dir) as user:
        user.read_line()
        os.kill(reaper_pids(data_dir)[0], signal.SIGKILL)
    pid = postmaster(data_dir)
    with running(data_dir) as server:
        assert postmaster(data_dir) == pid
        assert ask(server.url, "select 1") == 1
    assert not is_running(data_dir)


def test_a_killed_server_is_started_again_with_its_data(data_dir: Path) -> None:
    with running(data_dir) as server:
        write(server.url, "create table kept as select generate_series(1, 1000) as n")
        pids_before = reaper_pids(data_dir)
        os.kill(postmaster(data_dir), signal.SIGKILL)
        with running(data_dir) as again:
            assert ask(again.url, "select count(*) from kept") == 1000
            assert reaper_pids(data_dir) == pids_before
        assert ask(server.url, "select count(*) from kept") == 1000


def test_a_backend_that_outlives_its_server_does_not_block_the_next(data_dir: Path) -> None:
    with running(data_dir) as server:
        connection = psycopg.pq.PGconn.connect(server.url.encode())
        connection.send_query(b"do 'begin loop end loop; end' -- busy")
        connection.flush()
        backend = connection.backend_pid
        state = f"select state from pg_stat_activity where query ~ 'busy$' and pid = {backend}"
        until(lambda: ask(server.url, state) == "active")
        os.kill(postmaster(data_dir), signal.SIGKILL)
        assert backend in processes(data_dir)
        with running(data_dir) as again:
            assert backend not in processes(data_dir)
            assert ask(again.url, "select 1") == 1
        connection.finish()


@pytest.mark.parametrize("holder", ["another program", "a zombie"])
def test_a_stale_pid_that_another_program_reuses_is_not_taken_for_the_server(
    data_dir: Path, holder: str
) -> None:
    with running(data_dir) as server:
        write(server.url, "create table kept as select 7 as n")
    code = "print(flush=True)" if holder == "a zombie" else "print(flush=True); input()"
    pgdata = data_dir / "postgres/data"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        _pipe(process.stdout).readline()
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            lines = [process.pid, pgdata, 1, 5432, ".", "", "1 1", "ready"]
            (pgdata / name).write_text("\n".join(map(str, lines)) + "\n")
        with running(data_dir) as server:
            assert ask(server.url, "select n from kept") == 7
            assert postmaster(data_dir) != process.pid
        assert process.returncode is None
        process.kill()


def test_two_users_that_start_at_once_share_one_server(fresh_dir: Path) -> None:
    with User(fresh_dir) as first, User(fresh_dir) as second:
        assert first.read_line() == second.read_line() != ""
        assert len([1 for command in processes(fresh_dir).values() if "/bin/postgres" in command]) == 1
        assert len(reaper_pids(fresh_dir)) == 1


@pytest.mark.parametrize(
    "seen", ["reaper.lock", "data.new", "data.new/PG_VERSION", "data", "data/postmaster.pid"]
)
def test_a_user_killed_while_it_starts_leaves_nothing_in_the_way(fresh_dir: Path, seen: str) -> None:
    with User(fresh_dir) as user:
        until((fresh_dir / "postgres" / seen).exists)
        user.kill()
        until(lambda: not processes(fresh_dir))
    with running(fresh_dir) as server:
        assert ask(server.url, "select 1") == 1
        assert not (fresh_dir / "postgres/data.new").exists()


def test_an_incomplete_database_is_created_again(fresh_dir: Path) -> None:
    half = fresh_dir / "postgres/data.new"
    (half / "base").mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    with running(fresh_dir) as server:
        assert ask(server.url, "select 1") == 1
    assert not half.exists()


def test_a_path_too_long_for_a_socket_works(room: Path) -> None:
    data_dir = room / ("d" * 60) / ("e" * 60)
    with running(data_dir) as server, User(data_dir) as joiner:
        assert joiner.read_line() == server.url
        assert ask(server.url, "select 1") == 1
        elsewhere = reaper.socket_folder(data_dir / "postgres/data")
        assert elsewhere.stat().st_mode & 0o777 == 0o700
        joiner.leave()
    assert not elsewhere.exists()
    until(lambda: not processes(data_dir))


def test_a_path_with_spaces_quotes_and_chinese_works(room: Path) -> None:
    data_dir = room / "数据 dir, 'it\"s'%20"
    with running(data_dir) as server, User(data_dir) as joiner:
        assert ask(joiner.read_line(), "select 1") == ask(server.url, "select 1") == 1
        joiner.kill()
    until(lambda: not processes(data_dir))


def test_a_large_log_is_rotated(fresh_dir: Path) -> None:
    log = fresh_dir / "postgres/server.log"
    log.parent.mkdir(parents=True)
    log.write_text("x" * (5 << 20))
    with running(fresh_dir):
        assert log.stat().st_size < 10_000
        assert log.with_name("server.log.1").stat().st_size >= 5 << 20


def test_another_version_of_the_database_is_refused(data_dir: Path) -> None:
    (data_dir / "postgres/data/PG_VERSION").write_text("16\n")
    error = refusal(data_dir)
    assert error.code == "database_version"
    assert "PostgreSQL 16" in error.message


def test_a_folder_that_is_no_database_is_refused(fresh_dir: Path) -> None:
    (fresh_dir / "postgres/data").mkdir(parents=True)
    (fresh_dir / "postgres/data/letters.txt").write_text("not yours")
    assert refusal(fresh_dir).code == "not_a_database"


def test_a_data_dir_that_cannot_be_created_is_reported(room: Path) -> None:
    (room / "file").touch()
    error = refusal(room / "file/data")
    assert error.code == "data_dir_not_writable"
    assert "GRISTMILL_DATA_DIR" in error.message


def test_a_file_system_without_locks_is_reported(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert refusal(data_dir).code == "data_dir_on_unsupported_fs"


def test_a_full_disk_is_reported_when_the_server_starts(data_dir: Path) -> None:
    # The kernel answers ENOSPC to every write there, and PostgreSQL writes this file at each start.
    options = data_dir / "postgres/data/postmaster.opts"
    options.unlink()
    options.symlink_to("/dev/full")
    assert refusal(data_dir).code == "disk_full"
    options.unlink()
    with running(data_dir) as server:
        assert ask(server.url, "select 1") == 1


def test_a_nearly_full_disk_is_reported_before_a_database_is_created(
    fresh_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=100 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    error = refusal(fresh_dir)
    assert error.code == "disk_full"
    assert "100 MB" in error.message


# What initdb printed on a tmpfs of 20 MB.
FULL_DISK = """creating configuration files ... ok
running bootstrap script ... 2026-11-15 09:12:13.583 UTC [4809] FATAL:  could not extend file "base/1/2691": No space left on device
2026-11-15 09:12:13.583 UTC [4809] HINT:  Check free disk space.
child process exited with exit code 134
initdb: removing data directory "/tmp/exp/small/d"
"""


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (FULL_DISK, "disk_full"),
        (
            "No space left on device\nHINT:  This error does *not* mean that you have run out of disk space.",
            "shared_memory_limit",
        ),
        ("FATAL:  database files are incompatible with server", "database_version"),
        ("FATAL:  could not map anonymous shared memory: Cannot allocate memory", "not_enough_memory"),
        ("", "database_start_failed"),
    ],
)
def test_known_failures_of_postgres_are_recognised(said: str, code: str) -> None:
    assert cluster.startup_error(said, Path("/data/postgres/data")).code == code


def test_a_server_that_will_not_start_is_quoted(data_dir: Path) -> None:
    error = refusal(data_dir, shared_buffers="plenty")
    assert error.code == "database_start_failed"
    assert 'invalid value for parameter "shared_buffers"' in error.message


def test_a_server_that_gristmill_did_not_start_is_left_alone(data_dir: Path) -> None:
    with running(data_dir) as server:
        write(server.url, "create table kept as select 7 as n")
    here = cluster.open_cluster(data_dir)
    command = [here.programs / "postgres", "-D", here.pgdata, "-c", "listen_addresses="]
    sockets = data_dir.parent / "sockets"
    sockets.mkdir()
    here.user.take_ownership(sockets)
    command += ["-c", f"unix_socket_directories={sockets}"]
    with here.user.popen(command, output=subprocess.DEVNULL) as foreign:
        pid_file = here.pgdata / "postmaster.pid"
        until(lambda: pid_file.exists() and "ready" in pid_file.read_text())
        try:
            assert refusal(data_dir).code == "database_locked"
            assert foreign.poll() is None
        finally:
            foreign.send_signal(signal.SIGINT)
    with running(data_dir) as server:
        assert ask(server.url, "select n from kept") == 7
