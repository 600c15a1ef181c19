"""Ends a test's OpenSearch cluster: kills its nodes and removes its folder once nobody holds the lock in that folder.

The users of a cluster share the lock. The kernel releases it when they end, however that happens. Run with the folder as the
only argument.
"""

import fcntl
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import psutil

LOCK_NAME = "users.lock"


def end_cluster(folder: Path) -> None:
    """Wait for the lock, then kill every process that was started with files of the folder, and remove it."""
    with (folder / LOCK_NAME).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        nodes = [process for process in psutil.process_iter(["name", "cmdline"]) if _is_node(process, folder)]
        for node in nodes:
            with suppress(psutil.NoSuchProcess):
                node.kill()
        psutil.wait_procs(nodes)
        shutil.rmtree(folder, ignore_errors=True)


def _is_node(process: psutil.Process, folder: Path) -> bool:
    arguments: list[str] = process.info["cmdline"] or []
    return any(argument.startswith(f"-Dopensearch.path.conf={folder}/") for argument in arguments)


if __name__ == "__main__":
    end_cluster(Path(sys.argv[1]))
