"""An operating system that refuses to watch folders of some names, for whatever reason."""

import ctypes
import os
from pathlib import Path


class RefusingSystem:
    """The functions of inotify, but for the folders that are refused with this error."""

    def __init__(self, error: int, *names: str) -> None:
        self._libc, self._error, self._names = ctypes.CDLL(None, use_errno=True), error, names

    def inotify_init1(self, flags: int) -> int:
        """As the system."""
        return self._libc.inotify_init1(flags)

    def inotify_rm_watch(self, descriptor: int, number: int) -> int:
        """As the system."""
        return self._libc.inotify_rm_watch(descriptor, number)

    def inotify_add_watch(self, descriptor: int, path: bytes, flags: int) -> int:
        """Refuse folders of these names."""
        if Path(os.fsdecode(path)).name in self._names:
            ctypes.set_errno(self._error)
            return -1
        return self._libc.inotify_add_watch(descriptor, path, flags)
