"""Data moves from the built-in PostgreSQL to another one and back; ended anywhere, one of both is used."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from gristmill import faults
from gristmill.db import local_server, move
from gristmill.db.migrate import migrate
from gristmill.errors import SetupError
from gristmill.settings.moved_database import read_moved_database

pytestmark = [pytest.mark.slow, pytest.mark.crash]


@pytest.fixture
def fail_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Ends the next move at a point, as if the process were gone."""

    def arm(point: str) -> None:
        monkeypatch.setitem(faults._armed, point, faults._ArmedPoint("fail", 1))  # pyright: ignore[reportPrivateUsage]

    return arm


def names(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [
            name for (name,) in connection.execute("select name from organisation order by name").fetchall()
        ]


async def test_data_moves_to_another_database_and_back(
    data_dir: Path, empty_url: str, fail_once: Callable[[str], None]
) -> None:
    server = local_server.start(data_dir, extra_config={"fsync": "off"})
    await migrate(server.url)
    with psycopg.connect(server.url) as connection:
        connection.execute("insert into organisation (name) values ('Müller')")
    with pytest.raises(SetupError) as busy:
        await move.move_to_own(data_dir, empty_url, print)
    assert busy.value.code == "database_in_use"
    server.close()

    fail_once("move_database.before_switch")
    with pytest.raises(faults.FaultInjected):
        await move.move_to_own(data_dir, empty_url, print)
    assert read_moved_database(data_dir) is None
    with pytest.raises(SetupError) as filled:
        await move.move_to_own(data_dir, empty_url, print)
    assert filled.value.code == "database_not_empty"
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("drop schema public cascade; create schema public")
    moved = await move.move_to_own(data_dir, empty_url, print)
    assert moved.rows > 20
    assert read_moved_database(data_dir) == empty_url
    assert (data_dir / "database-url").stat().st_mode & 0o077 == 0
    with psycopg.connect(empty_url) as connection:
        connection.execute("insert into organisation (name) values ('Bäcker')")

    fail_once("move_database.in_place")
    with pytest.raises(faults.FaultInjected):
        await move.move_to_embedded(data_dir, empty_url, print)
    assert read_moved_database(data_dir) == empty_url, "the other one is used as before"
    await move.move_to_embedded(data_dir, empty_url, print)
    assert read_moved_database(data_dir) is None
    server = local_server.start(data_dir)
    try:
        assert names(server.url) == ["Bäcker", "Müller", "local"]
    finally:
        server.close()
    # A process that still uses the other one is refused instead of writing what would be lost.
    with pytest.raises(SetupError) as left_behind:
        await migrate(empty_url)
    assert left_behind.value.code == "database_read_only"
