"""Watch folders by Linux's inotify: which paths below them change. A thread waits for changes; folders are added by others.

    a folder          is watched with every folder below it. Links to folders are not followed; what may not be entered is left out, and so are
                      version control, caches and installed packages (`ignore.py`), which have many folders and are not indexed
    a new folder      is watched, then reported: who reads it then finds what was saved there before
    a file            is reported when it is closed. One that stays open: when nothing was written for `SETTLED` seconds, at the
                      latest after `MAX_OPEN`. So half a copy is not read, nor a log at every line
    an added folder   is reported itself when changes were lost, because the system's queue of them is limited. If it was deleted or moved,
                      or the system has no room to watch what is new in it, its watch is over: then it is in `ended`, too

The system knows a folder by one number, whatever path leads to it: a change is reported at all paths by which it was added. Where the
system has no room for a folder, adding it raises OSError, and nothing of it is watched.
"""

import ctypes
import errno
import os
import select
import struct
import threading
import time
from collections.abc import Collection
from typing import Any

from gristmill.sources.ignore import BUILT_IN_FOLDERS

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x4000_0000
_ONLY_FOLDERS, _NO_LINK = 0x0100_0000, 0x0200_0000
_IN_FOLDER = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_EVENTS = _IN_FOLDER | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
_HEADER = struct.Struct("iIII")
_BUFFER = 65_536
_NO_ROOM = {
    errno.ENOSPC: "its limit of watched folders is reached",
    errno.ENOMEM: "it has no memory for that",
}

SETTLED, MAX_OPEN = 1.0, 30.0
_QUIET, _LONGEST_BURST = 0.05, 0.4  # seconds in which further changes are collected


