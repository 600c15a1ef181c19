"""The lock of the server on a data dir. The kernel releases it when the process dies, unlike a pid file.

The processes that `gristmill serve` forks share the lock. If only the first of them was killed, the others are about to
end, and whoever wants the lock waits for that.
"""

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from gristmill.errors import SetupError

_LEFTOVERS_TIMEOUT = 10.0  # seconds until the processes of a killed server must have ended
_POLL = 0.02


def find_server_url(data_dir: Path) -> str | None:
    """The address of the server on `data_dir`, if one is running and ready."""
    try:
        with (data_dir / "serve.lock").open("rb") as file:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            return _parse(file.read()).get("url")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise SetupError(
            f"{data_dir} belongs to another user. Run the command as that user, or pass --url.",
            code="data_dir_not_writable",
        ) from error


class ServeLock:
    """The lock, held by this process; `announce_url` publishes the address once the server is ready."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def announce_url(self, url: str) -> None:
        """Make `find_server_url` return `url` from now on."""
        os.pwrite(self._fd, json.dumps({"url": url, "pid": os.getpid()}).encode(), 0)


@contextlib.contextmanager
def acquire(data_dir: Path) -> Generator[ServeLock]:
    """Be the one that serves `data_dir`; `SetupError` when another does."""
    with _translate_errors(data_dir):
        data_dir.mkdir(parents=True, exist_ok=True)
        fd = os.open(data_dir / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with _translate_errors(data_dir):
            if not _lock(fd):
                address = find_server_url(data_dir) or "an unknown address (it is still starting)"
                raise SetupError(
                    f"{data_dir} is already in use by a server at {address}. Stop that server, or choose another --data-dir.",
                    code="already_served",
                )
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid()}).encode(), 0)
        yield ServeLock(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _translate_errors(data_dir: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        code = "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "data_dir_not_writable"
        raise SetupError(
            f"The data dir {data_dir} is not writable: {error.strerror}. Choose another with --data-dir.",
            code=code,
        ) from error


def _lock(fd: int) -> bool:
    """Take the lock if it is free, or is about to be."""
    deadline = time.monotonic() + _LEFTOVERS_TIMEOUT
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _has_living_owner(fd) or time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        else:
            return True


def _has_living_owner(fd: int) -> bool:
    pid = _parse(os.pread(fd, 4096, 0)).get("pid")
    if not isinstance(pid, int):
        return True  # it is just starting
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _parse(text: bytes) -> dict[str, Any]:
    try:
        return json.loads(text or b"{}")
    except ValueError:  # it is being written
        return {}
