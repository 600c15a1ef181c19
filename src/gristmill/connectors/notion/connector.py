"""Notion: the pages that an integration was given, with their blocks, properties and files.

    stream                   documents
    (workspace, page)        pages outside databases, as `search` lists them
    (data-source:{id}, page) the pages of a database's data source, as its query lists them

Notion ends a query after 10,000 results. A data source is read by the time at which its pages were created: where a query ends, the next one
begins. A search can't go on: what it leaves out is a problem of the run.

The mark of a page is the time of its last change, which Notion rounds to the minute: a page that changed in the last two minutes
is read again by the next run. Search is not exhaustive, so a page that it does not name is requested before it is pruned. What is
archived or in the trash counts as deleted. Notion does not say who may see a page: everyone sees all pages, or the people that the
connector's own list names.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field, SecretStr

from gristmill.connectors import markup
from gristmill.connectors.json_values import as_dict, as_list, parse_time
from gristmill.connectors.listing import by_mark
from gristmill.connectors.listing.by_mark import MarkedPage
from gristmill.connectors.notion import blocks as rendering
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    BaseUrl,
    Batch,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    ListedDocument,
    Stream,
)
from gristmill.connectors.streams import errors_as_problems
from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
PAGE = "page"
WORKSPACE = Stream("workspace", PAGE)
DEFAULT_URL = "https://api.notion.com"
API_VERSION = "2025-09-03"
_PAGE_SIZE = 100
_MAX_BLOCKS = 10_000  # of a page
_STABLE_AFTER = timedelta(minutes=2)
_CUT_OFF = (
    "Notion lists no more than 10,000 pages of a search, or of one minute of a database. New pages beyond them are not read: "
    "connect the integration to fewer pages, and add a second connector with another integration."
)
_OWN_PAGES = ("child_page", "child_database")  # documents of their own


class NotionConfig(ConnectorForm):
    """What to follow in Notion."""

    attachments: bool = Field(default=True, description="Whether to store files below their pages.")
    base_url: BaseUrl = Field(default=DEFAULT_URL, description="The address of Notion's API.")


class NotionCredentials(ConnectorForm):
    """The token of an integration."""

    token: SecretStr = Field(description="The secret of an internal integration: ntn_….")


class NotionConnector(Connector):
    """What one integration can see."""

    def __init__(self, config: NotionConfig, http: Transport, files: Transport) -> None:
        super().__init__(http, files)
        self._config, self._http, self._files = config, http, files
        self._sources: list[str] | None = None
        self._has_pages = False
        self._cut_off: set[Stream] = set()  # streams of which Notion did not list everything

    async def check(self) -> Account:
        """Which integration the token is of."""
        data = as_dict((await self._http.get("/v1/users/me")).data)
        workspace = str(as_dict(data.get("bot")).get("workspace_name") or "Notion")
        return Account(workspace, str(data.get("name") or ""))

    async def find_problems(self) -> list[str]:
        """Whether the integration was given any page."""
        if self._has_pages or await self._find_sources():
            return []
        pages = await self._search("page", None)
        if as_list(pages.get("results")):
            return []
        return ["Nothing is followed: connect the integration to pages (••• → Connections) in Notion."]

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of the pages outside databases, and of each data source."""
        for stream in (WORKSPACE, *map(_source_stream, await self._find_sources())):
            if stream in finished:
                continue

            async def fetch_page(cursor: str | None, stream: Stream = stream) -> MarkedPage:
                return await self._list(stream, cursor)

            batches = by_mark.read(
                stream, CHECKPOINT_VERSION, checkpoints.get(stream), fetch_page, [by_mark.everybody()]
            )
            async for batch in errors_as_problems(stream, batches):
                yield batch
            if stream in self._cut_off:
                yield Batch(stream, problem=_CUT_OFF)

    async def fetch(self, ref: DocumentRef) -> Document:
        """One page as it is now."""
        response = await self._http.get(f"/v1/pages/{ref.locator['id']}")
        page = as_dict(response.data)
        if page.get("archived") or page.get("in_trash"):
            raise SourceGone("The page is archived or in the trash.")
        blocks = await self._read_blocks(str(ref.locator["id"]))
        title = markup.strip_unstorable(rendering.page_title(page)) or "Untitled"
        properties = rendering.property_lines(page) if _source_of(page) else []
        parts = [f"# {title}", "\n".join(properties), rendering.to_markdown(blocks)]
        edited = str(page.get("last_edited_time") or "")
        return Document(
            _ref(page),
            title=title,
            body=markup.strip_unstorable("\n\n".join(part for part in parts if part)),
            audience=by_mark.EVERYBODY,
            url=str(page.get("url") or "") or None,
            updated_at=parse_time(edited),
            metadata={"tool": "notion", "type": PAGE},
            attachments=tuple(_attachments(blocks)) if self._config.attachments else (),
            mark=edited if _is_stable(edited, response.server_time) else f"{edited} unstable",
        )

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Everyone sees everything."""
        if by_mark.EVERYBODY in audience_keys:
            yield AccessUpdate([by_mark.everybody()])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a file, from an address that Notion signs for an hour."""
        block = as_dict((await self._http.get(f"/v1/blocks/{attachment.locator['block']}")).data)
        url = as_dict(as_dict(block.get(str(block.get("type")))).get("file")).get("url")
        if not url or block.get("archived") or block.get("in_trash"):
            raise SourceGone(f"{attachment.name} is no longer there.")
        async for piece in self._files.stream(str(url)):
            yield piece

    # ── listing ──────────────────────────────────────────────────────────────────────────────────────────

    async def _search(self, kind: str, cursor: str | None, direction: str = "ascending") -> dict[str, Any]:
        body: dict[str, Any] = {
            "filter": {"property": "object", "value": kind},
            "sort": {"timestamp": "last_edited_time", "direction": direction},
            "page_size": _PAGE_SIZE,
            **({"start_cursor": cursor} if cursor else {}),
        }
        return as_dict((await self._http.post("/v1/search", body)).data)

    async def _find_sources(self) -> list[str]:
        """The data sources of databases, by id."""
        if self._sources is None:
            sources: set[str] = set()
            cursor: str | None = None
            while True:
                data = await self._search("data_source", cursor)
                sources |= {
                    str(source.get("id"))
                    for source in _results(data)
                    if not source.get("archived") and not source.get("in_trash")
                }
                cursor = _next_cursor(data)
                if cursor is None:
                    break
            self._sources = sorted(sources)
        return self._sources

    async def _list(self, stream: Stream, cursor: str | None) -> MarkedPage:
        """A page of a listing. The cursor names the query (the time from which on it lists pages, or the order of a search), and has
        the query's own."""
        query, _, start = (cursor or "").rpartition(" ")
        if stream == WORKSPACE:
            data = await self._search("page", start, query or "ascending")
        else:
            data = await self._query(stream.scope.partition(":")[2], query, start)
        pages = [
            page
            for page in _results(data)
            if page.get("object") == "page"
            and not page.get("archived")
            and not page.get("in_trash")
            and _ref(page).stream == stream
        ]
        self._has_pages = self._has_pages or bool(pages)
        entries = [ListedDocument(_ref(page), mark=str(page.get("last_edited_time"))) for page in pages]
        following = _next_cursor(data)
        if following is None and as_dict(data.get("request_status")).get("type") == "incomplete":
            return MarkedPage(entries, self._next_query(stream, query, data))
        return MarkedPage(entries, following and f"{query} {following}".strip())

    def _next_query(self, stream: Stream, query: str, data: dict[str, Any]) -> str | None:
        """The cursor of the query that lists what this one leaves out; None if there is none."""
        latest = max((str(row.get("created_time")) for row in _results(data)), default="")
        if stream != WORKSPACE and latest > query:
            return f"{latest} "
        # A search, or more pages than a query lists were created within a minute.
        self._cut_off.add(stream)
        return "descending " if stream == WORKSPACE and not query else None

    async def _query(self, source: str, since: str, start: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "page_size": _PAGE_SIZE,
            "sorts": [{"timestamp": "created_time", "direction": "ascending"}],
            **({"start_cursor": start} if start else {}),
        }
        if since:
            body["filter"] = {"timestamp": "created_time", "created_time": {"on_or_after": since}}
        return as_dict((await self._http.post(f"/v1/data_sources/{source}/query", body)).data)

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────────

    async def _read_blocks(self, page_id: str) -> list[dict[str, Any]]:
        """The blocks of a page, each with its `children`."""
        top = await self._children(page_id)
        pending, count = list(top), len(top)
        while pending and count < _MAX_BLOCKS:
            block = pending.pop(0)
            if not block.get("has_children") or block.get("type") in _OWN_PAGES:
                continue
            try:
                block["children"] = await self._children(str(block["id"]))
            except (SourceGone, Unreadable) as error:
                is_closed = isinstance(error, SourceGone) or error.code == "connector_forbidden"
                if not is_closed and block.get("type") != "unsupported":
                    raise
                continue  # synced from a page that the integration was not given, or of a kind that the API does not show
            pending += block["children"]
            count += len(block["children"])
        return top

    async def _children(self, block_id: str) -> list[dict[str, Any]]:
        children: list[dict[str, Any]] = []
        cursor: str | None = None
        while len(children) < _MAX_BLOCKS:
            params = {"page_size": _PAGE_SIZE, "start_cursor": cursor}
            data = as_dict((await self._http.get(f"/v1/blocks/{block_id}/children", params)).data)
            children += [as_dict(block) for block in as_list(data.get("results"))]
            cursor = _next_cursor(data)
            if cursor is None:
                break
        return children


