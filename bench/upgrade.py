"""Upgrades a data dir with kill -9 at every step: `python -m bench.upgrade [--rows 20000]`.

A data dir with PostgreSQL 16 is upgraded to the version of this release, killed at each fault point in turn. After each kill: the old database is
used as before, or the new one, with every row, whatever starts next. Then once without a kill, with its time.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from gristmill.db import cluster, local_server, reaper, upgrade
from gristmill.db.migrate import migrate
from gristmill.db.programs import MAJOR
from tests.db.test_upgrade import OLD, init_old_database
from tests.gristmill_process import environment

POINTS = (
    "upgrade.started",
    "upgrade.copied",
    "upgrade.compared",
    "upgrade.stopped",
    "upgrade.before_switch",
    "upgrade.switch_decided",
    "upgrade.old_moved",
)
_DATA = """
with new_base as (insert into base (name, embedder, embedder_identity, dimensions) values ('b', 'e', 'i', 384) returning id)
insert into chunk (set_id, item_id, version, index, text, start, "end", embedding)
select (select id from new_base), uuidv7(), 1, n, repeat(md5(n::text), 20), 0, 1, array_fill(0.5::real, array[384])::halfvec
  from generate_series(1, %s) n"""


def create(data_dir: Path, rows: int) -> None:
    """A data dir with the old PostgreSQL and so many rows."""
    original = cluster.Cluster._init_database  # pyright: ignore[reportPrivateUsage]
    cluster.Cluster._init_database = init_old_database  # pyright: ignore[reportPrivateUsage]
    try:
        server = local_server.start(data_dir, major=OLD, extra_config={"fsync": "off"})
    finally:
        cluster.Cluster._init_database = original  # pyright: ignore[reportPrivateUsage]
    asyncio.run(migrate(server.url))
    with psycopg.connect(server.url) as connection:
        connection.execute(_DATA, [rows])
    server.close()


def read(data_dir: Path) -> tuple[int, int]:
    """The version that is used, and its rows."""
    version = upgrade.database_version(data_dir)
    assert version is not None
    server = local_server.start(data_dir, major=version)
    try:
        with psycopg.connect(server.url) as connection:
            row = connection.execute("select count(*) from chunk").fetchone()
    finally:
        server.close()
    assert row is not None
    return version, row[0]


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    rows = parser.parse_args().rows
    failures = 0
    with tempfile.TemporaryDirectory(prefix="gristmill-upgrade-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        create(folder / "original", rows)
        for number, point in enumerate((*POINTS, None)):
            data_dir = folder / str(number)  # a killed PostgreSQL may still be leaving the one before
            shutil.copytree(folder / "original", data_dir, symlinks=True)
            env = environment(data_dir, folder / "cache", faults=f"{point}=kill" if point else "")
            started = time.monotonic()
            ended = subprocess.run(
                ["gristmill", "upgrade", "--json"], env=env, capture_output=True, check=False
            )
            seconds = time.monotonic() - started
            while not reaper.is_stopped(data_dir / "postgres"):
                time.sleep(0.05)
            version, count = read(data_dir)
            expected = OLD if point in POINTS[:5] else MAJOR
            is_right = (version, count) == (expected, rows) and ended.returncode == (-9 if point else 0)
            failures += not is_right
            report = {
                "killed at": point,
                "version": version,
                "rows": count,
                "seconds": round(seconds, 1),
                "right": is_right,
            }
            print(json.dumps(report), flush=True)
            shutil.rmtree(data_dir, ignore_errors=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
