"""Lists the contents of a space: by CQL in minutes (`ContentQuery`), or by id on Cloud (`ContentIdListing`).

A new attachment doesn't change its page: attachments are queried by their own time, and their page is read again. CQL takes
minutes of a time zone that Confluence does not return: it is measured once per run, on the content that changed last.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from gristmill.connectors.confluence.ancestors import AncestorResolver
from gristmill.connectors.confluence.api import (
    IDS_PAGE_SIZE,
    PAGE_SIZE,
    ConfluenceApi,
    ResultPage,
)
from gristmill.connectors.confluence.content_loader import ContentLoader
from gristmill.connectors.json_values import as_dict, parse_time
from gristmill.connectors.listing import by_id
from gristmill.connectors.listing.by_minute import (
    QueryPage,
    QueryRow,
    QueryWindow,
    UserTimeZone,
    measure_zone,
)
from gristmill.connectors.port import Document, DocumentRef, Stream
from gristmill.errors import SourceGone, Unreadable

_MINUTE_FORMAT = "%Y-%m-%d %H:%M"
_COMMENT_EXPAND = "version,body.storage,space,container"
_MAX_PAGES = 1000
_STABLE_AFTER = timedelta(seconds=2)


class ContentReader(Protocol):
    """Builds documents from contents."""

    api: ConfluenceApi
    loader: ContentLoader
    ancestors: AncestorResolver

    async def build_document(self, content: dict[str, Any], stream: Stream) -> Document:
        """The document of a content."""
        ...

    async def load(self, ref: DocumentRef, version: int | None = None) -> Document:
        """One document as it is now, or newer than `version` says; with others, if it was announced."""
        ...

    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now."""
        ...


class ContentQuery:
    """The contents of one kind in a space by CQL, for `listing.by_minute`."""

    def __init__(
        self,
        reader: ContentReader,
        space: dict[str, Any],
        stream: Stream,
        zone: UserTimeZone,
        *,
        with_attachments: bool,
        is_first_run: bool,
    ) -> None:
        self.reader, self.space, self.stream = reader, space, stream
        self._zone, self._is_first_run = zone, is_first_run
        self._started_at: datetime | None = None
        self._server_now = datetime.min.replace(tzinfo=UTC)
        self._read_at: dict[
            str, datetime
        ] = {}  # pages that this run has read, and a tool's time not after that
        self.with_attachments = with_attachments and stream.kind != "comment"

    async def run_query(self, window: QueryWindow, cursor: str | None) -> QueryPage:
        """A page of contents that changed in a window; an attachment represents its page."""
        kinds = [self.stream.kind]
        if (
            self.with_attachments
            and window.since is not None
            and not window.ids_only
            and not window.descending
        ):
            kinds.append("attachment")
        is_full = self.stream.kind == "comment" and not window.ids_only
        page = await self.reader.api.search(
            self._cql(kinds, window),
            _COMMENT_EXPAND if is_full else "version,container",
            PAGE_SIZE if is_full else IDS_PAGE_SIZE,
            cursor,
        )
        rows = [row for content in page.results if (row := self._row(content, light=not is_full)) is not None]
        self._started_at = started_at = self._started_at or page.now
        self._server_now = page.now
        # In the first run, a page is read together with its older attachments.
        unread_since = started_at - _STABLE_AFTER if self._is_first_run else None
        followed_rows = [
            row
            if row.is_document or unread_since is None or row.updated_at >= unread_since
            else replace(row, is_followed=False)
            for row in rows
        ]
        return QueryPage(followed_rows, page.next_cursor, page.now)

    def _cql(self, kinds: Sequence[str], window: QueryWindow) -> str:
        conditions = [f'space = "{self.space["key"]}"', f"type in ({', '.join(kinds)})"]
        if window.since is not None:
            conditions.append(f'lastmodified >= "{self._zone.earliest_text(window.since, _MINUTE_FORMAT)}"')
        if window.before is not None:
            conditions.append(f'lastmodified < "{self._zone.latest_text(window.before, _MINUTE_FORMAT)}"')
        return f"{' and '.join(conditions)} order by lastmodified {'desc' if window.descending else 'asc'}"

    def expect(self, rows: Sequence[QueryRow]) -> None:
        """These rows will be read next."""
        if self.stream.kind == "comment":
            containers = [as_dict(as_dict(row.data).get("container")) for row in rows]
            self.reader.loader.expect_comments(
                (str(page["type"]), str(page.get("id")))
                for page in containers
                if page.get("type") in ("page", "blogpost")  # not on an attachment
            )
        else:
            self.reader.loader.expect(row.ref.locator["id"] for row in rows)

    async def fetch_documents(self, row: QueryRow) -> Sequence[Document]:
        """The document of a content; or of an attachment's page, unless that was read after the attachment came."""
        source_id = row.ref.source_id
        if (
            not row.is_document
            and source_id in self._read_at
            and row.updated_at < self._read_at[source_id] - _STABLE_AFTER
        ):
            return []
        self._read_at[source_id] = self._server_now
        try:
            if row.data is not None:
                await self.reader.loader.load_containers()
                return [await self.reader.build_document(row.data, self.stream)]
            document = await self.reader.load(row.ref)
            if document.ref.stream != self.stream:
                raise SourceGone(f"{source_id} is in another space now.")
            return [document]
        except BaseException:
            self._read_at.pop(source_id, None)
            raise

    async def attachments_since(self, since: datetime) -> list[QueryRow]:
        """Attachments of contents of this kind that changed since an instant."""
        attachment_rows: list[QueryRow] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self.reader.api.search(
                self._cql(["attachment"], QueryWindow(since)), "version,container", IDS_PAGE_SIZE, cursor
            )
            rows = [self._row(content, light=False) for content in page.results]
            attachment_rows += [row for row in rows if row is not None and row.updated_at >= since]
            if page.next_cursor is None or page.next_cursor == cursor:
                return attachment_rows
            cursor = page.next_cursor
        raise Unreadable("The list of a space's attachments does not end.", code="connector_refused")

    def _row(self, content: dict[str, Any], *, light: bool) -> QueryRow | None:
        number, kind = str(content.get("id")), self.stream.kind
        stamp = _parse_updated_at(content)
        if content.get("type") == "attachment":
            container = as_dict(content.get("container"))
            if container.get("type") != kind:
                return None
            ref = DocumentRef(f"{kind}:{container.get('id')}", self.stream, {"id": str(container.get("id"))})
            return QueryRow(f"attachment:{number}", stamp, ref, is_document=False)
        source_id = f"{kind}:{number}"
        ref = DocumentRef(source_id, self.stream, {"id": number})
        return QueryRow(number, stamp, ref, None if light else content)


