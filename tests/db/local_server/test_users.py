"""The first user starts the server, others join it, and the last one stops it."""

from pathlib import Path

import pytest

from gristmill.db import cluster, reaper
from gristmill.db.local_server import start
from tests.db.local_server.users import (
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
        open_pipe(first.process.stdin).close()
        second.leave()
        first.leave()
        assert not is_running(data_dir)


def test_two_users_that_start_at_once_share_one_server(fresh_dir: Path) -> None:
    with User(fresh_dir) as first, User(fresh_dir) as second:
        assert first.read_line() == second.read_line() != ""
        assert len([1 for command in processes(fresh_dir).values() if "/bin/postgres" in command]) == 1
        assert len(reaper_pids(fresh_dir)) == 1


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
