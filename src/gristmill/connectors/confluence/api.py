"""Requests to Confluence's REST API: version 2 of Cloud, with version 1 for what it lacks; and that of Data Center.

    pages, blog posts, spaces      Cloud: /wiki/api/v2, by cursors; elsewhere /rest/api/content/search, by CQL and offsets
    comments, attachments          CQL on both
    many contents by id            CQL on both, with bodies, restrictions and attachments
    restrictions, groups, users    /wiki/rest/api on Cloud, /rest/api elsewhere

A page of a list may be empty and still have a next one, which is followed a few times.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import parse_qs, quote, urlsplit

from gristmill.connectors.atlassian import AtlassianUser
from gristmill.connectors.json_values import as_dict, require_dict, require_list
from gristmill.connectors.transport import ApiResponse, Params, Transport
from gristmill.errors import SourceGone, Unreadable

IDS_PAGE_SIZE = 200
PAGE_SIZE = 50  # with bodies: Data Center returns no more, and Cloud may return fewer
_IDS_AT_ONCE = 100  # in the address of a request
_MAX_EMPTY_PAGES = 20
_MAX_PAGES = 20_000
_RESTRICTIONS_EXPAND = "restrictions.user,restrictions.group"


@dataclass(frozen=True)
class ResultPage:
    """A page of results, the cursor of the next one, and Confluence's time."""

    results: list[dict[str, Any]]
    next_cursor: str | None
    now: datetime


