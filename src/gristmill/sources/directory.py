"""directory: lists a folder in batches, and with each batch the trees of its subfolders.

A batch has at most `batch` entries of the folder itself, and with the contents of the folders among them at most `TREE_BATCH`
entries. A tree that does not fit in what is left of a batch is the first of the next one. Of a tree that is larger than a
batch, the folders that do not fit are listed without their contents: list them by themselves. The same holds for what can't
be listed within a second.

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
folder does not change; within a batch, entries are sorted by name. At most two batches are in memory, and blocking calls
run in a thread. Below the root, a link that replaced a folder in the meantime is not followed.
"""

import contextlib
import errno
import os
import stat
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence
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
_DESCENT_ENTRIES = (
    4  # times `TREE_BATCH`: entries that are looked at for one batch, with those that don't fit in it
)
_FINE_STEP, _COARSE_STEP = 20_000_000, 2_000_000_000  # nanoseconds between two times of a file system's clock
_MAX_DEPTH = 64  # a folder that is nested deeper is listed by itself


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """An entry of a folder; `error` is set if it can't be read. Path and name are always valid text."""

    kind: EntryKind
    path: Path
    name: str
    size: int | None = None
    error: WorkError | None = None
    contents: "FolderContents | None" = None  # of a folder that was listed with this one
    fingerprint: str | None = field(
        default=None, compare=False
    )  # of a file: equal as long as it is unchanged


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


async def read_folders(
    folders: Sequence[tuple[Path, frozenset[str] | None]],
    rules: IgnoreRules,
    root: Path,
    access: DiskAccess = EVERYWHERE,
) -> list[FolderContents | WorkError]:
    """For each folder its own entries, all or those of these names, without the contents of subfolders; or why it can't be
    listed."""

    def read(path: Path, names: frozenset[str] | None) -> FolderContents | WorkError:
        scan = _FolderScan(path, root, Counter(), access)
        try:
            scan.open(rules)
            return FolderContents(scan.entries_by_name(names))
        except WorkError as error:
            return error
        finally:
            scan.close()

    return await threads.run_blocking(lambda: [read(path, names) for path, names in folders])


@dataclass(frozen=True)
class _FolderTree:
    """A folder's contents with those of its subfolders, how many entries that is, and whether there was space for all."""

    contents: FolderContents | None
    size: int
    fits: bool


_NOT_ENTERED = _FolderTree(None, 0, fits=True)  # listed by itself, whatever its size


class _Descent:
    """How far subfolders may be entered for one batch."""

    def __init__(self) -> None:
        self.entries = _DESCENT_ENTRIES * TREE_BATCH
        self._deadline = time.monotonic() + _DESCENT_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether enough entries were looked at, or the time is up."""
        return self.entries <= 0 or time.monotonic() > self._deadline


class _FolderScan:
    """A folder held open by its descriptor, so that nothing can replace it during the listing."""

    def __init__(self, path: Path, root: Path, left_out: Counter[str], access: DiskAccess) -> None:
        self._path = path
        self._root = root
        self._left_out = left_out
        self._access = access
        self._open_handles = contextlib.ExitStack()
        self._waiting: deque[DirectoryEntry] = deque()  # for the next batch; the first may have its contents

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
        """The next entries, with the trees of subfolders for which there is room and time; empty at the end."""
        entries: list[DirectoryEntry] = []
        space, descent = TREE_BATCH, _Descent()
        while len(entries) < batch:
            self._waiting = self._waiting or deque(self.next_entries(batch - len(entries)))
            if not self._waiting:
                break
            entry, size = self._waiting.popleft(), 0
            if entry.contents is not None:
                size = _tree_size(entry.contents)
            elif entry.kind == "directory" and entry.error is None:
                tree = self._read_tree(entry.path, rules, TREE_BATCH - 1, descent)
                size, entry = tree.size, replace(entry, contents=tree.contents)
            if entries and entry.contents is not None and 1 + size > space:
                self._waiting.appendleft(entry)
                break
            entries.append(entry)
            space -= 1 + size
        entries.sort(key=lambda listed: listed.name)
        return entries

    def _read_tree(
        self, path: Path, rules: IgnoreRules, space: int, descent: "_Descent", depth: int = 1
    ) -> "_FolderTree":
        """The folder's contents with those of its subfolders, at most `space` entries."""
        if depth > _MAX_DEPTH or descent.is_over:
            return _NOT_ENTERED
        try:
            contents = self._read_subfolder(path, rules, space)
        except WorkError:
            return _NOT_ENTERED
        descent.entries -= len(contents.entries)
        left, fits = space - len(contents.entries), True
        if left < 0:
            return _FolderTree(None, 0, fits=False)
        for place, entry in enumerate(contents.entries):
            if entry.kind == "directory" and entry.error is None:
                below = self._read_tree(entry.path, rules, left, descent, depth + 1)
                fits = fits and below.fits
                # A part of a tree is worth it only if the tree is large: otherwise each folder of the rest would be a job.
                if below.fits or 2 * below.size > TREE_BATCH:
                    contents.entries[place] = replace(entry, contents=below.contents)
                    left -= below.size
        return _FolderTree(contents, space - left, fits)

    def _read_subfolder(self, path: Path, rules: IgnoreRules, space: int) -> FolderContents:
        """Everything in a folder below this one, or `space + 1` of its entries."""
        left_out = Counter[str]()
        scan = _FolderScan(path, self._root, left_out, self._access)
        try:
            scan.open(rules)
            return FolderContents(scan.next_entries(space + 1), left_out)
        finally:
            scan.close()

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

    def entries_by_name(self, names: frozenset[str] | None) -> list[DirectoryEntry]:
        """All entries that are not left out, or those of these names. Others cost no look at the disk."""
        try:
            return [
                listed
                for entry in self._entries
                if (names is None or entry.name in names) and (listed := self._inspect(entry)) is not None
            ]
        except OSError as error:
            raise folder_error(self._path, error) from error

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
            can_read = os.access(name, os.R_OK, dir_fd=self._folder)
            error = None if can_read else _permission_denied(path)
            return DirectoryEntry(
                "file", path, name, status.st_size, error, fingerprint=fingerprint_of(status)
            )
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


def fingerprint_of(status: os.stat_result) -> str:
    """Device, inode, size and time of the last change of a file: they stay the same when it is moved.

    A file that was changed a moment ago may be changed again without a new time, because the clock of a file system advances in
    steps of up to two seconds. Its fingerprint is marked, so that the next comparison reads it once more."""
    step = _COARSE_STEP if status.st_mtime_ns % 1_000_000_000 == 0 else _FINE_STEP
    is_recent = time.time_ns() - status.st_mtime_ns < step
    mark = "?" if is_recent else ""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}{mark}"


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


def _tree_size(contents: FolderContents) -> int:
    """How many entries a folder has, with those of its subfolders."""
    below = sum(_tree_size(entry.contents) for entry in contents.entries if entry.contents is not None)
    return len(contents.entries) + below


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