class ContentIdListing:
    """The contents of one kind in a space by id on Cloud, for `listing.by_id`."""

    def __init__(self, query: ContentQuery) -> None:
        self._query = query
        self._api, self._stream = query.reader.api, query.stream

    async def fetch_page(self, cursor: str | None) -> by_id.IdPage:
        """A page of contents; empty pages that have a next one are skipped."""
        for _ in range(_MAX_PAGES):
            page = await self._fetch_list("id", cursor)
            self._query.reader.ancestors.record_parents(page.results)
            if page.results or page.next_cursor is None or page.next_cursor == cursor:
                more = None if page.next_cursor == cursor else page.next_cursor
                return by_id.IdPage([self._entry(content) for content in page.results], more, page.now)
            cursor = page.next_cursor
        raise Unreadable("A list in Confluence has only empty pages.", code="connector_refused")

    async def changes_since(self, since: datetime) -> list[by_id.IdEntry]:
        """Contents that changed since an instant, newest first."""
        recent: list[by_id.IdEntry] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._fetch_list("-modified-date", cursor)
            self._query.reader.ancestors.record_parents(page.results)
            entries = [self._entry(content) for content in page.results]
            recent += [entry for entry in entries if entry.updated_at >= since]
            older = any(entry.updated_at < since for entry in entries)
            if older or page.next_cursor is None or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        return recent

    async def attachment_changes_since(self, since: datetime) -> list[by_id.IdEntry]:
        """Pages to read again because of their attachments."""
        if not self._query.with_attachments:
            return []
        rows = await self._query.attachments_since(since)
        return [by_id.IdEntry(row.id, row.updated_at, row.ref) for row in rows]

    def expect(self, entries: Sequence[by_id.IdEntry]) -> None:
        """These entries will be read next."""
        self._query.reader.loader.expect(entry.ref.locator["id"] for entry in entries)

    async def fetch_documents(self, entry: by_id.IdEntry) -> Sequence[Document]:
        """The document of a page or blog post."""
        document = await self._query.reader.load(entry.ref, entry.data)
        if document.ref.stream != self._stream:
            raise SourceGone(f"{entry.ref.source_id} is in another space now.")
        return [document]

    async def _fetch_list(self, sort: str, cursor: str | None) -> ResultPage:
        return await self._api.list_contents(str(self._query.space["id"]), self._stream.kind, sort, cursor)

    def _entry(self, content: dict[str, Any]) -> by_id.IdEntry:
        number = str(content.get("id"))
        ref = DocumentRef(f"{self._stream.kind}:{number}", self._stream, {"id": number})
        version = as_dict(content.get("version")).get("number")
        return by_id.IdEntry(number, _parse_updated_at(content), ref, version)


async def measure_time_zone(api: ConfluenceApi) -> UserTimeZone:
    """Measure the time zone that CQL interprets times in."""
    newest = "type in (page, blogpost, comment) order by lastmodified desc"
    page = await api.search(newest, "version", 1, None)
    if not page.results:
        return UserTimeZone()
    number, stamp = str(page.results[0].get("id")), _parse_updated_at(page.results[0])

    async def is_found_from(local_time: datetime) -> bool:
        cql = f'id = {number} and lastmodified >= "{local_time.strftime(_MINUTE_FORMAT)}"'
        return bool((await api.search(cql, "", 1, None)).results)

    zone = await measure_zone(stamp, is_found_from)
    latest = await api.search(f"id = {number}", "version", 1, None)
    # If it changed meanwhile, or is gone, the measurement is void.
    return zone if latest.results and _parse_updated_at(latest.results[0]) == stamp else UserTimeZone()


def _parse_updated_at(content: dict[str, Any]) -> datetime:
    version = as_dict(content.get("version"))
    stamp = parse_time(version.get("createdAt") or version.get("when"))
    if stamp is None:
        raise Unreadable(
            "Confluence returned a content without the time of its version.", code="connector_refused"
        )
    return stamp.astimezone(UTC)
