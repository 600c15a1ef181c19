"""A file on this machine's disk, read when it is indexed."""

import asyncio
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from gristmill.errors import Permanent, SourceGone, Transient, Unreadable
from gristmill.sources.source import MAX_IN_MEMORY, Original


@dataclass(frozen=True)
class FileSource:
    """The file at `path`, if it is no longer than `limit` bytes."""

    path: Path
    limit: int

    async def probe(self) -> int:
        """The file's size."""
        return await asyncio.to_thread(self._probe)

    async def read(self) -> Original:
        """The file's bytes, or its path when it is large."""
        return await asyncio.to_thread(self._read)

    def _probe(self) -> int:
        try:
            status = self.path.stat()
        except OSError as error:
            raise self._translate_error(error) from error
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{self.path} is not a file.", code="not_a_file")
        if not os.access(self.path, os.R_OK):
            raise Unreadable(f"{self.path} can't be read: permission denied.", code="permission_denied")
        if status.st_size > self.limit:
            raise Permanent(
                f"{self.path} has {status.st_size:,} bytes, more than the limit of {self.limit:,}.",
                code="document_too_large",
            )
        return status.st_size

    def _read(self) -> Original:
        if self._probe() > MAX_IN_MEMORY:
            return Original(b"", self.path.name, path=self.path)
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_IN_MEMORY + 1)
        except OSError as error:
            raise self._translate_error(error) from error
        if len(data) > MAX_IN_MEMORY:  # it has grown since
            return Original(b"", self.path.name, path=self.path)
        return Original(data, self.path.name)

    def _translate_error(self, error: OSError) -> Permanent | Transient:
        match error.errno:
            case errno.ENOENT | errno.ENOTDIR:
                return SourceGone(f"{self.path} does not exist.")
            case errno.EACCES | errno.EPERM:
                return Unreadable(f"{self.path} can't be read: permission denied.", code="permission_denied")
            case errno.ELOOP | errno.ENAMETOOLONG:
                return Unreadable(f"{self.path}: {error.strerror}")
            case _:
                return Transient(f"{self.path}: {error.strerror}", code="source_io_error")
