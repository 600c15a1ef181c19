"""disk: opens paths of this machine's disk, for callers who may read only some of it.

    below a protected folder               PathNotAllowed, for everyone: our own data, /proc, /sys, /dev
    confined, and not below `folders`      PathNotAllowed, whether the path exists or not
    otherwise                              the operating system's OSError, or an open descriptor

A path is opened one component at a time, each relative to the one before and without following links. A link is read and
its target is walked in the same way. So what was checked is what is opened: a folder or file that someone replaces with a
link in the meantime leads nowhere else. Folders are compared by device and inode, so other spellings of a path (`..`, links,
bind mounts, upper and lower case) make no difference.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gristmill.errors import PathNotAllowed

SYSTEM_FOLDERS = (Path("/proc"), Path("/sys"), Path("/dev"))

_MAX_LINKS = 40  # the limit of Linux
# Entering a folder needs no permission to list it.
_ENTER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_Identity = tuple[int, int]  # device and inode


@dataclass(frozen=True)
class DiskAccess:
    """Which part of the disk may be read: what is below `folders` (None: everything), but nothing below `protected`."""

    folders: tuple[Path, ...] | None = None
    protected: tuple[Path, ...] = SYSTEM_FOLDERS

    @property
    def is_confined(self) -> bool:
        """Whether only some folders may be read."""
        return self.folders is not None

    def unconfined(self) -> "DiskAccess":
        """Access for the local user: to everything that is not protected."""
        return replace(self, folders=None)

    def check(self, path: Path) -> None:
        """Raise `PathNotAllowed` unless `path` may be read. It need not exist, and may be unreadable for other reasons."""
        with suppress(OSError):
            os.close(self._open(path, None))

    def open_file(self, path: Path) -> int:
        """Open a file for reading; the descriptor. Raises IsADirectoryError for a folder, and OSError with EINVAL for
        anything else that is not a regular file."""
        return self._open(path, _READ)

    def open_folder(self, path: Path, root: Path | None = None) -> int:
        """Open a folder for listing; the descriptor. Below `root`, links are not followed."""
        if root is None or path == root:
            return self._open(path, _LIST)
        folder = self.open_folder(root)
        for name in path.relative_to(root).parts:
            parent = folder
            try:
                folder = os.open(name, _LIST, dir_fd=parent)
            finally:
                os.close(parent)
            if _identity(os.fstat(folder)) in _identities(self.protected):
                os.close(folder)
                raise _protected_error(path)
        return folder

    def is_protected(self, status: os.stat_result) -> bool:
        """Whether this is the status of a protected folder."""
        return _identity(status) in _identities(self.protected)

    def _open(self, path: Path, flags: int | None) -> int:
        """Open `path` with these flags; None opens it without the right to read it."""
        protected = _identities(self.protected)
        allowed = None if self.folders is None else _identities(self.folders)
        with _Walk(path).start() as walk:
            try:
                for entered in walk.steps():
                    if entered in protected:
                        raise _protected_error(path)
                if flags is None or flags & os.O_DIRECTORY:
                    opened = walk.open_last(_ENTER if flags is None else flags)
                else:
                    opened = walk.open_last_file(flags)
            except OSError:
                if allowed is not None and not walk.is_below(allowed):
                    raise _outside_error(path) from None  # not even whether it exists
                raise
        if _identity(os.fstat(opened)) in protected:
            os.close(opened)
            raise _protected_error(path)
        if allowed is not None and not (walk.is_below(allowed) or _identity(os.fstat(opened)) in allowed):
            os.close(opened)
            raise _outside_error(path)
        return opened


EVERYWHERE = DiskAccess()  # but for the folders of the system


class _Walk:
    """The folders between `/` and a path, each held open while its entries are looked up."""

    def __init__(self, path: Path) -> None:
        self._pending = list(reversed(path.parts[1:]))
        self._folders: list[tuple[int, _Identity]] = []
        self._last = "."
        self._links_left = _MAX_LINKS

    @contextmanager
    def start(self) -> "Generator[_Walk]":
        """Open `/`; at the end of the block, close all folders. `is_below` still answers after that."""
        try:
            self._enter("/")
            yield self
        finally:
            for folder, _ in self._folders:
                os.close(folder)

    def steps(self) -> Iterable[_Identity]:
        """Enter folder after folder until only the last component is left, and yield the identity of each."""
        while self._pending:
            name = self._pending.pop()
            if name == "..":
                self._leave()
            elif not self._follow_link(name):
                if not self._pending:
                    self._last = name
                    return
                yield self._enter(name)
        self._last = "."

    def open_last(self, flags: int) -> int:
        """Open the last component. A link that has replaced it in the meantime is an error."""
        return os.open(self._last, flags, dir_fd=self._folders[-1][0])

    def open_last_file(self, flags: int) -> int:
        """The same, if it is a regular file: opening a pipe or a device could have effects."""
        status = os.stat(self._last, dir_fd=self._folders[-1][0], follow_symlinks=False)
        _require_file(status)
        opened = self.open_last(flags)
        try:
            _require_file(os.fstat(opened))
        except OSError:
            os.close(opened)
            raise
        return opened

    def is_below(self, folders: frozenset[_Identity]) -> bool:
        """Whether one of these folders was entered, and not left again."""
        return any(identity in folders for _, identity in self._folders)

    def _enter(self, name: str) -> _Identity:
        folder = os.open(name, _ENTER, dir_fd=self._folders[-1][0] if self._folders else None)
        identity = _identity(os.fstat(folder))
        self._folders.append((folder, identity))
        return identity

    def _leave(self) -> None:
        if len(self._folders) > 1:
            os.close(self._folders.pop()[0])

    def _follow_link(self, name: str) -> bool:
        """Whether `name` is a link; if so, its target comes next."""
        folder = self._folders[-1][0]
        if not stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        if self._links_left == 0:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self._links_left -= 1
        target = Path(os.readlink(name, dir_fd=folder))
        if target.is_absolute():
            while len(self._folders) > 1:
                self._leave()
        self._pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        return True


def _require_file(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino


def _identities(folders: Iterable[Path]) -> frozenset[_Identity]:
    """Those folders that exist, by device and inode."""
    identities: set[_Identity] = set()
    for folder in folders:
        with suppress(OSError):
            identities.add(_identity(folder.stat()))
    return frozenset(identities)


def _protected_error(path: Path) -> PathNotAllowed:
    return PathNotAllowed(
        f"{_printable(path)} is, or leads to, a folder that is never read: Gristmill's own data, /proc, /sys or /dev. "
        "Choose another path."
    )


def _outside_error(path: Path) -> PathNotAllowed:
    return PathNotAllowed(
        f"{_printable(path)} is not in a folder that requests with a key may read. Upload the file, add it without a key on "
        "the server's own machine, or ask the operator to add its folder to allowed_paths."
    )


def _printable(path: Path) -> str:
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
