"""What the connectors to places with files have in common: buckets, WebDAV folders, git repositories.

A tool of this kind implements three things: list its files page by page with their marks, look one file up, and read its
bytes. A file that matches the globs becomes a record that is read as an uploaded file is. Files that are larger than the
limit are left out, and the run's log says how many. Such tools have no permissions that could be taken over: everyone
sees the files, or the people that the connector's own access list names.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from pydantic import Field

from gristmill.connectors.listing import by_mark
from gristmill.connectors.listing.by_git_tree import is_match
from gristmill.connectors.listing.by_mark import MarkedPage
from gristmill.connectors.port import (
    AccessUpdate,
    Attachment,
    Batch,
    Checkpoints,
    Connector,
    ConnectorForm,
    Document,
    DocumentRef,
    Json,
    ListedDocument,
    Stream,
)
from gristmill.connectors.streams import errors_as_problems
from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable

FILE = "file"
CHECKPOINT_VERSION = 1
# Formats that people write documents in, and that can be read.
FILE_GLOBS = tuple(
    f"*.{suffix}"
    for suffix in (
        *("md", "markdown", "mdx", "rst", "adoc", "txt", "org", "tex", "html", "htm", "ipynb"),
        *("pdf", "docx", "doc", "odt", "rtf", "pages", "epub", "eml", "msg"),
        *("pptx", "ppt", "odp", "xlsx", "xls", "ods", "csv", "tsv"),
    )
)
_MAX_CHECKED_PAGES = 3  # a wrong glob must not cost a listing of the whole bucket


class FileFilter(ConnectorForm):
    """Which files are followed."""

    files: list[str] = Field(
        default=list(FILE_GLOBS), max_length=100, description="Files to follow, as globs; case is ignored."
    )
    exclude: list[str] = Field(default=[], max_length=100, description="Files to leave out, as globs.")

    def is_followed(self, path: str) -> bool:
        """Whether a file is followed: by its name, or by its path where the glob has a slash."""
        path = path.lower()
        return is_match(path, _lower(self.files)) and not is_match(path, _lower(self.exclude))


@dataclass(frozen=True)
class RemoteFile:
    """A file of the tool. `mark` changes with its contents. `id`, if the tool has one, stays when the file is moved."""

    path: str
    mark: str
    size: int | None = None
    updated_at: datetime | None = None
    url: str | None = None
    id: str | None = None
    metadata: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class FilePage:
    """A page of a listing of files; `note` is a line for the run's log."""

    files: Sequence[RemoteFile]
    next_cursor: str | None = None
    note: str | None = None


class FileConnector(Connector):
    """A place with files, opened. Subclasses list, find and read them."""

    def __init__(
        self, tool: str, scope: str, rules: FileFilter, max_bytes: int, *transports: Transport
    ) -> None:
        super().__init__(*transports)
        self._tool, self._rules, self._max_bytes = tool, rules, max_bytes
        self._stream = Stream(scope, FILE)
        self._has_files = False  # whether a listing met a file that is followed
        self.closed: list[str] = []  # why parts of the listing are missing; the run reports it

    @abstractmethod
    async def list_files(self, cursor: str | None) -> FilePage:
        """A page of the files, whether they are followed or not."""

    @abstractmethod
    async def find_file(self, path: str) -> RemoteFile:
        """One file as it is now; SourceGone when it is no longer there."""

    @abstractmethod
    def read_file(self, path: str) -> AsyncIterator[bytes]:
        """The bytes of a file."""

    async def find_problems(self) -> list[str]:
        """Whether there is anything to follow."""
        cursor: str | None = None
        for _ in range(_MAX_CHECKED_PAGES):
            if self._has_files:
                return []
            try:
                cursor = (await self._fetch_page(cursor)).next_cursor
            except (SourceGone, Unreadable):
                return []  # the stream has said so itself, and more exactly
            if cursor is None:
                break
        if self._has_files or cursor is not None:
            return []
        return ["Nothing is followed: there is no file here that matches `files`."]

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of all files that are followed."""
        stream = self._stream
        if stream in finished:
            return
        batches = by_mark.read(
            stream, CHECKPOINT_VERSION, checkpoints.get(stream), self._fetch_page, [by_mark.everybody()]
        )
        self.closed.clear()
        async for batch in errors_as_problems(stream, batches):
            for problem in self.closed:
                yield Batch(stream, problem=problem)
            self.closed.clear()
            yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One file as it is now."""
        path = str(ref.locator["path"])
        if ref.stream != self._stream or not self._rules.is_followed(path):
            raise SourceGone(f"{path} is no longer followed.")
        file = await self.find_file(path)
        if self._ref(file).source_id != ref.source_id:
            raise SourceGone(f"{path} is another file now.")
        if self._is_too_large(file):
            raise SourceGone(f"{path} has grown beyond the limit of {self._max_bytes:,} bytes.")
        return Document(
            self._ref(file),
            title=path,
            body="",
            audience=by_mark.EVERYBODY,
            url=file.url,
            updated_at=file.updated_at,
            metadata={"tool": self._tool, "type": FILE, "path": path, **file.metadata},
            file=Attachment(file.mark, PurePosixPath(path).name, file.size, locator={"path": path}),
            mark=_mark(file),
        )

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Everyone sees everything."""
        if by_mark.EVERYBODY in audience_keys:
            yield AccessUpdate([by_mark.everybody()])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a file."""
        async for piece in self.read_file(str(attachment.locator["path"])):
            yield piece

    async def _fetch_page(self, cursor: str | None) -> MarkedPage:
        return self._page_with_marks(await self.list_files(cursor))

    def _page_with_marks(self, page: FilePage) -> MarkedPage:
        followed = [file for file in page.files if self._rules.is_followed(file.path)]
        entries = [
            ListedDocument(self._ref(file), mark=_mark(file), can_move=file.id is None)
            for file in followed
            if not self._is_too_large(file)
        ]
        self._has_files = self._has_files or bool(followed)
        left_out = len(followed) - len(entries)
        note = f"{left_out} files are larger than {self._max_bytes:,} bytes and were left out."
        notes = [page.note or "", note if left_out else ""]
        return MarkedPage(entries, page.next_cursor, "\n".join(filter(None, notes)) or None)

    def _is_too_large(self, file: RemoteFile) -> bool:
        return file.size is not None and file.size > self._max_bytes

    def _ref(self, file: RemoteFile) -> DocumentRef:
        source_id = f"file:{file.path}" if file.id is None else f"file-id:{file.id}"
        return DocumentRef(source_id, self._stream, {"path": file.path})


def _mark(file: RemoteFile) -> str:
    """The mark of a file; one with an id is read again when it was moved, for its title."""
    return file.mark if file.id is None else f"{file.mark} {file.path}"


def _lower(globs: Sequence[str]) -> list[str]:
    return [glob.lower() for glob in globs]
