"""A test's cluster ends with the tests that use it, however they end."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search.opensearch_guard import LOCK_NAME
from tests.wait_until import wait_until

# A user of a cluster: it holds the lock and has started the guard, and a process with a node's arguments.
_USER = """
import fcntl, subprocess, sys
from pathlib import Path
from tests.search.opensearch_cluster import start_guard
folder = Path(sys.argv[1])
lock = (folder / "users.lock").open("a")
fcntl.flock(lock, fcntl.LOCK_SH)
if "first" in sys.argv:
    start_guard(folder)
    node = [sys.executable, "-c", "import signal; signal.pause()", f"-Dopensearch.path.conf={folder}/node-0/config"]
    print(subprocess.Popen(node, start_new_session=True).pid, flush=True)
else:
    print("joined", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def users() -> Iterator[list["subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for user in started:
        user.kill()
        user.communicate()


def start_user(folder: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _USER, str(folder), *words],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(user: "subprocess.Popen[str]") -> str:
    assert user.stdout is not None
    return user.stdout.readline().strip()


async def test_nodes_end_and_files_go_when_the_last_user_is_killed(
    tmp_path: Path, users: list["subprocess.Popen[str]"]
) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    users.append(first := start_user(folder, "first"))
    node = Path("/proc") / first_line(first)
    users.append(second := start_user(folder))
    assert first_line(second) == "joined"
    assert (folder / LOCK_NAME).exists()
    first.kill()
    first.wait()
    assert is_running(node)
    second.kill()
    second.wait()

    async def is_gone() -> bool:
        return not folder.exists() and not is_running(node)

    await wait_until(is_gone)


def is_running(process: Path) -> bool:
    try:
        return "\nState:\tZ" not in (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
