"""What the connectors to drives have in common: Google Drive, SharePoint and OneDrive.

Each drive is a stream. A file has an id that stays when it is moved or renamed, and permissions of its own. The first run lists all files of
a drive; later ones read what the tool reports as changed, and a complete listing follows every `fullListingDays` (listing/by_change.py).
Both name files with their marks, in which path and audience are included: another path or other readers mean that the file is
described again, and its bytes are downloaded only if they changed. Audiences are named by their contents, so that files with equal
permissions share one.
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from gristmill.connectors.drive_folders import FolderPath
from gristmill.connectors.files import FILE, FileFilter
from gristmill.connectors.listing import by_change
from gristmill.connectors.listing.by_change import ChangePage, ChangeSource, ListingPage
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
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 2

# The key of files whose permissions the credentials may not read: only admins see them.
UNKNOWN_READERS = "files with hidden permissions"


class DriveFilter(FileFilter):
    """Which files of drives are followed, and how often all of them are listed."""

    full_listing_days: int = Field(
        default=7,
        ge=1,
        le=365,
        description="Days after which a run lists everything again; runs in between read only what the tool reports as changed.",
    )


@dataclass(frozen=True)
class SharedFile:
    """A file of a drive. `version` changes with its bytes, and `name` is that of the bytes: it may have another suffix than
    its `title`, and is empty if the file has none that can be read. `locator` is what `read_file` needs."""

    id: str
    title: str
    folder: FolderPath
    name: str
    version: str
    audience: Audience
    size: int | None = None
    updated_at: datetime | None = None
    url: str | None = None
    media_type: str | None = None
    locator: Json = field(default_factory=dict[str, Any])

    @property
    def path(self) -> str:
        """Its title below the names of its folders."""
        return self.folder.join(self.title)

    @property
    def mark(self) -> str:
        """What changes with its bytes, its place and its readers."""
        folders = hashlib.sha256(json.dumps(sorted(self.folder.marks.items())).encode()).hexdigest()[:16]
        return f"{self.version} {self.path} {self.audience.key} {folders}"


@dataclass(frozen=True)
class SharedFilePage:
    """A page of the files of a drive; the last one has the token from which changes count, if the tool has one."""

    files: Sequence[SharedFile]
    at: datetime
    next_cursor: str | None = None
    changes_from: str | None = None


@dataclass(frozen=True)
class SharedFileChanges:
    """What changed in a drive: files as they are now, ids of what is gone, and folders (see `ChangePage`)."""

    files: Sequence[SharedFile]
    at: datetime
    next_token: str
    has_more: bool
    gone_ids: Collection[str] = ()
    folders: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    must_list: bool = False


class SharedFileConnector(Connector):
    """Drives, opened. Subclasses list, find and read their files."""

    # To ask for its files once more would be a complete listing in every run.
    unresolvable_audiences = (UNKNOWN_READERS,)

    def __init__(self, tool: str, rules: DriveFilter, max_bytes: int) -> None:
        super().__init__()
        self._tool, self._rules, self._max_bytes = tool, rules, max_bytes
        self._audiences: dict[str, Audience] = {}  # of files that were listed or found
        self.unknown_drives: list[str] = []  # why it is not known of some drives whether they are followed

    @abstractmethod
    async def find_drives(self) -> Mapping[str, str]:
        """The names of the drives that are followed, by id."""

    @abstractmethod
    async def drive_readers_digest(self, drive: str) -> str:
        """What changes with those who may read all of a drive; empty if that is not known."""

    @abstractmethod
    async def list_files(self, drive: str, cursor: str | None) -> SharedFilePage:
        """A page of the files of a drive, whether they are followed or not."""

    @abstractmethod
    async def read_changes(self, drive: str, token: str) -> SharedFileChanges:
        """What changed in a drive since a token; SourceGone or Unreadable if the tool no longer accepts it."""

    @abstractmethod
    async def find_file(self, drive: str, file_id: str) -> SharedFile:
        """One file as it is now; SourceGone when it is no longer there."""

    @abstractmethod
    def read_file(self, locator: Json) -> AsyncIterator[bytes]:
        """The bytes of a file."""

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each drive, or a listing of it."""
        relist_after = timedelta(days=self._rules.full_listing_days)
        for drive in await self.find_drives():
            stream = _stream(drive)
            if stream in finished:
                continue
            batches = by_change.read(
                stream, CHECKPOINT_VERSION, checkpoints.get(stream), _DriveSource(self, drive), relist_after
            )
            async for batch in errors_as_problems(stream, batches):
                yield batch
        for stream in checkpoints:
            if self.unknown_drives and stream.scope.removeprefix("drive:") not in await self.find_drives():
                yield Batch(
                    stream,
                    note=f"{stream.scope} is left as it is: it may be one that can't be read at present.",
                )

    async def fetch(self, ref: DocumentRef) -> Document:
        """One file as it is now."""
        drive, file_id = str(ref.locator["drive"]), str(ref.locator["id"])
        if drive not in await self.find_drives():
            if self.unknown_drives:
                raise Unreadable(self.unknown_drives[0], code="connector_refused")
            raise SourceGone(f"{ref.source_id} is in a drive that is not followed.")
        file = await self.find_file(drive, file_id)
        if not self._is_followed(file):
            raise SourceGone(f"{file.path} is no longer followed.")
        if self._is_too_large(file):
            raise SourceGone(f"{file.path} has grown beyond the limit of {self._max_bytes:,} bytes.")
        self._audiences[file.audience.key] = file.audience
        return Document(
            _ref(drive, file.id),
            title=file.path,
            body="",
            audience=file.audience.key,
            url=file.url,
            updated_at=file.updated_at,
            metadata={"tool": self._tool, "type": FILE, "path": file.path},
            file=Attachment(file.version, file.name, file.size, file.media_type, file.locator),
            mark=file.mark,
            folders=file.folder.marks,
        )

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who sees which file now. Drives are listed, unless the audiences are of files that were just read."""
        known = [self._audiences[key] for key in audience_keys if key in self._audiences]
        if len(known) == len(audience_keys):
            yield AccessUpdate(known)
            return
        async for update in self.list_access({}):
            yield update

    async def list_access(self, position: Json) -> AsyncIterator[AccessUpdate]:
        """Who sees which file now. The position has the drives that are listed, and the one that is being listed with its cursor."""
        listed = [str(drive) for drive in position.get("listed", [])]
        for drive in await self.find_drives():
            if drive in listed:
                continue
            cursor = position.get("cursor") if position.get("drive") == drive else None
            while True:
                try:
                    page = await self.list_files(drive, cursor)
                except (SourceGone, Unreadable):
                    if cursor is None:
                        raise
                    cursor = None  # it has expired
                    continue
                cursor = page.next_cursor
                if cursor is None:
                    listed = [*listed, drive]
                audiences = {file.audience.key: file.audience for file in page.files}
                yield AccessUpdate(
                    list(audiences.values()),
                    {_ref(drive, file.id).source_id: file.audience.key for file in page.files},
                    {"listed": listed}
                    if cursor is None
                    else {"listed": listed, "drive": drive, "cursor": cursor},
                )
                if cursor is None:
                    break

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a file."""
        async for piece in self.read_file(attachment.locator):
            yield piece

    async def list_page(self, drive: str, cursor: str | None) -> ListingPage:
        """A page of a listing, as `by_change` reads it."""
        page = await self.list_files(drive, cursor)
        files = self._choose(page.files)
        return ListingPage(
            [ListedDocument(_ref(drive, file.id), mark=file.mark) for file in files.chosen],
            page.at,
            page.next_cursor,
            page.changes_from,
            files.note,
            self._remember_audiences(files.chosen),
        )

    async def change_page(self, drive: str, token: str) -> ChangePage:
        """A page of changes, as `by_change` reads it. A file that is no longer followed counts as gone."""
        page = await self.read_changes(drive, token)
        files = self._choose(page.files)
        chosen_ids = {file.id for file in files.chosen}
        gone_ids = {*page.gone_ids, *(file.id for file in page.files)} - chosen_ids
        return ChangePage(
            [ListedDocument(_ref(drive, file.id), mark=file.mark) for file in files.chosen],
            page.at,
            page.next_token,
            page.has_more,
            [_ref(drive, file_id).source_id for file_id in sorted(gone_ids)],
            page.folders,
            files.note,
            self._remember_audiences(files.chosen),
            page.must_list,
        )

    def _choose(self, files: Sequence[SharedFile]) -> "_ChosenFiles":
        followed = [file for file in files if self._is_followed(file)]
        chosen = [file for file in followed if not self._is_too_large(file)]
        left_out = len(followed) - len(chosen)
        note = f"{left_out} files are larger than {self._max_bytes:,} bytes and were left out."
        return _ChosenFiles(chosen, note if left_out else None)

    def _is_followed(self, file: SharedFile) -> bool:
        return file.name != "" and self._rules.is_followed(_name_path(file))

    def _remember_audiences(self, files: Sequence[SharedFile]) -> list[Audience]:
        audiences = {file.audience.key: file.audience for file in files}
        self._audiences |= audiences
        return list(audiences.values())

    def _is_too_large(self, file: SharedFile) -> bool:
        return file.size is not None and file.size > self._max_bytes


@dataclass(frozen=True)
class _ChosenFiles:
    chosen: Sequence[SharedFile]
    note: str | None


class _DriveSource(ChangeSource):
    """One drive of a connector."""

    def __init__(self, connector: SharedFileConnector, drive: str) -> None:
        self._connector, self._drive = connector, drive

    async def fingerprint(self) -> str:
        """Who may read all of the drive."""
        return await self._connector.drive_readers_digest(self._drive)

    async def list_page(self, cursor: str | None) -> ListingPage:
        """A page of a complete listing."""
        return await self._connector.list_page(self._drive, cursor)

    async def change_page(self, token: str) -> ChangePage:
        """What changed since a token."""
        return await self._connector.change_page(self._drive, token)


def _name_path(file: SharedFile) -> str:
    """The path with the name that the bytes have: globs match "Plan.md" for a document named "Plan"."""
    return file.folder.join(file.name)


def _stream(drive: str) -> Stream:
    return Stream(f"drive:{drive}", FILE)


def _ref(drive: str, file_id: str) -> DocumentRef:
    return DocumentRef(f"file:{drive}:{file_id}", _stream(drive), {"drive": drive, "id": file_id})
