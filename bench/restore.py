"""Restores a back-up and compares its rate with a plain copy: `python -m bench.restore [--gigabytes 10] [--folder FOLDER]`.

    fill      a data dir with the built-in PostgreSQL: one half in tables of incompressible rows, one half in blobs of 4 MB
    back up   with `gristmill backup`, to a folder on the same disk
    copy      the data dir with `cp -a`, then sync; the page cache is dropped before, where that is allowed
    restore   with `gristmill restore`, then sync; the same

The folder needs four times the size. The exit code is 1 if the restore is slower than half the rate of the copy. Run it on a machine that does
nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from gristmill.db import local_server
from tests.gristmill_process import environment

_BLOB = 4 << 20
_ROWS = 2_000  # of 8 KB each, in one statement
_FILL = """
insert into chunk (set_id, item_id, version, index, text, start, "end", embedding)
select %s, uuidv7(), 1, n, (select string_agg(md5(random()::text || n || m), '') from generate_series(1, 256) m), 0, 1, '[1]'
  from generate_series(1, %s) n"""


def fill(data: Path, gigabytes: float, cache: Path) -> None:
    """A data dir of this size."""
    env = environment(data, cache)
    subprocess.run(["gristmill", "base", "create", "large"], env=env, check=True, capture_output=True)
    half = int(gigabytes * 2**30 / 2)
    server = local_server.start(data)
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            row = connection.execute("select id from base").fetchone()
            assert row is not None
            while _size(data / "postgres") < half:
                connection.execute(_FILL, [row[0], _ROWS])
            for number in range(half // _BLOB):
                content = os.urandom(_BLOB)
                name = f"{number:064x}"
                path = data / "blobs" / name[:2] / name[2:]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                connection.execute(
                    "insert into blob (hash, size, name) values (%s, %s, %s)",
                    [number.to_bytes(32), _BLOB, name],
                )
            connection.execute("checkpoint")
    finally:
        server.close()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(command: Sequence[str], env: dict[str, str] | None = None) -> float:
    """Seconds of a command, until everything is on the disk."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        print("the page cache can't be dropped: both are measured with what it holds", file=sys.stderr)
    started = time.monotonic()
    subprocess.run(command, env=env, check=True, capture_output=True)
    os.sync()
    return time.monotonic() - started


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-restore-", dir=options.folder) as name:
        folder = Path(name)
        folder.chmod(0o755)
        data, cache = folder / "data", folder / "cache"
        fill(data, options.gigabytes, cache)
        size = _size(data)
        env = environment(data, cache)
        backed_up = measure(["gristmill", "backup", str(folder / "backups"), "--json"], env)
        copied = measure(["cp", "-a", str(data), str(folder / "copy")])
        restore = [
            "gristmill",
            "restore",
            str(folder / "backups"),
            "--data-dir",
            str(folder / "restored"),
            "--json",
        ]
        restored = measure(restore, env)
    rates = {"backup": backed_up, "copy": copied, "restore": restored}
    result = {
        name: {"seconds": round(seconds, 1), "MB/s": round(size / seconds / 1e6, 1)}
        for name, seconds in rates.items()
    }
    print(
        json.dumps(
            {"GB": round(size / 1e9, 2), **result, "restore / copy": round(copied / restored, 2)}, indent=1
        )
    )
    sys.exit(0 if restored <= 2 * copied else 1)


if __name__ == "__main__":
    main()
