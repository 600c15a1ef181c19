"""A file on this machine's disk, read when it is indexed."""

import asyncio
import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from gristmill.errors import Permanent, SourceGone, Transient, Unreadable
from gristmill.sources import threads
from gristmill.sources.disk import EVERYWHERE, DiskAccess
from gristmill.sources.source import MAX_IN_MEMORY, Original


@dataclass(frozen=True)
class FileSource:
    """The file at `path`, if it is no longer than `limit` bytes and `access` allows it. `scratch` is the folder for
    temporary copies."""

    path: Path
    limit: int
    access: DiskAccess = EVERYWHERE
    scratch: Path = Path(tempfile.gettempdir())

    async def probe(self) -> int:
        """The file's size."""
        return await asyncio.to_thread(self._probe)

    async def read(self) -> Original:
        """The file's bytes, or its path when it is large.

        With confined access, that is the path of a copy: the readers open it later, and by then someone could have
        replaced the file with a link."""
        copy = self.scratch / f"gristmill-{uuid4().hex}"
        try:
            return await threads.run_blocking(lambda: self._read(copy))
        except BaseException:
            copy.unlink(missing_ok=True)
            raise

    def open(self) -> BinaryIO:
        """Open the file. Blocks."""
        try:
            return os.fdopen(self.access.open_file(self.path), "rb")
        except OSError as error:
            raise self._translate_error(error) from error

    def _probe(self) -> int:
        with self.open() as file:
            return self._require_size(file)

    def _read(self, copy: Path) -> Original:
        with self.open() as file:
            data = b""
            try:
                if self._require_size(file) <= MAX_IN_MEMORY:
                    data = file.read(MAX_IN_MEMORY + 1)
                    if len(data) <= MAX_IN_MEMORY:  # else it has grown since
                        return Original(data, self.path.name)
                if self.access.is_confined:
                    self._copy(data, file, copy)
                    return Original(b"", self.path.name, path=copy, temporary=True)
            except OSError as error:
                raise self._translate_error(error) from error
        return Original(b"", self.path.name, path=self.path)

    def _copy(self, start: bytes, rest: BinaryIO, target: Path) -> None:
        """Write the bytes that were read already, and the rest, to `target`."""
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            copy.write(start)
            while block := rest.read(MAX_IN_MEMORY):
                copy.write(block)
                if copy.tell() > self.limit:
                    raise self._too_large(copy.tell())  # it has grown since

    def _require_size(self, file: BinaryIO) -> int:
        """The size of the open file. Raises if it is too large."""
        size = os.fstat(file.fileno()).st_size
        if size > self.limit:
            raise self._too_large(size)
        return size

    def _too_large(self, size: int) -> Permanent:
        return Permanent(
            f"{self.path} has {size:,} bytes, more than the limit of {self.limit:,}.",
            code="document_too_large",
        )

    def _translate_error(self, error: OSError) -> Permanent | Transient:
        match error.errno:
            case errno.ENOENT | errno.ENOTDIR:
                return SourceGone(f"{self.path} does not exist.")
            case errno.EACCES | errno.EPERM:
                return Unreadable(f"{self.path} can't be read: permission denied.", code="permission_denied")
            case errno.EISDIR | errno.EINVAL:
                return Unreadable(f"{self.path} is not a file.", code="not_a_file")
            case errno.ELOOP | errno.ENAMETOOLONG:
                return Unreadable(f"{self.path}: {error.strerror}")
            case _:
                return Transient(f"{self.path}: {error.strerror}", code="source_io_error")
