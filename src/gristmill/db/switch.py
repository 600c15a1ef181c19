"""The switch from one PostgreSQL data directory to another: decided by one rename, finished by whoever comes next.

    write     `<folder>/switch.json` gets its name: from here on the new directory counts
    finish    the directories change places, in one step where the system can; then the file is removed

Killed before the first rename, the old directory is used; after it, every start finishes the switch before anything else. The old
directory stays next to the new one as `data.16`, named by its version.
"""

import contextlib
import ctypes
import json
import os
import sys
from pathlib import Path

from gristmill import faults
from gristmill.db.reaper import EXCLUSIVE, Lock

_MARK = "switch.json"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def begin_switch(folder: Path, new: Path, old_name: str) -> None:
    """Decide that `new` takes the place of the data directory, which is kept as `old_name`; then make it so."""
    temporary = folder / f"{_MARK}.new"
    with temporary.open("w") as file:
        json.dump({"new": str(new), "inode": new.stat().st_ino, "old": old_name}, file)
        file.flush()
        os.fsync(file.fileno())
    faults.blocking_point("upgrade.before_switch")
    temporary.replace(folder / _MARK)
    _sync_folder(folder)
    faults.blocking_point("upgrade.switch_decided")
    finish_switch(folder)


def finish_switch(folder: Path) -> None:
    """Finish a switch that was decided and interrupted; does nothing if there is none."""
    mark = folder / _MARK
    if not mark.exists():
        return
    lock = Lock(folder / "switch.lock")
    try:
        lock.acquire(EXCLUSIVE)
        if not mark.exists():
            return
        plan = json.loads(mark.read_text())
        data, new, old = folder / "data", Path(plan["new"]), folder / plan["old"]
        is_in_place = data.exists() and data.stat().st_ino == plan["inode"]
        if not is_in_place and data.exists() and not _exchange(data, new):
            data.rename(old)
        faults.blocking_point("upgrade.old_moved")
        if not data.exists():
            new.rename(data)
        elif new.exists():  # they have changed places
            new.rename(old)
        _sync_folder(folder)
        mark.unlink()
    finally:
        lock.close()


def old_copies(folder: Path) -> list[Path]:
    """Data directories that were replaced and kept."""
    return sorted(path for path in folder.glob("data.[0-9]*") if path.is_dir())


def _exchange(first: Path, second: Path) -> bool:
    """Let two directories change places in one step; False where the system can't."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(AttributeError):  # a C library without the function
        libc = ctypes.CDLL(None, use_errno=True)
        names = os.fsencode(first), os.fsencode(second)
        return libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0
    return False


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
