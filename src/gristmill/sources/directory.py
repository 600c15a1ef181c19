"""directory: lists a folder in batches, and with each batch the contents of subfolders that are small enough.

A batch has at most `batch` entries of the folder itself. Then the folders among them are entered, and the folders in those,
level by level, until the batch has `TREE_BATCH` entries or a second has passed. A folder that does not fit is listed without
its contents: list it by itself.

    file, or a link to one            listed, with its size
    folder                            listed, with its contents where there is room
    link to a folder                  left out, so that no loop is possible; counted as linked_folder
    link to nothing, or to itself     listed with SourceGone broken_link
    no permission to read or enter    listed with Unreadable permission_denied
    the disk fails at this entry      listed without its size: reading it later reports the error, and can be retried
    name that is not UTF-8            listed with Unreadable undecodable_name, `name` made printable
    device, socket, pipe              left out; counted as special_file
    link to what may not be read      left out; counted as link_outside (`disk.py`)
    protected folder                  left out; counted as protected_folder
    excluded by the ignore rules      left out (`ignore.py`)
    deleted during the listing        left out
    the folder itself                 raises SourceGone or Unreadable; Transient when the disk fails
    a subfolder that can't be listed  listed without its contents: listing it by itself reports the error

One bad entry never ends the listing (S4-57). The order is that of the file system, which stays the same while the
folder does not change; within a batch, entries are sorted by name. At most one batch is in memory, and blocking calls
run in a thread. Below the root, a link that replaced a folder in the meantime is not followed.
"""

import contextlib
import errno
import os
import stat
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from gristmill import faults
from gristmill.errors import PathNotAllowed, SourceGone, Transient, Unreadable, WorkError
from gristmill.sources import threads
from gristmill.sources.disk import EVERYWHERE, DiskAccess
from gristmill.sources.ignore import IgnoreMatcher, IgnoreRules

EntryKind = Literal["file", "directory"]

TREE_BATCH = 1_000  # entries of a batch, with those of subfolders
_DESCENT_SECONDS = 1.0  # of a slow disk; what is not listed by then is listed by itself


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """An entry of a folder; `error` is set if it can't be read. Path and name are always valid text."""

    kind: EntryKind
    path: Path
    name: str
    size: int | None = None
    error: WorkError | None = None
    contents: "FolderContents | None" = None  # of a folder that was listed with this one


@dataclass(frozen=True, slots=True)
class FolderContents:
    """All entries of a folder, and how many were left out for their type."""

    entries: list[DirectoryEntry]
    left_out: Counter[str] = field(default_factory=Counter[str])


async def list_folder(
    path: Path,
    rules: IgnoreRules,
    root: Path,
    left_out: Counter[str] | None = None,
    batch: int = 500,
    access: DiskAccess = EVERYWHERE,
) -> AsyncGenerator[list[DirectoryEntry]]:
    """The entries of the folder `path`, which is `root` or below it, in batches of at most `batch`, as far as `access`
    allows; with the contents of subfolders, at most `TREE_BATCH` entries in all.

    `left_out` counts the folder's own entries left out for their type, not by a rule. Close the iterator (`contextlib.aclosing`)
    if you stop early: it holds the folder open.
    """
    scan = _FolderScan(path, root, Counter() if left_out is None else left_out, access)
    try:
        await threads.run_blocking(lambda: scan.open(rules))
        await faults.point("directory.opened")
        while entries := await threads.run_blocking(lambda: scan.next_tree(batch, rules)):
            yield entries
            await faults.point("directory.batch_listed")
    finally:
        await threads.run_blocking(scan.close)


