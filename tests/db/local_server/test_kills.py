"""Users, the reaper, the server and its backends are killed at every moment."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.db.local_server.users import (
    FORKING_USER,
    User,
    ask,
    is_running,
    open_pipe,
    postmaster,
    processes,
    reaper_pids,
    running,
    until,
    write,
)

pytestmark = pytest.mark.slow


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
        open_pipe(process.stdout).readline()
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            lines = [process.pid, pgdata, 1, 5432, ".", "", "1 1", "ready"]
            (pgdata / name).write_text("\n".join(map(str, lines)) + "\n")
        with running(data_dir) as server:
            assert ask(server.url, "select n from kept") == 7
            assert postmaster(data_dir) != process.pid
        assert process.returncode is None
        process.kill()


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
