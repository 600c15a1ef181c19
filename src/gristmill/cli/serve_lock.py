"""The lock of the server on a data dir. The kernel releases it when the process dies, unlike a pid file."""

import contextlib
import fcntl
import json
import os
from collections.abc import Generator
from pathlib import Path

from gristmill.errors import SetupError


def find_server_url(data_dir: Path) -> str | None:
    """The address of the server on `data_dir`, if one is running and ready."""
    try:
        with (data_dir / "serve.lock").open("rb") as file:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            return json.loads(file.read() or b"{}").get("url")
    except (FileNotFoundError, NotADirectoryError):
        return None


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
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        fd = os.open(data_dir / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SetupError(
            f"The data dir {data_dir} is not writable: {error.strerror}. Choose another with --data-dir.",
            code="data_dir_not_writable",
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            address = find_server_url(data_dir) or "an unknown address (it is still starting)"
            raise SetupError(
                f"{data_dir} is already in use by a server at {address}. Stop that server, or choose another --data-dir.",
                code="already_served",
            ) from None
        os.ftruncate(fd, 0)
        yield ServeLock(fd)
    finally:
        os.close(fd)
