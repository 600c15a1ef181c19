"""Users, the reaper, the server and its backends are killed at every moment."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.db.local_server import users

pytestmark = pytest.mark.slow


def test_the_server_stops_when_its_only_user_is_killed(data_dir: Path) -> None:
    with users.User(data_dir) as user:
        user.read_line()
        user.kill()
        users.wait_until(lambda: not users.is_running(data_dir))
    assert not (data_dir / "postgres/data/postmaster.pid").exists(), "it was shut down, not killed"


def test_the_server_keeps_running_for_the_others_when_a_user_is_killed(data_dir: Path) -> None:
    with users.User(data_dir) as user, users.running_server(data_dir) as server:
        user.read_line()
        pid = users.postmaster_pid(data_dir)
        user.kill()
        assert users.query_value(server.url, "select 1") == 1
        assert users.postmaster_pid(data_dir) == pid


def test_a_child_forked_by_a_killed_user_does_not_keep_the_server_running(data_dir: Path) -> None:
    with users.User(data_dir, users.FORKING_USER) as user:
        child = int(user.read_line())
        try:
            user.kill()
            users.wait_until(lambda: not users.is_running(data_dir))
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_killed_reaper_is_replaced_at_the_next_start(data_dir: Path) -> None:
    with users.User(data_dir) as user:
        user.read_line()
        (first,) = users.reaper_pids(data_dir)
        os.kill(first, signal.SIGKILL)
        users.wait_until(lambda: not users.reaper_pids(data_dir))
        with users.User(data_dir) as joiner:
            joiner.read_line()
            (second,) = users.reaper_pids(data_dir)
            assert second != first
            user.kill()
            joiner.kill()
    users.wait_until(lambda: not users.is_running(data_dir))


def test_without_a_reaper_the_last_user_still_stops_the_server(data_dir: Path) -> None:
    with users.running_server(data_dir):
        os.kill(users.reaper_pids(data_dir)[0], signal.SIGKILL)
    assert not users.is_running(data_dir)


def test_a_server_without_users_or_reaper_is_joined_and_stopped(data_dir: Path) -> None:
    with users.User(data_dir) as user:
        user.read_line()
        os.kill(users.reaper_pids(data_dir)[0], signal.SIGKILL)
    pid = users.postmaster_pid(data_dir)
    with users.running_server(data_dir) as server:
        assert users.postmaster_pid(data_dir) == pid
        assert users.query_value(server.url, "select 1") == 1
    assert not users.is_running(data_dir)


def test_a_killed_server_is_started_again_with_its_data(data_dir: Path) -> None:
    with users.running_server(data_dir) as server:
        users.execute(server.url, "create table kept as select generate_series(1, 1000) as n")
        pids_before = users.reaper_pids(data_dir)
        os.kill(users.postmaster_pid(data_dir), signal.SIGKILL)
        with users.running_server(data_dir) as again:
            assert users.query_value(again.url, "select count(*) from kept") == 1000
            assert users.reaper_pids(data_dir) == pids_before
        assert users.query_value(server.url, "select count(*) from kept") == 1000


def test_a_backend_that_outlives_its_server_does_not_block_the_next(data_dir: Path) -> None:
    with users.running_server(data_dir) as server:
        connection = psycopg.pq.PGconn.connect(server.url.encode())
        connection.send_query(b"do 'begin loop end loop; end' -- busy")
        connection.flush()
        backend = connection.backend_pid
        state = f"select state from pg_stat_activity where query ~ 'busy$' and pid = {backend}"
        users.wait_until(lambda: users.query_value(server.url, state) == "active")
        os.kill(users.postmaster_pid(data_dir), signal.SIGKILL)
        assert backend in users.processes(data_dir)
        with users.running_server(data_dir) as again:
            assert backend not in users.processes(data_dir)
            assert users.query_value(again.url, "select 1") == 1
        connection.finish()


@pytest.mark.parametrize("holder", ["another program", "a zombie"])
def test_a_stale_pid_that_another_program_reuses_is_not_mistaken_for_the_server(
    data_dir: Path, holder: str
) -> None:
    with users.running_server(data_dir) as server:
        users.execute(server.url, "create table kept as select 7 as n")
    code = "print(flush=True)" if holder == "a zombie" else "print(flush=True); input()"
    pgdata = data_dir / "postgres/data"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        users.open_pipe(process.stdout).readline()
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            lines = [process.pid, pgdata, 1, 5432, ".", "", "1 1", "ready"]
            (pgdata / name).write_text("\n".join(map(str, lines)) + "\n")
        with users.running_server(data_dir) as server:
            assert users.query_value(server.url, "select n from kept") == 7
            assert users.postmaster_pid(data_dir) != process.pid
        assert process.returncode is None
        process.kill()


@pytest.mark.parametrize(
    "process_name", ["reaper.lock", "data.new", "data.new/PG_VERSION", "data", "data/postmaster.pid"]
)
def test_a_user_killed_while_it_starts_does_not_block_the_next_start(
    fresh_dir: Path, process_name: str
) -> None:
    with users.User(fresh_dir) as user:
        users.wait_until((fresh_dir / "postgres" / process_name).exists)
        user.kill()
        users.wait_until(lambda: not users.processes(fresh_dir))
    with users.running_server(fresh_dir) as server:
        assert users.query_value(server.url, "select 1") == 1
        assert not (fresh_dir / "postgres/data.new").exists()


def test_an_incomplete_database_is_created_again(fresh_dir: Path) -> None:
    half = fresh_dir / "postgres/data.new"
    (half / "base").mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    with users.running_server(fresh_dir) as server:
        assert users.query_value(server.url, "select 1") == 1
    assert not half.exists()
