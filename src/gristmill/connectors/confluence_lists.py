"""What of a space is listed, and how: by CQL from a minute on (`Contents`), or by number on Cloud (`Numbers`).

What is newly attached to a page doesn't change the page: attachments are looked for by their own time, and their page is read
again. CQL knows minutes of a clock that nobody tells: it is measured once a run, on the content that changed last.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from gristmill.connectors import numbered
from gristmill.connectors.atlassian import a_dict
from gristmill.connectors.confluence_api import LIGHT_PAGE, PAGE, ConfluenceApi, Part, instant
from gristmill.connectors.connector import Document, Ref, Stream
from gristmill.connectors.minutes import Found, Row, Window, Zone, measure
from gristmill.errors import Gone, Unreadable

_FORM = "%Y-%m-%d %H:%M"
_FULL = (
    "version,body.storage,space,container,ancestors,"
    "restrictions.read.restrictions.user,restrictions.read.restrictions.group"
)
_MOST_PAGES = 1000
_SETTLED = timedelta(seconds=2)


class Reader(Protocol):
    """Who makes documents of contents."""

    api: ConfluenceApi

    async def document(self, content: dict[str, Any], stream: Stream) -> Document:
        """The document of a content."""
        ...

    async def fetch(self, ref: Ref) -> Document:
        """One document as it is now."""
        ...


class Contents:
    """The contents of one kind in a space, by CQL, as `minutes` asks for them."""

    def __init__(
        self,
        reader: Reader,
        space: dict[str, Any],
        stream: Stream,
        zone: Zone,
        *,
        attached: bool,
        first: bool,
    ) -> None:
        self.reader, self.space, self.stream = reader, space, stream
        self._zone, self._first = zone, first
        self._begun: datetime | None = None
        self._now = datetime.min.replace(tzinfo=UTC)
        self._read: dict[
            str, datetime
        ] = {}  # in this run: a page, and an instant of the tool's not after its reading
        self.attached = attached and stream.kind != "comment"

    async def ask(self, window: Window, cursor: str | None) -> Found:
        """A page of what changed; attachments among it stand for their page."""
        kinds = [self.stream.kind]
        if self.attached and window.since is not None and not window.light and not window.backwards:
            kinds.append("attachment")
        part = await self.reader.api.search(
            self._cql(kinds, window),
            "version" if window.light else _FULL,
            LIGHT_PAGE if window.light else PAGE,
            cursor,
        )
        rows = [
            row for content in part.results if (row := self._row(content, light=window.light)) is not None
        ]
        self._begun = begun = self._begun or part.now
        self._now = part.now
        # The first time, a page is read with all that was attached to it before.
        late = begun - _SETTLED if self._first else None
        kept = [
            row if row.ids or late is None or row.stamp >= late else replace(row, wanted=False)
            for row in rows
        ]
        return Found(kept, part.more, part.now)

    def _cql(self, kinds: Sequence[str], window: Window) -> str:
        conditions = [f'space = "{self.space["key"]}"', f"type in ({', '.join(kinds)})"]
        if window.since is not None:
            conditions.append(f'lastmodified >= "{self._zone.told(window.since, _FORM)}"')
        if window.before is not None:
            conditions.append(f'lastmodified < "{self._zone.told_late(window.before, _FORM)}"')
        return f"{' and '.join(conditions)} order by lastmodified {'desc' if window.backwards else 'asc'}"

    async def detail(self, row: Row) -> Sequence[Document]:
        """The document of a content, or of the page that something was attached to, unless it was read after that."""
        source = row.ref.source_id
        if row.data is None and source in self._read and row.stamp < self._read[source] - _SETTLED:
            return []
        self._read[source] = self._now
        try:
            if row.data is not None:
                return [await self.reader.document(row.data, self.stream)]
            return [await self.reader.fetch(row.ref)]
        except BaseException:
            self._read.pop(source, None)
            raise

    async def attached_since(self, since: datetime) -> list[Row]:
        """What was attached to contents of this kind since an instant."""
        found: list[Row] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            part = await self.reader.api.search(
                self._cql(["attachment"], Window(since)), "version,container", LIGHT_PAGE, cursor
            )
            rows = [self._row(content, light=False) for content in part.results]
            found += [row for row in rows if row is not None and row.stamp >= since]
            if part.more is None or part.more == cursor:
                return found
            cursor = part.more
        raise Unreadable("The attachments of a space do not end.", code="connector_refused")

    def _row(self, content: dict[str, Any], *, light: bool) -> Row | None:
        number, kind = str(content.get("id")), self.stream.kind
        stamp = _stamp(content)
        if content.get("type") == "attachment":
            container = a_dict(content.get("container"))
            if container.get("type") != kind:
                return None
            ref = Ref(f"{kind}:{container.get('id')}", self.stream, {"id": str(container.get("id"))})
            return Row(f"attachment:{number}", stamp, ref, ())
        source = f"{kind}:{number}"
        ref = Ref(source, self.stream, {"id": number})
        return Row(number, stamp, ref, (source,), None if light else content)


class Numbers:
    """The same on Cloud, by number, as `numbered` asks for them."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._api, self._stream = contents.reader.api, contents.stream

    async def page(self, cursor: str | None) -> numbered.Listed:
        """A page of the list; empty ones that have a next are passed over."""
        for _ in range(_MOST_PAGES):
            part = await self._list("id", cursor)
            if part.results or part.more is None or part.more == cursor:
                more = None if part.more == cursor else part.more
                return numbered.Listed([self._entry(one) for one in part.results], more, part.now)
            cursor = part.more
        raise Unreadable("A list of Confluence's has nothing but empty pages.", code="connector_refused")

    async def latest(self, since: datetime) -> list[numbered.Entry]:
        """What changed since an instant, newest first."""
        found: list[numbered.Entry] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            part = await self._list("-modified-date", cursor)
            entries = [self._entry(one) for one in part.results]
            found += [entry for entry in entries if entry.stamp >= since]
            older = any(entry.stamp < since for entry in entries)
            if older or part.more is None or part.more == cursor:
                break
            cursor = part.more
        return found

    async def touched(self, since: datetime) -> list[numbered.Entry]:
        """Pages to read again for what was attached to them."""
        if not self._contents.attached:
            return []
        rows = await self._contents.attached_since(since)
        return [numbered.Entry(row.id, row.stamp, row.ref) for row in rows]

    async def detail(self, entry: numbered.Entry) -> Sequence[Document]:
        """The document of a page or blog post."""
        document = await self._contents.reader.fetch(entry.ref)
        if document.ref.stream != self._stream:
            raise Gone(f"{entry.ref.source_id} is in another space now.")
        return [document]

    async def _list(self, sort: str, cursor: str | None) -> Part:
        return await self._api.list_by(str(self._contents.space["id"]), self._stream.kind, sort, cursor)

    def _entry(self, content: dict[str, Any]) -> numbered.Entry:
        number = str(content.get("id"))
        ref = Ref(f"{self._stream.kind}:{number}", self._stream, {"id": number})
        return numbered.Entry(number, _stamp(content), ref)


async def measured(api: ConfluenceApi) -> Zone:
    """The zone that CQL takes times to be in."""
    newest = "type in (page, blogpost, comment) order by lastmodified desc"
    part = await api.search(newest, "version", 1, None)
    if not part.results:
        return Zone()
    number, stamp = str(part.results[0].get("id")), _stamp(part.results[0])

    async def found_from(told: datetime) -> bool:
        cql = f'id = {number} and lastmodified >= "{told.strftime(_FORM)}"'
        return bool((await api.search(cql, "", 1, None)).results)

    zone = await measure(stamp, found_from)
    again = await api.search(f"id = {number}", "version", 1, None)
    # One that changed meanwhile, or is gone, was no measure.
    return zone if again.results and _stamp(again.results[0]) == stamp else Zone()


def _stamp(content: dict[str, Any]) -> datetime:
    version = a_dict(content.get("version"))
    stamp = instant(version.get("createdAt") or version.get("when"))
    if stamp is None:
        raise Unreadable(
            "Confluence gave a content without the time of its version.", code="connector_refused"
        )
    return stamp.astimezone(UTC)
