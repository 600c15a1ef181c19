"""Makes the source that an item is read from, within the limits of this installation."""

import asyncio
import errno
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gristmill.catalog import Item
from gristmill.errors import Permanent, Unsupported
from gristmill.sources import FileSource, NoteSource, Original, Source, UrlSource
from gristmill.sources.blobs import BlobStore
from gristmill.sources.directory import folder_error
from gristmill.sources.disk import EVERYWHERE, DiskAccess
from gristmill.sources.rendering import RenderSettings
from gristmill.sources.source import MAX_IN_MEMORY

# Marks the source of a file or folder that the local user added, and of what is below it.
ADDED_LOCALLY = "local"
# In the source of a page: what the server declared about the bytes that a crawl fetched, and for which version.
FETCHED = "fetched"
MAX_PAGE_BYTES = 64 << 20  # of a response, which is held in memory


def disk_access(disk: DiskAccess, source: Mapping[str, Any]) -> DiskAccess:
    """What may be read for an item with this source: only what the local user added is not confined."""
    return disk.unconfined() if source.get(ADDED_LOCALLY) else disk


@dataclass(frozen=True)
class SourceFactory:
    """Makes sources of at most `limit` bytes each, on private networks only if allowed. `disk` is what requests with a key
    may read of this machine's disk, `scratch` the folder for temporary copies."""

    blobs: BlobStore
    limit: int
    allow_private: bool
    disk: DiskAccess = EVERYWHERE
    scratch: Path = Path(tempfile.gettempdir())
    wait_turn: Callable[[str], Awaitable[None]] | None = None  # until the next request to a host may be sent
    rendering: RenderSettings = field(default_factory=RenderSettings)

    def for_item(
        self,
        item: Item,
        *,
        note: str | None = None,
        blob: str | None = None,
        validators: Mapping[str, str] | None = None,
    ) -> Source:
        """The source of `item`. A note needs its text, an upload its blob's name, and a page the validators of its last
        response."""
        match item.type:
            case "file" | "record" if blob is not None:
                # The title of a record is a path, or what its tool calls it; the name says which format it has.
                return UploadSource(
                    self.blobs, blob, item.source.get("name", item.title), self.limit, self.scratch
                )
            case "note" | "record":
                return NoteSource(note or "", item.title)
            case "file":
                return self.file_source(Path(item.source["path"]), disk_access(self.disk, item.source))
            case "url" if (
                blob is not None and item.source.get(FETCHED, {}).get("version") == item.wanted_version
            ):
                return CrawledPageSource(self.blobs, blob, item.source, min(self.limit, MAX_PAGE_BYTES))
            case "url" | "sitemap" | "site":
                return replace(self.url_source(item.source["url"]), validators=validators or {})
            case "directory" if "path" not in item.source:
                return UserFolderSource(item.title)
            case "directory":
                return FolderSource(Path(item.source["path"]), disk_access(self.disk, item.source))
            case "connector":
                return ConnectorSource(item.title)
            case _:
                raise Unsupported(f"Items of type {item.type!r} can't be read.")

    def file_source(self, path: Path, access: DiskAccess) -> FileSource:
        """A file on the disk."""
        return FileSource(path, self.limit, access, self.scratch)

    def url_source(self, url: str) -> UrlSource:
        """A page on the web."""
        return UrlSource(url, min(self.limit, MAX_PAGE_BYTES), self.allow_private, wait_turn=self.wait_turn)


@dataclass(frozen=True)
class UploadSource:
    """An uploaded file: `blob_name` is the name of its bytes in the store, `name` the file's."""

    blobs: BlobStore
    blob_name: str
    name: str
    limit: int
    scratch: Path

    async def probe(self) -> int:
        """The number of bytes."""
        return await self.blobs.size(self.blob_name)

    async def read(self) -> Original:
        """The bytes, or a file with them when there are many."""
        size = await self.probe()
        if size <= MAX_IN_MEMORY:
            return Original(await self.blobs.get(self.blob_name, MAX_IN_MEMORY), self.name)
        if size > self.limit:
            raise Permanent(
                f"{self.name} has {size:,} bytes. Files of at most {self.limit:,} bytes can be read.",
                code="document_too_large",
            )
        if (path := self.blobs.local_path(self.blob_name)) is not None:
            return Original(b"", self.name, path=path)
        return Original(b"", self.name, path=await self._copy_to_disk(), temporary=True)

    async def _copy_to_disk(self) -> Path:
        handle, name = await asyncio.to_thread(tempfile.mkstemp, dir=self.scratch, prefix="gristmill-")
        path = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                async for part in self.blobs.read(self.blob_name):
                    await asyncio.to_thread(file.write, part)
        except BaseException:
            await asyncio.to_thread(path.unlink, missing_ok=True)
            raise
        return path


@dataclass(frozen=True)
class CrawledPageSource:
    """A page that a crawl has fetched: its bytes are in the store, and are not fetched a second time."""

    blobs: BlobStore
    blob_name: str
    source: Mapping[str, Any]
    limit: int

    async def probe(self) -> int:
        """The number of bytes."""
        return await self.blobs.size(self.blob_name)

    async def read(self) -> Original:
        """The bytes, with what the server declared about them."""
        declared = self.source[FETCHED]
        return Original(
            await self.blobs.get(self.blob_name, self.limit),
            declared["name"],
            declared["mediaType"],
            declared["charset"],
            self.source["url"],
            declared["validators"],
        )


@dataclass(frozen=True)
class ConnectorSource:
    """A connector's container: its runs file the items, so there is nothing to probe or read."""

    name: str

    async def probe(self) -> int:
        """0."""
        return 0

    async def read(self) -> Original:
        """Raise: a connector has no text of its own."""
        raise Unsupported(f"{self.name} is a connector.")


@dataclass(frozen=True)
class UserFolderSource:
    """A folder that people made in a base: they file the items, so there is nothing to probe or list."""

    name: str

    async def probe(self) -> int:
        """0."""
        return 0

    async def read(self) -> Original:
        """Raise: a folder has no text of its own."""
        raise Unsupported(f"{self.name} is a folder.")


@dataclass(frozen=True)
class FolderSource:
    """A folder on the disk: it can be probed, but is listed rather than read."""

    path: Path
    access: DiskAccess = EVERYWHERE

    async def probe(self) -> int:
        """0, if it exists and can be listed."""
        return await asyncio.to_thread(self._probe)

    async def read(self) -> Original:
        """Raise: a folder has no text of its own."""
        raise Unsupported(f"{self.path} is a folder.")

    def _probe(self) -> int:
        try:
            os.close(self.access.open_folder(self.path))
        except OSError as error:
            raise folder_error(self.path, error) from error
        if not os.access(self.path, os.X_OK):
            raise folder_error(self.path, PermissionError(errno.EACCES, ""))
        return 0
