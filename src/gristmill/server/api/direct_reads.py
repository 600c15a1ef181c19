"""The two most frequent reads, an item and a page of items, without the framework.

The framework resolves dependencies and validates the response for every request, which costs more than the read itself. A plain
request for one of these routes is served here: the same statement, the same model, the same bytes. The caller, its rate limit and
the access rule were checked before (`request_context.py`), and errors are answered there.

Whatever is not plain (another query parameter, a value that is not valid, a request on behalf of a person) goes on to the route,
which is also what the OpenAPI schema describes. A test compares both responses.

Only direct reads use callers that were looked up before. Their statement checks that the key is still as it was then, so that
a key that is revoked, changed or expired reads nothing more; the key is then looked up again.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from starlette.types import ASGIApp, Receive, Scope, Send

from gristmill import catalog
from gristmill.catalog import ItemId, Viewer
from gristmill.operations import guards
from gristmill.server.api import caller as callers
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import (
    ON_BEHALF,
    ApiContext,
    missing_key_error,
    parse_base_id,
    parse_item_id,
)
from gristmill.server.api.etags import etag
from gristmill.server.api.schemas.common import Page
from gristmill.server.api.schemas.items import ItemOut

_ON_BEHALF = ON_BEHALF.lower().encode()
_DEFAULT_LIMIT = 100  # of `list_items`
_ITEM_PATH = re.compile(r"/api/knowledge-items/(?P<item_id>[^/]+)")
_ITEMS_PATH = re.compile(r"/api/knowledge-bases/(?P<base_id>[^/]+)/items")
_PLAIN_QUERY = re.compile(
    rb"(?:limit=(?P<limit>[1-9]\d?|[1-4]\d\d|500))?"
    rb"(?:(?:^|(?<=.)&)cursor=(?P<cursor>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?"
)
_DIRECT_READ = "direct_read"  # in the state of a request
_ItemPage = Page[ItemOut]
_Response = tuple[bytes, list[tuple[bytes, bytes]]]  # body, headers


@dataclass(frozen=True)
class _ItemRead:
    item_id: str


@dataclass(frozen=True)
class _PageRead:
    base_id: str
    limit: int
    after: ItemId | None


def plan_read(scope: Scope) -> bool:
    """Whether the request is a direct read; it is remembered in the state of the request."""
    if scope["method"] != "GET" or any(name == _ON_BEHALF for name, _ in scope["headers"]):
        return False
    read = _plain_read(scope["path"], scope["query_string"])
    if read is not None:
        scope.setdefault("state", {})[_DIRECT_READ] = read
    return read is not None


def _plain_read(path: str, query_string: bytes) -> _ItemRead | _PageRead | None:
    if item := _ITEM_PATH.fullmatch(path):
        return _ItemRead(item["item_id"])
    items, query = _ITEMS_PATH.fullmatch(path), _PLAIN_QUERY.fullmatch(query_string)
    if items is None or query is None:
        return None
    after = None if query["cursor"] is None else ItemId(UUID(query["cursor"].decode()))
    return _PageRead(items["base_id"], int(query["limit"] or _DEFAULT_LIMIT), after)


class DirectReads:
    """Middleware that serves direct reads, and passes other requests on."""

    def __init__(self, app: ASGIApp, *, context: ApiContext) -> None:
        self._app, self._context, self._reads = app, context, context.db.reads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond, or pass the request on."""
        read: _ItemRead | _PageRead | None = scope.get("state", {}).get(_DIRECT_READ)
        caller = callers.current_caller(scope)
        if read is None or caller is None:
            await self._app(scope, receive, send)
            return
        body, headers = await self._serve(read, caller, scope)
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    *headers,
                    (b"content-length", b"%d" % len(body)),
                    (b"content-type", b"application/json"),
                ],
            }
        )
        await send({"type": "http.response.body", "body": body})

    async def _serve(self, read: _ItemRead | _PageRead, caller: Caller, scope: Scope) -> _Response:
        if isinstance(read, _ItemRead):
            return await self._get_item(read, caller, scope)
        return await self._list_items(read, caller, scope)

    async def _get_item(self, read: _ItemRead, caller: Caller, scope: Scope) -> _Response:
        item_id = await parse_item_id(read.item_id)
        item = await catalog.read_item(self._reads, item_id, caller.viewer, caller.key)
        if item is None:
            item = await guards.require_item(self._reads, item_id, await self._current_viewer(scope))
        body = ItemOut.__pydantic_serializer__.to_json(ItemOut.of(item), by_alias=True)
        return body, [(b"etag", etag(item.updated_at).encode())]

    async def _list_items(self, read: _PageRead, caller: Caller, scope: Scope) -> _Response:
        base_id, limit = await parse_base_id(read.base_id), read.limit
        items = await catalog.read_roots(
            self._reads, base_id, caller.viewer, caller.key, limit=limit, after=read.after
        )
        if not items:
            viewer = await self._current_viewer(scope)
            await guards.require_base(self._reads, base_id, viewer)
            items = await catalog.read_roots(
                self._reads, base_id, viewer, None, limit=limit, after=read.after
            )
        next_cursor = str(items[-1].id) if len(items) == limit else None
        page = _ItemPage(items=[ItemOut.of(item) for item in items], next_cursor=next_cursor)
        return _ItemPage.__pydantic_serializer__.to_json(page, by_alias=True), []

    async def _current_viewer(self, scope: Scope) -> Viewer:
        """The viewer of the caller as it is now, where the statement found nothing: perhaps because of the key."""
        caller = await callers.identify(self._context.db, self._context.settings, scope)
        if caller is None:
            raise missing_key_error()
        return caller.viewer
