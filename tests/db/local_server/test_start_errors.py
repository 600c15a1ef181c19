"""A server that can not start: the error says why, and what to do."""

import errno
import fcntl
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from gristmill.db import cluster
from gristmill.db.local_server import start
from gristmill.errors import SetupError
from tests.db.local_server.users import FAST_CONFIG, execute, query_value, running_server, wait_until

pytestmark = pytest.mark.slow


def start_error(data_dir: Path, **extra_config: str) -> SetupError:
    with pytest.raises(SetupError) as caught:
        start(data_dir, extra_config=FAST_CONFIG | extra_config).close()
    return caught.value


def test_another_version_of_the_database_is_refused(data_dir: Path) -> None:
    (data_dir / "postgres/data/PG_VERSION").write_text("16\n")
    error = start_error(data_dir)
    assert error.code == "database_version"
    assert "PostgreSQL 16" in error.message


def test_a_folder_that_is_no_database_is_refused(fresh_dir: Path) -> None:
    (fresh_dir / "postgres/data").mkdir(parents=True)
    (fresh_dir / "postgres/data/letters.txt").write_text("not yours")
    assert start_error(fresh_dir).code == "not_a_database"


def test_a_data_dir_that_cannot_be_created_is_reported(room: Path) -> None:
    (room / "file").touch()
    error = start_error(room / "file/data")
    assert error.code == "data_dir_not_writable"
    assert "GRISTMILL_DATA_DIR" in error.message


def test_a_file_system_without_locks_is_reported(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert start_error(data_dir).code == "data_dir_on_unsupported_fs"


def test_a_full_disk_is_reported_when_the_server_starts(data_dir: Path) -> None:
    # The kernel answers ENOSPC to every write there, and PostgreSQL writes this file at each start.
    options = data_dir / "postgres/data/postmaster.opts"
    options.unlink()
    options.symlink_to("/dev/full")
    assert start_error(data_dir).code == "disk_full"
    options.unlink()
    with running_server(data_dir) as server:
        assert query_value(server.url, "select 1") == 1


def test_a_nearly_full_disk_is_reported_before_a_database_is_created(
    fresh_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=100 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    error = start_error(fresh_dir)
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
    ("output", "code"),
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
def test_known_failures_of_postgres_are_recognised(output: str, code: str) -> None:
    assert cluster.startup_error(output, Path("/data/postgres/data")).code == code


def test_a_server_that_will_not_start_is_quoted(data_dir: Path) -> None:
    error = start_error(data_dir, shared_buffers="plenty")
    assert error.code == "database_start_failed"
    assert 'invalid value for parameter "shared_buffers"' in error.message


def test_a_server_that_gristmill_did_not_start_is_left_alone(data_dir: Path) -> None:
    with running_server(data_dir) as server:
        execute(server.url, "create table kept as select 7 as n")
    here = cluster.open_cluster(data_dir)
    command = [here.programs / "postgres", "-D", here.pgdata, "-c", "listen_addresses="]
    sockets = data_dir.parent / "sockets"
    sockets.mkdir()
    here.user.take_ownership(sockets)
    command += ["-c", f"unix_socket_directories={sockets}"]
    with here.user.popen(command, output=subprocess.DEVNULL) as foreign:
        pid_file = here.pgdata / "postmaster.pid"
        wait_until(lambda: pid_file.exists() and "ready" in pid_file.read_text())
        try:
            assert start_error(data_dir).code == "database_locked"
            assert foreign.poll() is None
        finally:
            foreign.send_signal(signal.SIGINT)
    with running_server(data_dir) as server:
        assert query_value(server.url, "select n from kept") == 7
