"""Watch folders with the library watchfiles, where the system reports all changes below a folder. A thread waits for changes; folders
are added by others, and each addition starts the library again."""

import threading

from watchfiles._rust_notify import RustNotify

_DEBOUNCE, _STEP, _TIMEOUT = 400, 50, 5_000  # milliseconds


class RecursiveWatch:
    """The folders that one thread watches."""

    def __init__(self) -> None:
        self._is_over = False
        self._folders: set[str] = set()
        self._has_folders = threading.Event()
        self._current: tuple[RustNotify, threading.Event] | None = None  # the library, and what ends its wait
        self.ended: set[str] = set()  # stays empty: the library does not say

    def add(self, folder: str) -> None:
        """Watch a folder."""
        self._start({*self._folders, folder})

    def remove(self, folder: str) -> None:
        """Watch a folder no more."""
        self._start(self._folders - {folder})

    def wait(self) -> set[str]:
        """The paths that changed; empty after a while, or after an interruption."""
        self._has_folders.wait(_TIMEOUT / 1000)
        current = self._current
        if current is None or self._is_over:
            return set()
        notify, is_replaced = current
        try:
            changes = notify.watch(_DEBOUNCE, _STEP, _TIMEOUT, is_replaced)
        except Exception:
            if is_replaced.is_set():
                return set()
            raise
        return {path for _, path in changes} if isinstance(changes, set) else set()

    def interrupt(self) -> None:
        """End the wait, this one and all later ones."""
        self._is_over = True
        self._has_folders.set()
        if self._current is not None:
            self._current[1].set()

    def close(self) -> None:
        """End all watches."""
        self._start(set())

    def _start(self, folders: set[str]) -> None:
        if folders == self._folders:
            return
        # The new one begins before the old one ends.
        notify = RustNotify(sorted(folders), False, False, 0, True, False) if folders else None
        before, self._current = self._current, None if notify is None else (notify, threading.Event())
        self._folders = folders
        if notify is None:
            self._has_folders.clear()
        else:
            self._has_folders.set()
        if before is not None:
            before[1].set()
            before[0].close()