class _FolderScan:
    """A folder held open by its descriptor, so that nothing can replace it during the listing."""

    def __init__(self, path: Path, root: Path, left_out: Counter[str], access: DiskAccess) -> None:
        self._path = path
        self._root = root
        self._left_out = left_out
        self._access = access
        self._open_handles = contextlib.ExitStack()

    def open(self, rules: IgnoreRules) -> None:
        """Open the folder and read its ignore rules."""
        try:
            self._folder = self._access.open_folder(self._path, self._root)
            self._open_handles.callback(os.close, self._folder)
            self._entries = self._open_handles.enter_context(os.scandir(self._folder))
        except OSError as error:
            raise folder_error(self._path, error) from error
        self._ignored = IgnoreMatcher.for_folder(rules, self._root, self._path)

    def next_tree(self, batch: int, rules: IgnoreRules) -> list[DirectoryEntry]:
        """The next entries, with the contents of subfolders for which there is room and time."""
        entries = self.next_entries(batch)
        space, deadline = TREE_BATCH - len(entries), time.monotonic() + _DESCENT_SECONDS
        levels = deque([entries])
        while levels:
            level = levels.popleft()
            for place, entry in enumerate(level):
                if space <= 0 or time.monotonic() > deadline:
                    return entries
                if entry.kind == "directory" and entry.error is None:
                    contents = self._read_subfolder(entry.path, rules, space)
                    if contents is not None:
                        space -= len(contents.entries)
                        level[place] = replace(entry, contents=contents)
                        levels.append(contents.entries)
        return entries

    def _read_subfolder(self, path: Path, rules: IgnoreRules, space: int) -> FolderContents | None:
        """Everything in a folder below this one; None if that is more than `space`, or it can't be listed now."""
        left_out = Counter[str]()
        scan = _FolderScan(path, self._root, left_out, self._access)
        try:
            scan.open(rules)
            entries = scan.next_entries(space + 1)
        except WorkError:
            return None
        finally:
            scan.close()
        return FolderContents(entries, left_out) if len(entries) <= space else None

    def next_entries(self, batch: int) -> list[DirectoryEntry]:
        """The next entries that are not left out; empty at the end."""
        entries: list[DirectoryEntry] = []
        while len(entries) < batch:
            try:
                entry = next(self._entries, None)
            except OSError as error:
                raise folder_error(self._path, error) from error
            if entry is None:
                break
            if (listed := self._inspect(entry)) is not None:
                entries.append(listed)
        entries.sort(key=lambda listed: listed.name)
        return entries

    def close(self) -> None:
        """Close the folder."""
        self._open_handles.close()

    def _inspect(self, entry: os.DirEntry[str]) -> DirectoryEntry | None:
        name = printable_name(entry.name)
        path = self._path / name
        kind: EntryKind = "file"
        try:
            kind = "directory" if entry.is_dir(follow_symlinks=False) else "file"
            if self._ignored.is_ignored(entry.name, is_folder=kind == "directory"):
                return None
            if name != entry.name:
                message = f"The name of {path} is not UTF-8."
                return DirectoryEntry(kind, path, name, error=Unreadable(message, code="undecodable_name"))
            if kind == "directory":
                return self._folder_entry(path, entry)
            if entry.is_symlink():
                self._access.check(path)  # before its target is looked at
            status = entry.stat()
        except PathNotAllowed:
            self._left_out["link_outside"] += 1
            return None
        except OSError as error:
            return self._entry_with_error(entry, kind, error)
        if stat.S_ISREG(status.st_mode):
            return DirectoryEntry("file", path, name, status.st_size)
        if stat.S_ISDIR(status.st_mode):
            self._left_out["linked_folder"] += 1
        else:
            self._left_out["special_file"] += 1
        return None

    def _folder_entry(self, path: Path, entry: os.DirEntry[str]) -> DirectoryEntry | None:
        if self._access.is_protected(entry.stat(follow_symlinks=False)):
            self._left_out["protected_folder"] += 1
            return None
        if os.access(entry.name, os.R_OK | os.X_OK, dir_fd=self._folder):
            return DirectoryEntry("directory", path, entry.name)
        return DirectoryEntry("directory", path, entry.name, error=_permission_denied(path))

    def _entry_with_error(
        self, entry: os.DirEntry[str], kind: EntryKind, error: OSError
    ) -> DirectoryEntry | None:
        path, name = self._path / printable_name(entry.name), printable_name(entry.name)
        if any(self._ignored.is_ignored(entry.name, is_folder=folder) for folder in (False, True)):
            return None  # its type is unknown: what a rule excludes as either stays out
        failure: WorkError
        match error.errno:
            case errno.ENOENT | errno.ENOTDIR | errno.ELOOP if _is_link(entry):
                failure = SourceGone(f"{path} is a broken link.", code="broken_link")
            case errno.ENOENT | errno.ENOTDIR:
                return None
            case errno.EACCES | errno.EPERM:
                failure = _permission_denied(path)
            case _:
                return DirectoryEntry(
                    kind, path, name
                )  # the error may pass: the entry's own job will see, and retry
        return DirectoryEntry(kind, path, name, error=failure)


def folder_error(folder: Path, error: OSError) -> WorkError:
    """What an error of the operating system means for the folder."""
    path = printable_name(str(folder))
    match error.errno:
        case errno.ENOENT | errno.ESTALE:
            return SourceGone(f"{path} does not exist.")
        case errno.ENOTDIR | errno.ELOOP:
            return Unreadable(f"{path} is not a folder.", code="not_a_folder")
        case errno.EACCES | errno.EPERM:
            return _permission_denied(folder)
        case errno.ENAMETOOLONG:
            return Unreadable(f"{path}: {error.strerror}")
        case _:
            return Transient(f"{path}: {error.strerror}", code="source_io_error")


def _is_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink()
    except OSError:
        return False


def _permission_denied(path: Path) -> Unreadable:
    return Unreadable(
        f"{printable_name(str(path))} can't be read: permission denied.", code="permission_denied"
    )


def printable_name(name: str) -> str:
    """`name`, with the bytes that are not UTF-8 written as `\\xNN`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
