"""The built-in PostgreSQL goes to its next major version: 16 → 18, with real servers, data and kill -9."""

import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gristmill import faults
from gristmill.db import cluster, local_server, reaper, switch, upgrade
from gristmill.db.migrate import migrate
from gristmill.db.programs import MAJOR, programs_by_version
from gristmill.errors import SetupError
from tests.gristmill_process import environment, run_command
from tests.wait_until import wait_until

OLD = 16
NO_OLD = pytest.mark.skipif(OLD not in programs_by_version(), reason=f"PostgreSQL {OLD} isn't in the wheel")


def init_old_database(self: cluster.Cluster, lock: reaper.Lock, *, sync: bool) -> None:
    """initdb as a release with PostgreSQL 16 did it: without the built-in locale, which came later."""
    assert not sync
    staging = self.folder / "data.new"
    staging.mkdir(mode=0o700)
    self.user.take_ownership(staging)
    command: list[Any] = [
        self.programs / "initdb",
        "-D",
        staging,
        "-U",
        cluster.ROLE,
        "--auth=trust",
        "--data-checksums",
    ]
    command += ["--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync"]
    with self.user.popen(command, output=subprocess.PIPE, inherited_fds=[lock.fd]) as process:
        output = process.communicate()[0]
    assert process.returncode == 0, output
    staging.rename(self.pgdata)


@pytest.fixture
async def old_data_dir(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data dir with PostgreSQL 16 and some rows."""
    with monkeypatch.context() as patch:
        patch.setattr(cluster.Cluster, "_init_database", init_old_database)
        server = local_server.start(data_dir, major=OLD, extra_config={"fsync": "off"})
    try:
        await migrate(server.url)
        with psycopg.connect(server.url) as connection:
            connection.execute(
                "insert into base (name, embedder, embedder_identity, dimensions) select 'Größe ' || n, 'e', 'i', 4"
                " from generate_series(1, 20) n"
            )
            connection.execute(
                'insert into chunk (set_id, item_id, version, index, text, start, "end", headings, embedding)'
                " select id, uuidv7(), 1, 0, '石磨 ' || name, 0, 3, array['a', 'b'], '[1, 0.5, -2, 65504]' from base"
            )
    finally:
        server.close()
    return data_dir


def rows(data_dir: Path) -> list[tuple[Any, ...]]:
    server = local_server.start(data_dir)
    try:
        with psycopg.connect(server.url) as connection:
            return connection.execute(
                "select b.name, c.text, c.headings, c.embedding::text, current_setting('server_version_num')::int / 10000"
                " from base b join chunk c on c.set_id = b.id order by c.no"
            ).fetchall()
    finally:
        server.close()


@NO_OLD
@pytest.mark.slow
@pytest.mark.crash
async def test_an_upgrade_that_is_killed_leaves_the_old_or_the_new_database(
    old_data_dir: Path, cache_dir: Path
) -> None:
    """Killed after the copy: the old one, untouched, and the next upgrade begins again. Killed after the decision: whatever comes
    next finds the new one, with every row. The old one is kept until it is dropped."""
    env = environment(old_data_dir, cache_dir)
    with pytest.raises(SetupError, match="gristmill upgrade") as refused:
        local_server.start(old_data_dir)
    assert refused.value.code == "database_version"
    doctor = run_command(env, "doctor")
    assert f"due, from PostgreSQL {OLD} to {MAJOR}" in doctor.stdout
    assert run_command({**env, "GRISTMILL_FAULTS": "upgrade.copied=kill"}, "upgrade").returncode == -9

    async def is_stopped() -> bool:
        return reaper.is_stopped(old_data_dir / "postgres")

    await wait_until(is_stopped)
    assert (upgrade.database_version(old_data_dir), switch.old_copies(old_data_dir / "postgres")) == (OLD, [])
    assert run_command({**env, "GRISTMILL_FAULTS": "upgrade.switch_decided=kill"}, "upgrade").returncode == -9
    found = rows(old_data_dir)
    assert len(found) == 20
    assert found[0] == ("Größe 1", "石磨 Größe 1", ["a", "b"], "[1,0.5,-2,65504]", MAJOR)
    assert [path.name for path in switch.old_copies(old_data_dir / "postgres")] == [f"data.{OLD}"]
    assert (await upgrade.upgrade_database(old_data_dir, print)) is None
    assert len(upgrade.drop_old_copies(old_data_dir)) == 1
    assert len(rows(old_data_dir)) == 20


def cannot_exchange(_first: Path, _second: Path) -> bool:
    return False


@pytest.mark.parametrize("exchange", [True, False], ids=["in one step", "in two steps"])
@pytest.mark.parametrize("point", ["upgrade.before_switch", "upgrade.switch_decided", "upgrade.old_moved"])
def test_a_switch_that_ends_anywhere_is_the_old_or_the_new_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, exchange: bool
) -> None:
    """Before the decision the old one, after it the new one, also on systems that can't exchange two directories at once."""
    if not exchange:
        monkeypatch.setattr(switch, "_exchange", cannot_exchange)
    new = tmp_path / "staging" / "data"
    for folder, word in ((tmp_path / "data", "old"), (new, "new")):
        folder.mkdir(parents=True)
        (folder / "PG_VERSION").write_text(word)
    monkeypatch.setitem(faults._armed, point, faults._ArmedPoint("fail", 1))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(faults.FaultInjected):
        switch.begin_switch(tmp_path, new, "data.16")
    monkeypatch.delitem(faults._armed, point)  # pyright: ignore[reportPrivateUsage]
    for _ in range(2):
        switch.finish_switch(tmp_path)
    expected = "old" if point == "upgrade.before_switch" else "new"
    assert (tmp_path / "data" / "PG_VERSION").read_text() == expected
    kept = [path.joinpath("PG_VERSION").read_text() for path in switch.old_copies(tmp_path)]
    assert kept == ([] if expected == "old" else ["old"])
