"""Entries of feeds: RSS 2.0, RSS 1.0 and Atom.

    position    {"etag", "modified"}                    the validators of the last response that was read to its end
                {"etag", "modified", "entries", "read"} in the middle of a later one: a hash of its entries, and how many were read

Each feed is a stream. A feed that did not change costs one conditional request. It names only its newest entries, so it is
never a complete listing: entries that it no longer names stay, until the feed is no longer followed. Feeds have no
permissions: everyone sees their entries, or the people that the connector's own list names.

    the page that an entry links to …       then the entry …
    is gone, closed, too large, no page     has the text of the feed, and the run's log says so
    gets no response, or status 5xx         has the text of the feed, and is a failure: the next run tries the page again
    asks for a long wait                    waits, with those after it: the run continues there

    a feed …                                then …
    is gone, closed, or no feed             the run's log says so, and the others are read
    does not respond, or asks for a wait    the others are read, and the run comes back to it: each may have a host of its own
    was read to its end                     is not requested again by the same run
"""

import hashlib
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from gristmill.connectors.feed_entries import FeedEntry, parse_entries
from gristmill.connectors.kept_pages import KeptPages, as_page
from gristmill.connectors.listing import by_mark
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Batch,
    Checkpoint,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    ReadFailure,
    Stream,
)
from gristmill.connectors.transport import CredentialsRejected, RateLimited, Transport
from gristmill.errors import Permanent, SourceGone, Transient, Unreadable
from gristmill.sources.fetch import display_url
from gristmill.sources.url import normalise

CHECKPOINT_VERSION = 1
ENTRY = "entry"
_BATCH = 20  # entries, each perhaps with a page
_MAX_REASONS = 5  # in a line of the run's log
_MAX_FEED_BYTES = 16 << 20
_MAX_PAGE_BYTES = 8 << 20


def _normalise_address(url: str) -> str:
    try:
        return normalise(url)
    except Permanent as error:
        raise ValueError(error.message) from None


# The address of a feed, with the slash at its end: another address without it, for servers and for relative links.
FeedUrl = Annotated[str, AfterValidator(_normalise_address)]


class FeedsConfig(ConnectorForm):
    """Which feeds to follow."""

    feeds: list[FeedUrl] = Field(min_length=1, max_length=500, description="Addresses of RSS or Atom feeds.")
    full_text: bool = Field(default=False, description="Whether to read the page that an entry links to.")


class FeedsCredentials(ConnectorForm):
    """Nothing: feeds are public."""


@dataclass
class _EntriesRead:
    """What was read of some entries: a document of each, up to a rate limit."""

    documents: list[Document] = field(default_factory=list[Document])
    failures: list[ReadFailure] = field(default_factory=list[ReadFailure])  # pages to try again
    refusals: list[str] = field(default_factory=list[str])  # why pages can't be read
    stopped_by: RateLimited | None = None

    @property
    def note(self) -> str | None:
        """A line for the run's log."""
        if not self.refusals:
            return None
        reasons = " ".join(self.refusals[:_MAX_REASONS])
        return f"{len(self.refusals)} entries have the feed's own text, because their pages can't be read: {reasons}"


