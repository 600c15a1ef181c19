"""Data dirs for local servers; no test may leave a process running."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.conftest import memory_folder
from tests.db.local_server.users import processes, running_server, wait_until


@contextlib.contextmanager
def temporary_folder() -> Generator[Path]:
    # Not tmp_path: root's is not accessible to others, and too long for a socket. In memory where there is room, as initdb
    # writes 40 MB.
    path = Path(tempfile.mkdtemp(prefix="gm-", dir=memory_folder() or "/tmp"))
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
        wait_until(lambda: not processes(data_dir))
    finally:
        for pid in processes(data_dir):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def database_folder() -> Generator[Path]:
    with temporary_folder() as room:
        with running_server(room / "database"):
            pass
        yield room / "database"


@pytest.fixture
def data_dir(fresh_dir: Path, database_folder: Path) -> Path:
    """A data dir with a database, copied, which is faster than initdb."""
    subprocess.run(["cp", "-a", "--sparse=always", database_folder, fresh_dir], check=True)
    return fresh_dir
