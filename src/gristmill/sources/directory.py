"""directory: one level of a folder, streamed in batches; who wants the whole tree lists each folder it is given.

    file, or a link to one            listed, with its size
    folder                            listed, not entered
    link to a folder                  left out: so no loop is possible; counted as linked_folder
    link to nothing, or to itself     listed with Gone broken_link
    may not be looked at, or entered  listed with Unreadable permission_denied
    the disk fails at this entry      listed without its size: whoever reads it finds out, and can try again
    name that is not UTF-8            listed with Unreadable undecodable_name, `name` made printable
    device, socket, pipe              left out; counted as special_file
    left out by the rules             left out (`ignore.py`)
    gone since the system named it    left out
    the folder itself                 raises Gone or Unreadable; Transient when the disk fails

One bad entry never ends the listing (S4-57). The order is the file system's, which is the same each time while the
folder does not change; within a batch, entries are sorted by name. No more than one batch is in memory, and all
that blocks runs in a thread. Below the root no link is followed to a folder even if one took a folder's place since.
"""

import contextlib
import errno
import os
import stat
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gristmill import faults
from gristmill.errors import Gone, Transient, Unreadable, WorkError
from gristmill.sources import thread
from gristmill.sources.ignore import Ignored, Rules

Kind = Literal["file", "directory"]


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a folder; with an `error`, one that can't be read. Path and name are always valid text."""

    kind: Kind
    path: Path
    name: str
    size: int | None = None
    error: WorkError | None = None


async def list_folder(
    path: Path, rules: Rules, root: Path, left_out: Counter[str] | None = None, batch: int = 500
) -> AsyncGenerator[list[Found]]:
    """The entries of the folder `path`, which is `root` or below it, in batches of at most `batch`.

    What is left out for what it is, not by a rule, is counted in `left_out`. Close it (`contextlib.aclosing`) when you leave before its end: it holds the folder open.
    """
    scan = _Scan(path, root, Counter() if left_out is None else left_out)
    try:
        await thread.run(lambda: scan.open(rules))
        await faults.point("directory.opened")
        while found := await thread.run(lambda: scan.take(batch)):
            yield found
            await faults.point("directory.batch_listed")
    finally:
        await thread.run(scan.close)


class _Scan:
    """A folder held open by its number, so that nothing can take its place under the listing."""

    def __init__(self, path: Path, root: Path, left_out: Counter[str]) -> None:
        self._path = path
        self._root = root
        self._left_out = left_out
        self._held = contextlib.ExitStack()

    def open(self, rules: Rules) -> None:
        """Open the folder and read its rules."""
        follow = 0 if self._path == self._root else os.O_NOFOLLOW
        try:
            self._folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | follow)
            self._held.callback(os.close, self._folder)
            self._entries = self._held.enter_context(os.scandir(self._folder))
        except OSError as error:
            raise self._told(error) from error
        self._ignored = Ignored.in_folder(rules, self._root, self._path)

    def take(self, batch: int) -> list[Found]:
        """The next entries that are not left out; none at the end."""
        found: list[Found] = []
        while len(found) < batch:
            try:
                entry = next(self._entries, None)
            except OSError as error:
                raise self._told(error) from error
            if entry is None:
                break
            if (one := self._look(entry)) is not None:
                found.append(one)
        found.sort(key=lambda one: one.name)
        return found

    def close(self) -> None:
        """Let go of the folder."""
        self._held.close()

    def _look(self, entry: os.DirEntry[str]) -> Found | None:
        name = printable(entry.name)
        path = self._path / name
        kind: Kind = "file"
        try:
            kind = "directory" if entry.is_dir(follow_symlinks=False) else "file"
            if self._ignored.leaves_out(entry.name, folder=kind == "directory"):
                return None
            if name != entry.name:
                told = f"The name of {path} is not UTF-8."
                return Found(kind, path, name, error=Unreadable(told, code="undecodable_name"))
            if kind == "directory":
                return self._folder_found(path, entry)
            status = entry.stat()
        except OSError as error:
            return self._failed(entry, kind, error)
        if stat.S_ISREG(status.st_mode):
            return Found("file", path, name, status.st_size)
        if stat.S_ISDIR(status.st_mode):
            self._left_out["linked_folder"] += 1
        else:
            self._left_out["special_file"] += 1
        return None

    def _folder_found(self, path: Path, entry: os.DirEntry[str]) -> Found:
        if os.access(entry.name, os.R_OK | os.X_OK, dir_fd=self._folder):
            return Found("directory", path, entry.name)
        os.stat(entry.name, dir_fd=self._folder, follow_symlinks=False)  # raises when it is gone
        return Found("directory", path, entry.name, error=_forbidden(path))

    def _failed(self, entry: os.DirEntry[str], kind: Kind, error: OSError) -> Found | None:
        path, name = self._path / printable(entry.name), printable(entry.name)
        if any(self._ignored.leaves_out(entry.name, folder=folder) for folder in (False, True)):
            return None  # it may be a folder or not: what somebody keeps out stays out
        failure: WorkError
        match error.errno:
            case errno.ENOENT | errno.ENOTDIR | errno.ELOOP if _is_link(entry):
                failure = Gone(f"{path} is a link to nothing.", code="broken_link")
            case errno.ENOENT | errno.ENOTDIR:
                return None
            case errno.EACCES | errno.EPERM:
                failure = _forbidden(path)
            case _:
                return Found(kind, path, name)  # it may pass: its own job looks, and tries again
        return Found(kind, path, name, error=failure)

    def _told(self, error: OSError) -> WorkError:
        path = printable(str(self._path))
        match error.errno:
            case errno.ENOENT | errno.ESTALE:
                return Gone(f"{path} is not there.")
            case errno.ENOTDIR | errno.ELOOP:
                return Unreadable(f"{path} is not a folder.", code="not_a_folder")
            case errno.EACCES | errno.EPERM:
                return _forbidden(self._path)
            case errno.ENAMETOOLONG:
                return Unreadable(f"{path}: {error.strerror}")
            case _:
                return Transient(f"{path}: {error.strerror}", code="source_io_error")


def _is_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink()
    except OSError:
        return False


def _forbidden(path: Path) -> Unreadable:
    return Unreadable(f"{printable(str(path))} may not be read by this process.", code="permission_denied")


def printable(name: str) -> str:
    """`name` itself if it is UTF-8, else with its other bytes written as `\\xNN`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
