"""A watch of the operating system over several folders, in a thread of its own: reports changed paths to the event loop.

It ends with an error when a file is saved whose name is not UTF-8, which the library can't pass on. Then it counts as outdated: it is
made again, and the folders are compared.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from watchfiles._rust_notify import RustNotify

log = logging.getLogger(__name__)

_DEBOUNCE, _STEP, _TIMEOUT = 400, 50, 5_000  # milliseconds
_SHORTEST_LIFE = 10.0  # seconds before a watch that has ended with an error is made again

Report = Callable[[set[Path]], None]


class SystemWatch:
    """Reports the paths that change below folders until it is stopped. Folders that are missing are left out."""

    def __init__(self, paths: Sequence[Path], report: Report, loop: asyncio.AbstractEventLoop) -> None:
        self._report, self._loop, self._stopping = report, loop, threading.Event()
        self._started_at, self._has_failed = time.monotonic(), False
        self._identities = {path: _identity(path) for path in paths}
        present = [str(path) for path, identity in self._identities.items() if identity is not None]
        self._notify = RustNotify(present, False, False, 0, True, True) if present else None
        self._thread = threading.Thread(target=self._run, name="folder watch", daemon=True)
        self._thread.start()

    @classmethod
    async def start(cls, paths: Sequence[Path], report: Report) -> Self:
        """Watch these folders. Raises OSError or RuntimeError when the operating system refuses."""
        return await asyncio.to_thread(cls, paths, report, asyncio.get_running_loop())

    async def is_outdated(self) -> bool:
        """Whether a folder is another one by now, or is there again; or the watch has ended."""
        if self._has_failed and time.monotonic() - self._started_at >= _SHORTEST_LIFE:
            return True
        return await asyncio.to_thread(self._has_changed_folders)

    async def stop(self) -> None:
        """Stop reporting."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)
        if self._notify is not None:
            self._notify.close()

    def _has_changed_folders(self) -> bool:
        identities = {path: _identity(path) for path in self._identities}
        has_changed = any(
            now is not None and now != self._identities[path] for path, now in identities.items()
        )
        # One that was missing counts as another one: nothing is known of what changed in it meanwhile.
        self._identities |= {path: None for path, now in identities.items() if now is None}
        return has_changed

    def _run(self) -> None:
        while self._notify is not None and not self._stopping.is_set():
            try:
                changes = self._notify.watch(_DEBOUNCE, _STEP, _TIMEOUT, self._stopping)
            except Exception as error:  # whatever it is, the watch is over
                log.warning("the watch of folders ended, and is begun again", extra={"error": str(error)})
                self._has_failed = True
                return
            if isinstance(changes, set):
                paths = {Path(path) for _, path in changes}
                try:
                    self._loop.call_soon_threadsafe(self._report, paths)
                except RuntimeError:  # the loop has ended
                    return


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