class FeedsConnector(Connector):
    """Some feeds."""

    def __init__(self, config: FeedsConfig, http: Transport) -> None:
        super().__init__(http)
        self._config, self._http = config, http
        self._pages = KeptPages()  # of entries that were read and not downloaded yet

    async def check(self) -> Account:
        """Whether each feed can be read."""
        counts = [len((await self._read(url, {}))[0]) for url in self._config.feeds]
        return Account(f"{len(counts)} feeds", f"{sum(counts)} entries")

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """The entries of feeds that changed."""
        for url in self._config.feeds:
            stream = Stream(f"feed:{url}", ENTRY)
            if stream in finished:
                continue
            try:
                async for batch in self._read_stream(stream, url, checkpoints.get(stream)):
                    yield batch
            except Transient as error:
                yield Batch(stream, unavailable=error)
            except Permanent as error:
                yield Batch(stream, problem=f"{error.message} ({error.code})", ends_stream=True)

    async def fetch(self, ref: DocumentRef) -> Document:
        """One entry as it is now; SourceGone when the feed no longer names it, or is no longer followed."""
        url = str(ref.locator["feed"])
        if url not in self._config.feeds:
            raise SourceGone(f"{url} is no longer followed.")
        try:
            entries, _ = await self._read(url, {})
        except RateLimited:
            raise
        except Transient as error:  # of this feed: those of other hosts are read
            raise Unreadable(error.message, code="source_unavailable") from None
        for entry in entries:
            if entry.id == ref.locator["entry"]:
                html, error = await self._find_html(entry)
                if isinstance(error, Transient):  # of a page, not of the feed: it is no outage
                    raise Unreadable(error.message, code="source_unavailable")
                return self._document(ref.stream, url, entry, html)
        raise SourceGone("The feed no longer names the entry.")

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Everyone sees everything."""
        if by_mark.EVERYBODY in audience_keys:
            yield AccessUpdate([by_mark.everybody()])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The HTML of an entry, or an enclosure."""
        if "url" not in attachment.locator:
            url, entry_id = str(attachment.locator["feed"]), str(attachment.locator["entry"])
            ref = _ref(Stream(f"feed:{url}", ENTRY), url, entry_id)
            html = self._pages.take(_page_key(ref, attachment.source_id))
            if html is None:
                await self.fetch(ref)
                html = self._pages.take(_page_key(ref, attachment.source_id))
            if html is None:
                raise SourceGone("The entry changed while it was read.")
            yield html
            return
        try:
            async for piece in self._http.stream(str(attachment.locator["url"])):
                yield piece
        except CredentialsRejected:
            raise _login_error(str(attachment.locator["url"])) from None

    async def _read_stream(
        self, stream: Stream, url: str, checkpoint: Checkpoint | None
    ) -> AsyncIterator[Batch]:
        position = {} if checkpoint is None else checkpoint.position
        earlier = {name: position[name] for name in ("etag", "modified") if name in position}
        entries, validators = await self._read(url, earlier)
        digest = hashlib.sha256(repr(entries).encode()).hexdigest()
        read = int(position["read"]) if position.get("entries") == digest else 0
        while True:
            part = await self._read_entries(stream, url, entries[read : read + _BATCH])
            read += len(part.documents)
            is_last = read == len(entries)
            reached = validators if is_last else {**earlier, "entries": digest, "read": read}
            yield Batch(
                stream,
                checkpoint=Checkpoint(CHECKPOINT_VERSION, reached),
                documents=part.documents,
                failures=part.failures,
                audiences=[by_mark.everybody()],
                note=part.note,
                ends_stream=is_last,
            )
            self._pages.clear()
            if part.stopped_by is not None:
                raise part.stopped_by
            if is_last:
                return

    async def _read_entries(self, stream: Stream, url: str, entries: Sequence[FeedEntry]) -> _EntriesRead:
        part = _EntriesRead()
        for entry in entries:
            try:
                html, error = await self._find_html(entry)
            except RateLimited as limit:
                part.stopped_by = limit
                break
            document = self._document(stream, url, entry, html)
            part.documents.append(document)
            if isinstance(error, Transient):
                part.failures.append(ReadFailure(document.ref, "source_unavailable", error.message))
            elif error is not None:
                part.refusals.append(error.message)
        return part

    async def _read(self, url: str, validators: dict[str, str]) -> tuple[list[FeedEntry], dict[str, str]]:
        try:
            response = await self._http.get_if_changed(url, validators, limit=_MAX_FEED_BYTES)
        except CredentialsRejected:
            raise _login_error(url) from None
        if response is None:
            return [], validators
        try:
            return parse_entries(response.data, response.url), response.validators
        except ValueError as error:
            raise Unreadable(
                f"{url} is not a feed: is the address right? ({error})", code="connector_refused"
            ) from None

    async def _find_html(self, entry: FeedEntry) -> tuple[bytes, Permanent | Transient | None]:
        """The page that an entry links to; or the entry's own text, with the error if that is because the page can't be read."""
        if not self._config.full_text or not entry.url:
            return as_page(entry.html), None
        try:
            return await self._http.raw("GET", normalise(entry.url), limit=_MAX_PAGE_BYTES), None
        except RateLimited:
            raise
        except (Permanent, Transient) as error:
            return as_page(entry.html), error

    def _document(self, stream: Stream, url: str, entry: FeedEntry, html: bytes) -> Document:
        digest, ref = hashlib.sha256(html).hexdigest(), _ref(stream, url, entry.id)
        self._pages.keep(_page_key(ref, digest), html)
        return Document(
            ref,
            title=entry.title or entry.id,
            body="",
            audience=by_mark.EVERYBODY,
            url=entry.url,
            updated_at=entry.updated_at,
            metadata={"tool": "feeds", "type": ENTRY, "feed": url},
            attachments=entry.enclosures,
            file=Attachment(digest, "entry.html", len(html), "text/html", {"feed": url, "entry": entry.id}),
        )


def _ref(stream: Stream, url: str, entry_id: str) -> DocumentRef:
    key = hashlib.sha256(f"{url} {entry_id}".encode()).hexdigest()[:32]
    return DocumentRef(f"entry:{key}", stream, {"feed": url, "entry": entry_id})


def _login_error(url: str) -> Unreadable:
    """Of one feed or file: the run goes on with the others."""
    return Unreadable(
        f"{display_url(url)} asks for a log-in (status 401), which feeds can't have here.",
        code="connector_forbidden",
    )


def _page_key(ref: DocumentRef, digest: str) -> str:
    return f"{ref.source_id} {digest}"


def _open(config: FeedsConfig, credentials: FeedsCredentials, limits: ConnectorLimits) -> Connector:
    del credentials
    return FeedsConnector(config, limits.transport("", {}))


KIND = ConnectorKind(
    "feeds",
    FeedsConfig,
    FeedsCredentials,
    _open,
    CHECKPOINT_VERSION,
    "RSS and Atom feeds",
    has_permissions=False,
)
