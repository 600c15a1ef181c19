"""Entries of feeds: RSS 2.0, RSS 1.0 and Atom.

    position    {"etag", "modified"}    the validators of the last response

Each feed is a stream. A feed that did not change costs one conditional request. It names only its newest entries, so it is
never a complete listing: entries that it no longer names stay, until the feed is no longer followed. Feeds have no
permissions: everyone sees their entries, or the people that the connector's own list names.
"""

import hashlib
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from xml.etree.ElementTree import Element

from pydantic import Field

from gristmill.connectors.listing import by_mark
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    BaseUrl,
    Batch,
    Checkpoint,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    Stream,
)
from gristmill.connectors.safe_xml import parse_xml
from gristmill.connectors.streams import errors_as_problems
from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
ENTRY = "entry"
_MAX_FEED_BYTES = 16 << 20
_MAX_PAGE_BYTES = 8 << 20
_ATOM = "{http://www.w3.org/2005/Atom}"
_CONTENT = "{http://purl.org/rss/1.0/modules/content/}encoded"
_RSS1 = "{http://purl.org/rss/1.0/}"
_DUBLIN_CORE_DATE = "{http://purl.org/dc/elements/1.1/}date"


class FeedsConfig(ConnectorForm):
    """Which feeds to follow."""

    feeds: list[BaseUrl] = Field(min_length=1, max_length=500, description="Addresses of RSS or Atom feeds.")
    full_text: bool = Field(default=False, description="Whether to read the page that an entry links to.")


class FeedsCredentials(ConnectorForm):
    """Nothing: feeds are public."""


@dataclass(frozen=True)
class FeedEntry:
    """An entry of a feed; `html` is its text."""

    id: str
    title: str
    url: str | None
    html: str
    updated_at: datetime | None
    enclosures: tuple[Attachment, ...] = ()


class FeedsConnector(Connector):
    """Some feeds."""

    def __init__(self, config: FeedsConfig, http: Transport) -> None:
        super().__init__(http)
        self._config, self._http = config, http
        self._html: dict[str, bytes] = {}  # of entries that were read and not downloaded yet

    async def check(self) -> Account:
        """Whether each feed can be read."""
        counts = [len((await self._read(url, {}))[0]) for url in self._config.feeds]
        return Account(f"{len(counts)} feeds", f"{sum(counts)} entries")

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """The entries of feeds that changed."""
        del finished  # an unchanged feed costs one request
        for url in self._config.feeds:
            stream = Stream(f"feed:{url}", ENTRY)
            async for batch in errors_as_problems(
                stream, self._read_stream(stream, url, checkpoints.get(stream))
            ):
                yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One entry as it is now; SourceGone when the feed no longer names it, or is no longer followed."""
        url = str(ref.locator["feed"])
        if url not in self._config.feeds:
            raise SourceGone(f"{url} is no longer followed.")
        for entry in (await self._read(url, {}))[0]:
            if entry.id == ref.locator["entry"]:
                return await self._document(ref.stream, url, entry)
        raise SourceGone("The feed no longer names the entry.")

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Everyone sees everything."""
        if by_mark.EVERYBODY in audience_keys:
            yield AccessUpdate([by_mark.everybody()])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The HTML of an entry, or an enclosure."""
        if "url" not in attachment.locator:
            html = self._html.pop(attachment.source_id, None)
            if html is None:
                raise SourceGone("The entry was read too long ago.")
            yield html
            return
        async for piece in self._http.stream(str(attachment.locator["url"])):
            yield piece

    async def _read_stream(
        self, stream: Stream, url: str, checkpoint: Checkpoint | None
    ) -> AsyncIterator[Batch]:
        entries, validators = await self._read(url, {} if checkpoint is None else checkpoint.position)
        yield Batch(
            stream,
            checkpoint=Checkpoint(CHECKPOINT_VERSION, validators),
            documents=[await self._document(stream, url, entry) for entry in entries],
            audiences=[by_mark.everybody()],
        )

    async def _read(self, url: str, validators: dict[str, str]) -> tuple[list[FeedEntry], dict[str, str]]:
        response = await self._http.get_if_changed(url, validators, limit=_MAX_FEED_BYTES)
        if response is None:
            return [], validators
        try:
            return list(_entries(parse_xml(response.data))), response.validators
        except ValueError:
            raise Unreadable(
                f"{url} is not a feed: is the address right?", code="connector_refused"
            ) from None

    async def _document(self, stream: Stream, url: str, entry: FeedEntry) -> Document:
        html = f"<html><body><article>{entry.html}</article></body></html>".encode()
        if self._config.full_text and entry.url:
            html = await self._http.raw("GET", entry.url, limit=_MAX_PAGE_BYTES)
        digest = hashlib.sha256(html).hexdigest()
        self._html[digest] = html
        entry_key = hashlib.sha256(f"{url} {entry.id}".encode()).hexdigest()[:32]
        return Document(
            DocumentRef(f"entry:{entry_key}", stream, {"feed": url, "entry": entry.id}),
            title=entry.title or entry.id,
            body="",
            audience=by_mark.EVERYBODY,
            url=entry.url,
            updated_at=entry.updated_at,
            metadata={"tool": "feeds", "type": ENTRY, "feed": url},
            attachments=entry.enclosures,
            file=Attachment(digest, "entry.html", len(html), "text/html"),
        )


def _entries(root: Element) -> Iterator[FeedEntry]:
    if root.tag == f"{_ATOM}feed":
        for element in root.iterfind(f"{_ATOM}entry"):
            links = {
                link.get("rel", "alternate"): link.get("href") for link in element.iterfind(f"{_ATOM}link")
            }
            content = element.find(f"{_ATOM}content")
            content = element.find(f"{_ATOM}summary") if content is None else content
            url = links.get("alternate")
            yield FeedEntry(
                element.findtext(f"{_ATOM}id") or url or "",
                element.findtext(f"{_ATOM}title") or "",
                url,
                "" if content is None else "".join(content.itertext()),
                _parse_time(element.findtext(f"{_ATOM}updated")),
            )
        return
    if root.tag not in ("rss", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}RDF"):
        raise ValueError(root.tag)
    prefix = "" if root.tag == "rss" else _RSS1
    for element in root.iter(f"{prefix}item"):
        url = element.findtext(f"{prefix}link")
        title = element.findtext(f"{prefix}title") or ""
        yield FeedEntry(
            element.findtext("guid") or url or title,
            title,
            url,
            element.findtext(_CONTENT) or element.findtext(f"{prefix}description") or "",
            _parse_time(element.findtext("pubDate") or element.findtext(_DUBLIN_CORE_DATE)),
            tuple(_enclosures(element)),
        )


def _enclosures(item: Element) -> Iterator[Attachment]:
    """Documents that come with an entry; sound and video stay links."""
    for enclosure in item.iterfind("enclosure"):
        url, media_type = enclosure.get("url", ""), enclosure.get("type", "")
        if url.startswith(("http://", "https://")) and not media_type.startswith(("audio/", "video/")):
            name = url.partition("?")[0].rpartition("/")[2] or "enclosure"
            yield Attachment(url, name, None, media_type or None, {"url": url})


def _parse_time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return parsedate_to_datetime(text.strip())
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None


def _open(config: FeedsConfig, credentials: FeedsCredentials, limits: ConnectorLimits) -> Connector:
    del credentials
    return FeedsConnector(config, limits.transport("", {}))


KIND = ConnectorKind("feeds", FeedsConfig, FeedsCredentials, _open, CHECKPOINT_VERSION, "RSS and Atom feeds")
