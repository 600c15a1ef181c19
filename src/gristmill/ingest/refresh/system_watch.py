"""A watch of the operating system over several folders, in a thread of its own: reports changed paths to the event loop.

    Linux             `inotify.py`
    other systems     the library watchfiles (`recursive_watch.py`)

A path that is not UTF-8 is reported as the nearest folder above it that is. An error that nothing should cause ends the thread; then
the watch is over, and has to be begun again.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol, Self

from gristmill.ingest.refresh.inotify import Inotify
from gristmill.ingest.refresh.recursive_watch import RecursiveWatch

log = logging.getLogger(__name__)

_SHORTEST_LIFE = 10.0  # seconds before a watch that has ended with an error is made again

Report = Callable[[set[Path]], None]
_Identity = tuple[int, int]  # device and inode


class Notifier(Protocol):
    """What reports changes in folders; `ended` has those that are no longer watched."""

    ended: set[str]

    def add(self, folder: str) -> None:
        """Watch a folder. Raises OSError or RuntimeError when the operating system refuses."""
        ...

    def remove(self, folder: str) -> None:
        """Watch a folder no more."""
        ...

    def wait(self) -> set[str]:
        """The paths that changed; empty after a while, or after an interruption."""
        ...

    def interrupt(self) -> None:
        """End the wait."""
        ...

    def close(self) -> None:
        """End all watches."""
        ...


def create_notifier() -> Notifier:
    """What this operating system has."""
    return Inotify() if sys.platform == "linux" else RecursiveWatch()


class SystemWatch:
    """Reports the paths that change below folders until it is stopped. Folders that are missing are left out."""

    def __init__(self, report: Report, loop: asyncio.AbstractEventLoop) -> None:
        self._report, self._loop, self._stopping = report, loop, threading.Event()
        self._started_at, self._has_failed = time.monotonic(), False
        self._lock = threading.Lock()  # of which folders are watched
        self._identities: dict[Path, _Identity | None] = {}  # None: it is not watched
        self._notifier = create_notifier()
        self._thread = threading.Thread(target=self._run, name="folder watch", daemon=True)
        self._thread.start()

    @classmethod
    async def start(cls, paths: Collection[Path], report: Report) -> Self:
        """Watch these folders. Raises OSError or RuntimeError when the operating system refuses."""
        watch = cls(report, asyncio.get_running_loop())
        try:
            await watch.follow(paths)
        except BaseException:
            await watch.stop()
            raise
        return watch

    @property
    def is_over(self) -> bool:
        """Whether it has ended with an error, and may be begun again."""
        return self._has_failed and time.monotonic() - self._started_at >= _SHORTEST_LIFE

    async def follow(self, paths: Collection[Path]) -> None:
        """Watch these folders, and no others. Raises OSError or RuntimeError when the operating system refuses one of those that are
        new; then the folders of before are watched."""
        await asyncio.to_thread(self._follow, set(paths))

    async def find_outdated(self) -> list[Path]:
        """Folders that are other ones by now, or are there again."""
        return await asyncio.to_thread(self._find_outdated)

    async def renew(self, path: Path) -> None:
        """Watch an outdated folder again. Raises OSError or RuntimeError when the operating system refuses."""
        await asyncio.to_thread(self._renew, path)

    async def stop(self) -> None:
        """Stop reporting."""
        self._stopping.set()
        self._notifier.interrupt()
        await asyncio.to_thread(self._thread.join)
        self._notifier.close()

    def _follow(self, paths: set[Path]) -> None:
        with self._lock:
            added = paths - self._identities.keys()
            try:
                for path in added:
                    self._add(path)
            except BaseException:
                for path in added:
                    self._remove(path)
                raise
            for path in self._identities.keys() - paths:
                self._remove(path)

    def _find_outdated(self) -> list[Path]:
        outdated: list[Path] = []
        with self._lock:
            for path, known in self._identities.items():
                identity = _identity(path)
                if identity is None:  # nothing is known of what changes in it until it is there again
                    self._identities[path] = None
                elif identity != known or str(path) in self._notifier.ended:
                    outdated.append(path)
        return outdated

    def _renew(self, path: Path) -> None:
        with self._lock:
            self._notifier.remove(str(path))
            self._add(path)

    def _add(self, path: Path) -> None:
        self._identities[path] = None
        if (identity := _identity(path)) is not None:
            self._notifier.add(str(path))
            self._identities[path] = identity

    def _remove(self, path: Path) -> None:
        self._identities.pop(path, None)
        self._notifier.remove(str(path))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                changed = self._notifier.wait()
                if changed:
                    self._loop.call_soon_threadsafe(self._report, set(map(_valid_path, changed)))
            except Exception as error:  # whatever it is, the watch is over; or so is the loop
                log.warning("the watch of folders ended, and is begun again", extra={"error": str(error)})
                self._has_failed = True
                return


def _valid_path(path: str) -> Path:
    """A path, or the nearest folder above it whose path is UTF-8."""
    valid = path.encode("utf-8", "surrogateescape")
    while not _is_utf8(valid):
        valid = valid.rpartition(b"/")[0]
    return Path(valid.decode() or "/")


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def _identity(path: Path) -> _Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
