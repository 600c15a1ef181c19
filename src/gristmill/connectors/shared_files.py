"""What the connectors to drives have in common: Google Drive, SharePoint and OneDrive.

Each drive is a stream. A file has an id that stays when it is moved or renamed, and permissions of its own. A listing names all
files of a drive with their marks, in which path and audience are included: another path or other readers mean that the file is
described again, and its bytes are downloaded only if they changed. Audiences are named by their contents or by the folder that
they come from, so that files with equal permissions share one.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gristmill.connectors.files import CHECKPOINT_VERSION, FILE, FileFilter
from gristmill.connectors.listing import by_mark
from gristmill.connectors.listing.by_mark import MarkedPage
from gristmill.connectors.port import (
    AccessUpdate,
    Attachment,
    Audience,
    Batch,
    Checkpoints,
    Connector,
    Document,
    DocumentRef,
    Json,
    ListedDocument,
    Stream,
)
from gristmill.connectors.streams import errors_as_problems
from gristmill.errors import SourceGone

__all__ = ["CHECKPOINT_VERSION", "UNKNOWN_READERS", "SharedFile", "SharedFileConnector", "SharedFilePage"]

# The key of files whose permissions the credentials may not read: only admins see them.
UNKNOWN_READERS = "files with hidden permissions"


@dataclass(frozen=True)
class SharedFile:
    """A file of a drive. `version` changes with its bytes, and `name` is that of the bytes: it may have another suffix than
    the path. `locator` is what `read_file` needs."""

    id: str
    path: str
    name: str
    version: str
    audience: Audience
    size: int | None = None
    updated_at: datetime | None = None
    url: str | None = None
    media_type: str | None = None
    locator: Json = field(default_factory=dict[str, Any])

    @property
    def mark(self) -> str:
        """What changes with its bytes, its path and its readers."""
        return f"{self.version} {self.path} {self.audience.key}"


@dataclass(frozen=True)
class SharedFilePage:
    """A page of the files of a drive."""

    files: Sequence[SharedFile]
    next_cursor: str | None = None


class SharedFileConnector(Connector):
    """Drives, opened. Subclasses list, find and read their files."""

    def __init__(self, tool: str, rules: FileFilter, max_bytes: int) -> None:
        super().__init__()
        self._tool, self._rules, self._max_bytes = tool, rules, max_bytes
        self._audiences: dict[str, Audience] = {}  # of files that were listed or found

    @abstractmethod
    async def find_drives(self) -> Mapping[str, str]:
        """The names of the drives that are followed, by id."""

    @abstractmethod
    async def list_files(self, drive: str, cursor: str | None) -> SharedFilePage:
        """A page of the files of a drive, whether they are followed or not."""

    @abstractmethod
    async def find_file(self, drive: str, file_id: str) -> SharedFile:
        """One file as it is now; SourceGone when it is no longer there."""

    @abstractmethod
    def read_file(self, locator: Json) -> AsyncIterator[bytes]:
        """The bytes of a file."""

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of each drive."""
        for drive in await self.find_drives():
            stream = Stream(f"drive:{drive}", FILE)
            if stream in finished:
                continue

            async def fetch_page(cursor: str | None, drive: str = drive) -> MarkedPage:
                return self._page_with_marks(drive, await self.list_files(drive, cursor))

            batches = by_mark.read(stream, CHECKPOINT_VERSION, checkpoints.get(stream), fetch_page)
            async for batch in errors_as_problems(stream, batches):
                yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One file as it is now."""
        drive, file_id = str(ref.locator["drive"]), str(ref.locator["id"])
        if drive not in await self.find_drives():
            raise SourceGone(f"{ref.source_id} is in a drive that is not followed.")
        file = await self.find_file(drive, file_id)
        if not self._rules.is_followed(_name_path(file)):
            raise SourceGone(f"{file.path} is no longer followed.")
        if self._is_too_large(file):
            raise SourceGone(f"{file.path} has grown beyond the limit of {self._max_bytes:,} bytes.")
        self._audiences[file.audience.key] = file.audience
        return Document(
            _ref(drive, file),
            title=file.path,
            body="",
            audience=file.audience.key,
            url=file.url,
            updated_at=file.updated_at,
            metadata={"tool": self._tool, "type": FILE, "path": file.path},
            file=Attachment(file.version, file.name, file.size, file.media_type, file.locator),
            mark=file.mark,
        )

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who sees which file now. Drives are listed, unless the audiences are of files that were just read."""
        known = [self._audiences[key] for key in audience_keys if key in self._audiences]
        if len(known) == len(audience_keys):
            yield AccessUpdate(known)
            return
        for drive in await self.find_drives():
            cursor: str | None = None
            while True:
                page = await self.list_files(drive, cursor)
                audiences = {file.audience.key: file.audience for file in page.files}
                yield AccessUpdate(
                    list(audiences.values()),
                    {_ref(drive, file).source_id: file.audience.key for file in page.files},
                )
                cursor = page.next_cursor
                if cursor is None:
                    break

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a file."""
        async for piece in self.read_file(attachment.locator):
            yield piece

    def _page_with_marks(self, drive: str, page: SharedFilePage) -> MarkedPage:
        followed = [file for file in page.files if self._rules.is_followed(_name_path(file))]
        files = [file for file in followed if not self._is_too_large(file)]
        audiences = {file.audience.key: file.audience for file in files}
        self._audiences |= audiences
        left_out = len(followed) - len(files)
        note = f"{left_out} files are larger than {self._max_bytes:,} bytes and were left out."
        return MarkedPage(
            [ListedDocument(_ref(drive, file), mark=file.mark) for file in files],
            page.next_cursor,
            note if left_out else None,
            audiences=list(audiences.values()),
        )

    def _is_too_large(self, file: SharedFile) -> bool:
        return file.size is not None and file.size > self._max_bytes


def _name_path(file: SharedFile) -> str:
    """The path with the name that the bytes have: globs match "Plan.md" for a document named "Plan"."""
    folder, _, _ = file.path.rpartition("/")
    return f"{folder}/{file.name}" if folder else file.name


def _ref(drive: str, file: SharedFile) -> DocumentRef:
    stream = Stream(f"drive:{drive}", FILE)
    return DocumentRef(f"file:{drive}:{file.id}", stream, {"drive": drive, "id": file.id})