def _results(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [as_dict(entry) for entry in as_list(data.get("results"))]


def _next_cursor(data: dict[str, Any]) -> str | None:
    return str(data["next_cursor"]) if data.get("has_more") and data.get("next_cursor") else None


def _source_of(page: dict[str, Any]) -> str | None:
    """The data source that a page belongs to."""
    return str(as_dict(page.get("parent")).get("data_source_id") or "") or None


def _source_stream(source: str) -> Stream:
    return Stream(f"data-source:{source}", PAGE)


def _ref(page: dict[str, Any]) -> DocumentRef:
    source, page_id = _source_of(page), str(page.get("id"))
    stream = WORKSPACE if source is None else _source_stream(source)
    return DocumentRef(f"page:{page_id}", stream, {"id": page_id})


def _is_stable(edited: str, now: datetime) -> bool:
    edited_at = parse_time(edited)
    return edited_at is not None and edited_at < now - _STABLE_AFTER


def _attachments(blocks: Sequence[dict[str, Any]]) -> list[Attachment]:
    """The files that Notion holds. A block that was edited may hold another file."""
    attachments: list[Attachment] = []
    for block in blocks:
        kind = str(block.get("type"))
        data = as_dict(block.get(kind))
        if kind in ("file", "pdf") and "file" in data:
            name = str(data.get("name") or rendering.plain_text(data.get("caption")) or f"file.{kind}")
            source_id = f"block:{block.get('id')}:{block.get('last_edited_time')}"
            attachments.append(
                Attachment(source_id, markup.strip_unstorable(name), locator={"block": str(block.get("id"))})
            )
        attachments += _attachments([as_dict(child) for child in as_list(block.get("children"))])
    return attachments


def _open(config: NotionConfig, credentials: NotionCredentials, limits: ConnectorLimits) -> Connector:
    headers = {
        "Authorization": f"Bearer {credentials.token.get_secret_value()}",
        "Notion-Version": API_VERSION,
    }
    # Files are at signed addresses elsewhere, which get no token.
    return NotionConnector(
        config, limits.transport(config.base_url, headers), limits.transport("https://files.invalid", {})
    )


KIND = ConnectorKind(
    "notion", NotionConfig, NotionCredentials, _open, CHECKPOINT_VERSION, "Notion", has_permissions=False
)