class ConfluenceApi:
    """Requests to one Confluence."""

    def __init__(self, transport: Transport, *, cloud: bool) -> None:
        self.transport, self.cloud = transport, cloud
        self._v1 = "/wiki/rest/api" if cloud else "/rest/api"
        self._v2 = "/wiki/api/v2"

    async def current_user(self) -> AtlassianUser:
        """Who the credentials belong to."""
        return AtlassianUser.from_json(await self._get(f"{self._v1}/user/current"))

    async def site_url(self) -> str:
        """Cloud: the address at which people open Confluence, with its `/wiki`."""
        data = await self._get(f"{self._v2}/spaces", {"limit": 1})
        return str(as_dict(data.get("_links")).get("base") or "")

    # ── spaces ───────────────────────────────────────────────────────────────────────────────────────────

    async def spaces(self) -> AsyncIterator[dict[str, Any]]:
        """Every space that the credentials can see."""
        if self.cloud:
            async for space in self._iter_all(f"{self._v2}/spaces", {"status": "current", "limit": 250}):
                yield space
            return
        async for space in self._iter_all(f"{self._v1}/space", {"status": "current", "limit": 100}):
            yield space

    async def space(self, key: str) -> dict[str, Any] | None:
        """The space with this key."""
        if not self.cloud:
            return await self._get(f"{self._v1}/space/{quote(key, safe='')}")
        async for space in self._iter_all(f"{self._v2}/spaces", {"keys": key, "limit": 25}):
            if space.get("key") == key:
                return space
        return None

    # ── content ──────────────────────────────────────────────────────────────────────────────────────────

    async def list_contents(self, space: str, kind: str, sort: str, cursor: str | None) -> ResultPage:
        """Cloud: a page of the pages or blog posts of a space, without bodies."""
        params: Params = {"status": "current", "sort": sort, "limit": 250, "cursor": cursor}
        return await self._fetch_page(f"{self._v2}/spaces/{space}/{kind}s", params)

    async def content(self, kind: str, number: str) -> dict[str, Any]:
        """Cloud: a page or blog post with its body."""
        return await self._get(f"{self._v2}/{kind}s/{number}", {"body-format": "storage"})

    async def by_id(self, number: str, expand: str) -> dict[str, Any]:
        """Version 1: any content."""
        return await self._get(f"{self._v1}/content/{number}", {"expand": expand})

    async def search(self, cql: str, expand: str, limit: int, cursor: str | None) -> ResultPage:
        """A page of CQL results."""
        cursor_param = {"cursor" if self.cloud else "start": cursor}
        params: Params = {"cql": cql, "expand": expand or None, "limit": limit, **cursor_param}
        return await self._fetch_page(f"{self._v1}/content/search", params)

    async def search_ids(self, numbers: Sequence[str], expand: str) -> dict[str, dict[str, Any]]:
        """Those of these contents that a search finds, by id. Its index can be some seconds behind."""
        contents: dict[str, dict[str, Any]] = {}
        for start in range(0, len(numbers), _IDS_AT_ONCE):
            part, cursor = numbers[start : start + _IDS_AT_ONCE], None
            for _ in range(_MAX_PAGES):  # a page may be smaller than was asked for
                page = await self.search(f"id in ({', '.join(part)})", expand, len(part), cursor)
                contents |= {str(content.get("id")): content for content in page.results}
                if page.next_cursor is None or page.next_cursor == cursor:
                    break
                cursor = page.next_cursor
        return contents

    async def pages_by_id(self, numbers: Sequence[str]) -> list[dict[str, Any]]:
        """Cloud: those of these pages that the credentials can see, without bodies."""
        pages: list[dict[str, Any]] = []
        for start in range(0, len(numbers), _IDS_AT_ONCE):
            ids = ",".join(numbers[start : start + _IDS_AT_ONCE])
            pages += [page async for page in self._iter_all(f"{self._v2}/pages", {"id": ids, "limit": 250})]
        return pages

    async def ancestors(self, number: str) -> list[str]:
        """Cloud: the ids of a page's ancestors, of whatever type."""
        data = await self._get(f"{self._v2}/pages/{number}/ancestors", {"limit": 250})
        return [str(as_dict(ancestor).get("id")) for ancestor in require_list(data, "results")]

    async def attachments(self, kind: str, number: str) -> list[dict[str, Any]]:
        """The attachments of a page or blog post."""
        if self.cloud:
            path, params = f"{self._v2}/{kind}s/{number}/attachments", {"limit": 250}
        else:
            path, params = (
                f"{self._v1}/content/{number}/child/attachment",
                {"limit": 100, "expand": "version"},
            )
        return [attachment async for attachment in self._iter_all(path, params)]

    async def has_comment(self, number: str) -> bool:
        """Cloud: whether there is a comment with this id, on a page or on its lines."""
        for kind in ("footer-comments", "inline-comments"):
            with suppress(SourceGone):
                return (await self._get(f"{self._v2}/{kind}/{number}")).get("status") == "current"
        return False

    async def attachment_page(self, number: str) -> tuple[str, str]:
        """What an attachment belongs to: its type and id."""
        if not self.cloud:
            container = as_dict((await self.by_id(number, "container")).get("container"))
            return str(container.get("type")), str(container.get("id"))
        data = await self._get(f"{self._v2}/attachments/{quote(number, safe='')}")
        kinds = (("page", "pageId"), ("blogpost", "blogPostId"))
        return next(((kind, str(data[key])) for kind, key in kinds if data.get(key)), ("unknown", ""))

    def download(self, locator: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        if not self.cloud:
            return self.transport.stream(str(locator["download"]))
        page, number = quote(str(locator["page"]), safe=""), quote(str(locator["id"]), safe="")
        return self.transport.stream(f"{self._v1}/content/{page}/child/attachment/{number}/download")

    # ── who may see what ─────────────────────────────────────────────────────────────────────────────────

    async def space_permissions(self, space: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Who may read a space, each as {type, id} of a user, a group or something else."""
        if self.cloud:
            entries = self._iter_all(f"{self._v2}/spaces/{space['id']}/permissions", {"limit": 250})
            return [
                as_dict(entry.get("principal"))
                async for entry in entries
                if as_dict(entry.get("operation")) == {"key": "read", "targetType": "space"}
            ]
        path = f"{self._v1}/space/{quote(str(space['key']), safe='')}/permissions"
        permissions: object = (await self.transport.get(path)).data
        if not isinstance(permissions, list):
            raise Unreadable(
                "Confluence did not return the permissions of a space.", code="connector_refused"
            )
        return [
            _subject(permission)
            for permission in cast(list[Any], permissions)
            if _is_space_read(as_dict(permission))
        ]

    async def restrictions(self, number: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The users and groups that a page is restricted to; both empty when it isn't restricted."""
        users: list[dict[str, Any]] = []
        groups: list[dict[str, Any]] = []
        path, start = f"{self._v1}/content/{number}/restriction/byOperation/read", 0
        for _ in range(100):
            data = await self._get(path, {"expand": _RESTRICTIONS_EXPAND, "start": start, "limit": 100})
            restrictions = as_dict(data.get("restrictions"))
            page_users = require_list(restrictions.get("user"), "results")
            page_groups = require_list(restrictions.get("group"), "results")
            users += page_users
            groups += page_groups
            start += 100
            if len(page_users) < 100 and len(page_groups) < 100:
                return users, groups
        raise Unreadable("The list of a page's restrictions does not end.", code="connector_refused")

    async def group(self, group: str) -> list[AtlassianUser]:
        """The members of a group, by its id on Cloud and its name elsewhere."""
        name = quote(group, safe="")
        path = (
            f"{self._v1}/group/{name}/membersByGroupId" if self.cloud else f"{self._v1}/group/{name}/member"
        )
        members: list[AtlassianUser] = []
        start = 0
        for _ in range(_MAX_PAGES):
            data = await self._get(path, {"start": start, "limit": 200})
            results = require_list(data, "results")
            members += [AtlassianUser.from_json(require_dict(member)) for member in results]
            start += len(results)
            if not results or not as_dict(data.get("_links")).get("next"):
                return members
        raise Unreadable("The list of a group's members does not end.", code="connector_refused")

    async def user(self, account: str) -> AtlassianUser:
        """One account."""
        params = {"accountId": account} if self.cloud else {"key": account}
        return AtlassianUser.from_json(await self._get(f"{self._v1}/user", params))

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────

    async def _get(self, path: str, params: Params | None = None) -> dict[str, Any]:
        return require_dict((await self.transport.get(path, params)).data)

    async def _fetch_page(self, path: str, params: Params) -> ResultPage:
        response = await self.transport.get(path, params)
        data = require_dict(response.data)
        results = [require_dict(result) for result in require_list(data, "results")]
        return ResultPage(results, _next_cursor(response, data, params, len(results)), response.server_time)

    async def _iter_all(self, path: str, params: Params) -> AsyncIterator[dict[str, Any]]:
        cursor_name = "cursor" if path.startswith(self._v2) else "start"
        cursor: str | None = None
        empty = 0
        for _ in range(_MAX_PAGES):
            page = await self._fetch_page(path, {**params, cursor_name: cursor})
            for result in page.results:
                yield result
            empty = 0 if page.results else empty + 1
            if page.next_cursor is None or page.next_cursor == cursor or empty > _MAX_EMPTY_PAGES:
                return
            cursor = page.next_cursor
        raise Unreadable("A list in Confluence does not end.", code="connector_refused")


def _next_cursor(response: ApiResponse, data: Mapping[str, Any], params: Params, size: int) -> str | None:
    """The cursor of the next page, or its offset."""
    next_link = as_dict(data.get("_links")).get("next") or response.link("next")
    if not isinstance(next_link, str) or not next_link:
        return None
    query = parse_qs(urlsplit(next_link).query)
    if "cursor" in query:
        return query["cursor"][0]
    if "start" in query:
        return query["start"][0]
    return str(int(str(params.get("start") or 0)) + size) if size else None


def _is_space_read(permission: Mapping[str, Any]) -> bool:
    operation = as_dict(permission.get("operation"))
    key = operation.get("operationKey") or operation.get("operation") or operation.get("key")
    return key == "read" and operation.get("targetType") == "space"


def _subject(permission: Mapping[str, Any]) -> dict[str, Any]:
    """A permission of Data Center in the format of Cloud."""
    subject = as_dict(permission.get("subject"))
    if subject.get("type") == "group" and subject.get("name"):
        return {"type": "group", "id": str(subject["name"])}
    if subject.get("userKey"):
        return {"type": "user", "id": str(subject["userKey"]), "person": subject}
    return {"type": str(subject.get("type") or "unknown"), "id": ""}