class Inotify:
    """The folders that one thread watches."""

    def __init__(self, libc: Any = None) -> None:
        self._libc = libc or ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "its limit of watches (max_user_instances) is reached")
        self._interrupted, self._interrupt = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        self._poll.register(self._interrupted, select.POLLIN)
        self._lock = threading.RLock()  # of what follows
        self._roots: set[str] = set()
        self._paths: dict[int, list[str]] = {}  # by the number of a folder's watch
        self._numbers: dict[str, int] = {}
        self._changed: set[str] = set()
        self._open: dict[str, tuple[float, float]] = {}  # by file: when it was first written to, and last
        self.ended: set[str] = set()

    def add(self, folder: str) -> None:
        """Watch a folder, which may be a link to one."""
        with self._lock:
            self._roots.add(folder)
            self.ended.discard(folder)
        try:
            self._add_tree(folder)
        except OSError:
            self.remove(folder)
            raise

    def remove(self, folder: str) -> None:
        """Watch a folder no more, but for what is in another one."""
        with self._lock:
            self._roots.discard(folder)
            self.ended.discard(folder)
            # What is behind a link is not watched by a folder that the link is in.
            is_link = os.path.islink(folder)  # noqa: PTH114
            self._drop_tree(folder, {root for root in self._roots if not is_link or _is_within(root, folder)})

    def wait(self) -> set[str]:
        """The paths that changed, once there are any; empty after an interruption."""
        while not self._changed:
            if self._wait_for_events(self._until_settled()):
                return set()
            self._read_events()
            self._take_settled()
        deadline = time.monotonic() + _LONGEST_BURST
        while time.monotonic() < deadline and not self._wait_for_events(_QUIET) and self._read_events():
            pass
        changed, self._changed = self._changed, set()
        return changed

    def interrupt(self) -> None:
        """End the wait, this one and all later ones."""
        os.write(self._interrupt, b"\0")

    def close(self) -> None:
        """End all watches."""
        for descriptor in (self._descriptor, self._interrupted, self._interrupt):
            os.close(descriptor)

    # ── folders ──────────────────────────────────────────────────────────────────────────────────────────

    def _add_tree(self, top: str) -> None:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            # Watched first: a folder that is created meanwhile is reported, or found.
            if self._add_folder(folder):
                try:
                    with os.scandir(folder) as entries:
                        waiting += [
                            entry.path
                            for entry in entries
                            if entry.name not in BUILT_IN_FOLDERS and entry.is_dir(follow_symlinks=False)
                        ]
                except OSError:  # it is gone, or may be entered but not read
                    pass

    def _add_folder(self, folder: str) -> bool:
        with self._lock:
            flags = _EVENTS if folder in self._roots else _EVENTS | _NO_LINK
            number: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), flags)
            if number < 0:
                error = ctypes.get_errno()
                if error in _NO_ROOM:
                    raise OSError(error, _NO_ROOM[error])
                return False
            if self._numbers.get(folder) != number:
                self._drop_folder(folder)
                self._numbers[folder] = number
                self._paths.setdefault(number, []).append(folder)
            return True

    def _drop_tree(self, top: str, spared: Collection[str] = ()) -> None:
        for folder in [path for path in self._numbers if _is_within(path, top)]:
            if not any(_is_within(folder, other) for other in spared):
                self._drop_folder(folder)

    def _drop_folder(self, folder: str) -> None:
        number = self._numbers.pop(folder, None)
        if number is None:
            return
        paths = self._paths[number]
        paths.remove(folder)
        if not paths:
            del self._paths[number]
            self._libc.inotify_rm_watch(self._descriptor, number)

    def _end(self, root: str) -> None:
        self.ended.add(root)
        self._changed.add(root)

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────

    def _wait_for_events(self, seconds: float | None) -> bool:
        """Wait for events; whether it was interrupted."""
        ready = self._poll.poll(None if seconds is None else max(0.0, seconds) * 1000)
        return any(descriptor == self._interrupted for descriptor, _ in ready)

    def _read_events(self) -> bool:
        """Note what the system reports; False if that is nothing."""
        try:
            data = os.read(self._descriptor, _BUFFER)
        except BlockingIOError:
            return False
        place = 0
        while place < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, place)
            place += _HEADER.size
            name = os.fsdecode(data[place : place + length].rstrip(b"\0"))
            place += length
            with self._lock:
                self._note(number, mask, name)
        return True

    def _note(self, number: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            for root in self._roots - self.ended:
                self._watch_new(root)
                self._changed.add(root)
        paths = self._paths.get(number, [])
        if mask & (_IGNORED | _DELETE_SELF | _MOVE_SELF):
            for root in self._roots.intersection(paths):
                self._end(root)
            if mask & _IGNORED:
                for path in self._paths.pop(number, []):
                    del self._numbers[path]
            return
        for folder in list(paths):
            path = os.path.join(folder, name) if name else folder  # noqa: PTH118  -- any bytes that a name may have
            if mask & _IS_FOLDER:
                self._note_folder(path, mask)
            else:
                self._note_file(path, mask)

    def _note_folder(self, path: str, mask: int) -> None:
        self._changed.add(path)
        if mask & _MOVED_FROM:
            self._drop_tree(path)
            for root in [root for root in self._roots if _is_within(root, path)]:
                self._end(root)
        elif mask & (_CREATE | _MOVED_TO) and os.path.basename(path) not in BUILT_IN_FOLDERS:  # noqa: PTH119
            self._watch_new(path)

    def _watch_new(self, folder: str) -> None:
        try:
            self._add_tree(folder)
        except OSError:
            for root in [root for root in self._roots if _is_within(folder, root)]:
                self._end(root)

    def _note_file(self, path: str, mask: int) -> None:
        now = time.monotonic()
        if mask & (_CREATE | _MODIFY) or (mask & _ATTRIB and path in self._open):
            self._open[path] = (self._open.get(path, (now, now))[0], now)
        else:
            self._open.pop(path, None)
            self._changed.add(path)

    def _until_settled(self) -> float | None:
        if not self._open:
            return None
        return min(map(_report_time, self._open.values())) - time.monotonic()

    def _take_settled(self) -> None:
        now = time.monotonic()
        settled = [path for path, times in self._open.items() if _report_time(times) <= now]
        for path in settled:
            del self._open[path]
        self._changed.update(settled)


def _report_time(times: tuple[float, float]) -> float:
    first, last = times
    return min(last + SETTLED, first + MAX_OPEN)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
