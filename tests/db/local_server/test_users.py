"""The first user starts the server, others join it, and the last one stops it."""

from pathlib import Path

import pytest

from gristmill.db import cluster, reaper
from gristmill.db.local_server import start
from tests.db.local_server import users

pytestmark = pytest.mark.slow


def test_the_first_start_creates_a_database(fresh_dir: Path) -> None:
    with users.running_server(fresh_dir) as server:
        assert users.query_value(server.url, "select current_database()") == "gristmill"
        assert users.query_value(server.url, "select current_setting('data_checksums')") == "on"
        assert users.query_value(server.url, "select 'a' < 'B' or 'Ä' < 'z'") is False, (
            "text compares by code point"
        )
        users.execute(server.url, "create extension vector")
        pgdata = fresh_dir / "postgres/data"
        assert pgdata.stat().st_mode & 0o777 == 0o700
        assert fresh_dir.stat().st_mode & 0o007 == 0, "other users can't enter"
        assert pgdata.stat().st_uid != 0
        assert len(users.reaper_pids(fresh_dir)) == 1
    assert not users.is_running(fresh_dir), "close returns when the server has stopped"


def test_a_later_start_finds_the_data(data_dir: Path) -> None:
    with users.running_server(data_dir) as server:
        users.execute(server.url, "create table kept as select 7 as n")
    with users.running_server(data_dir) as server:
        assert users.query_value(server.url, "select n from kept") == 7


def test_the_defaults_are_durable(data_dir: Path) -> None:
    settings = cluster.configuration()
    assert not {"fsync", "synchronous_commit", "full_page_writes"} & settings.keys()
    with users.running_server(data_dir) as server:
        assert users.query_value(server.url, "select current_setting('synchronous_commit')") == "on"
        assert users.query_value(server.url, "select current_setting('listen_addresses')") == ""


@pytest.mark.parametrize("starter_leaves_first", [True, False])
def test_the_last_user_stops_the_server(data_dir: Path, starter_leaves_first: bool) -> None:
    with users.User(data_dir) as starter, users.User(data_dir) as joiner:
        url = starter.read_line()
        assert joiner.read_line() == url
        server, pids_before = users.postmaster_pid(data_dir), users.reaper_pids(data_dir)
        first, last = (starter, joiner) if starter_leaves_first else (joiner, starter)
        first.leave()
        assert (users.postmaster_pid(data_dir), users.reaper_pids(data_dir)) == (server, pids_before)
        assert users.query_value(url, "select 1") == 1
        last.leave()
        assert not users.is_running(data_dir)


def test_closing_twice_has_the_effect_of_closing_once(data_dir: Path) -> None:
    with users.running_server(data_dir) as server:
        second_server = start(data_dir)
        second_server.close()
        second_server.close()
        assert users.query_value(server.url, "select 1") == 1


def test_two_users_that_leave_at_once_stop_the_server(data_dir: Path) -> None:
    with users.User(data_dir) as first, users.User(data_dir) as second:
        assert first.read_line() == second.read_line()
        users.open_pipe(first.process.stdin).close()
        second.leave()
        first.leave()
        assert not users.is_running(data_dir)


def test_two_users_that_start_at_once_share_one_server(fresh_dir: Path) -> None:
    with users.User(fresh_dir) as first, users.User(fresh_dir) as second:
        assert first.read_line() == second.read_line() != ""
        assert len([1 for command in users.processes(fresh_dir).values() if "/bin/postgres" in command]) == 1
        assert len(users.reaper_pids(fresh_dir)) == 1


def test_a_path_too_long_for_a_socket_works(room: Path) -> None:
    data_dir = room / ("d" * 60) / ("e" * 60)
    with users.running_server(data_dir) as server, users.User(data_dir) as joiner:
        assert joiner.read_line() == server.url
        assert users.query_value(server.url, "select 1") == 1
        elsewhere = reaper.socket_folder(data_dir / "postgres/data")
        assert elsewhere.stat().st_mode & 0o777 == 0o700
        joiner.leave()
    assert not elsewhere.exists()
    users.wait_until(lambda: not users.processes(data_dir))


def test_a_path_with_spaces_quotes_and_chinese_works(room: Path) -> None:
    data_dir = room / "数据 dir, 'it\"s'%20"
    with users.running_server(data_dir) as server, users.User(data_dir) as joiner:
        assert (
            users.query_value(joiner.read_line(), "select 1")
            == users.query_value(server.url, "select 1")
            == 1
        )
        joiner.kill()
    users.wait_until(lambda: not users.processes(data_dir))


def test_a_large_log_is_rotated(fresh_dir: Path) -> None:
    log = fresh_dir / "postgres/server.log"
    log.parent.mkdir(parents=True)
    log.write_text("x" * (5 << 20))
    with users.running_server(fresh_dir):
        assert log.stat().st_size < 10_000
        assert log.with_name("server.log.1").stat().st_size >= 5 << 20
