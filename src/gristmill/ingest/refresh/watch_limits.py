"""Whether a folder can be watched from this machine, and is cheap enough for it. Blocks: run it in a thread.

    it is not on this machine, or can't be read     folder_not_here
    on a network file system                        network_folder: other machines' changes are not reported
    more folders below it than the limit            too_many_folders: the operating system counts each one

Folders that the built-in patterns leave out don't count: they are not watched (`inotify.py`). A folder that someone wants watched is
watched on a network file system too, and has a higher limit.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from gristmill.errors import PathNotAllowed, Unreadable, WorkError
from gristmill.sources.directory import folder_error
from gristmill.sources.disk import DiskAccess
from gristmill.sources.ignore import BUILT_IN_FOLDERS

CHEAP_FOLDERS = 20_000  # folders below one that is watched without being asked
_NETWORK_TYPES = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "fuse.sshfs",
    "fuse.s3fs",
    "fuse.rclone",
    "ceph",
    "glusterfs",
    "afs",
)
_MAX_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
_MOUNTS = Path("/proc/self/mountinfo")


def check_watchable(path: Path, access: DiskAccess, *, is_wanted: bool) -> WorkError | None:
    """Why a folder can't be watched, or None if it can."""
    try:
        os.close(access.open_folder(path))
    except PathNotAllowed as error:
        return Unreadable(error.message, code="folder_not_here")
    except OSError as error:
        return Unreadable(
            f"{folder_error(path, error).message} Workers on other machines may see it.",
            code="folder_not_here",
        )
    kind = file_system_of(path, _read_mounts())
    if kind.startswith(_NETWORK_TYPES) and not is_wanted:
        return Unreadable(
            f"{path} is on a network file system ({kind}), which does not report changes that other machines make. It is checked"
            " by its refresh schedule.",
            code="network_folder",
        )
    limit = watch_limit(is_wanted)
    if count_folders(path, limit) > limit:
        return Unreadable(
            f"{path} has more than {limit:,} folders. It is checked by its refresh schedule. Set `watch` to true to watch it"
            " all the same, and raise the system's limit (fs.inotify.max_user_watches) if that is reached.",
            code="too_many_folders",
        )
    return None


def watch_limit(is_wanted: bool) -> int:
    """How many folders one watch may take."""
    try:
        system_limit = int(_MAX_WATCHES.read_text())
    except (OSError, ValueError):  # not Linux
        return 1_000_000 if is_wanted else CHEAP_FOLDERS
    return system_limit if is_wanted else min(CHEAP_FOLDERS, system_limit // 4)


def count_folders(path: Path, limit: int) -> int:
    """How many folders below a path are watched, counted up to one more than `limit`."""
    count = 0
    for _, folders, _ in os.walk(path):
        folders[:] = [name for name in folders if name not in BUILT_IN_FOLDERS]
        count += len(folders)
        if count > limit:
            break
    return count


def file_system_of(path: Path, mounts: Sequence[str]) -> str:
    """The type of the file system that a path is on, by the lines of /proc/self/mountinfo; empty if unknown."""
    best, kind = "", ""
    resolved = str(path.resolve())
    for line in mounts:
        fields, _, details = line.partition(" - ")
        columns, kinds = fields.split(), details.split()
        if len(columns) < 5 or not kinds:
            continue
        mount = columns[4].replace("\\040", " ")
        is_above = resolved == mount or resolved.startswith(mount.rstrip("/") + "/")
        if is_above and len(mount) >= len(best):
            best, kind = mount, kinds[0]
    return kind


def _read_mounts() -> list[str]:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
