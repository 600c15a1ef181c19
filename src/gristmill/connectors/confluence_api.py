"""Confluence's REST API: version 2 of Cloud, with version 1 for what it lacks; and that of Server and Data Center.

    pages, blog posts, spaces      Cloud: /wiki/api/v2, by cursors; elsewhere /rest/api/content/search, by CQL and offsets
    comments, what was attached    CQL on both
    restrictions, groups, people   /wiki/rest/api on Cloud, /rest/api elsewhere

A page of a list may be empty and still have a next one: it is followed, a few times.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qs, quote, urlsplit

from gristmill.connectors.atlassian import Person, a_dict, a_list, whole
from gristmill.connectors.github_api import server_time
from gristmill.connectors.transport import Answer, Params, Transport
from gristmill.errors import Unreadable

LIGHT_PAGE = 200
PAGE = 50  # with bodies
_EMPTY = 20
_MOST_PAGES = 20_000
_RESTRICTED = "restrictions.user,restrictions.group"


@dataclass(frozen=True)
class Part:
    """A page of a list, the word for the next one, and Confluence's time."""

    results: list[dict[str, Any]]
    more: str | None
    now: datetime


class ConfluenceApi:
    """One Confluence."""

    def __init__(self, transport: Transport, *, cloud: bool) -> None:
        self._transport, self.cloud = transport, cloud
        self._v1 = "/wiki/rest/api" if cloud else "/rest/api"
        self._v2 = "/wiki/api/v2"

    async def close(self) -> None:
        """Close its connections."""
        await self._transport.close()

    async def myself(self) -> Person:
        """Who the credentials are."""
        return Person.of(await self._get(f"{self._v1}/user/current"))

    # ── spaces ───────────────────────────────────────────────────────────────────────────────────────────

    async def spaces(self) -> AsyncIterator[dict[str, Any]]:
        """Every space that the credentials see."""
        if self.cloud:
            async for space in self._all(f"{self._v2}/spaces", {"status": "current", "limit": 250}):
                yield space
            return
        async for space in self._all(f"{self._v1}/space", {"status": "current", "limit": 100}):
            yield space

    async def space(self, key: str) -> dict[str, Any] | None:
        """The space of a key."""
        if not self.cloud:
            return await self._get(f"{self._v1}/space/{quote(key, safe='')}")
        async for space in self._all(f"{self._v2}/spaces", {"keys": key, "limit": 25}):
            if space.get("key") == key:
                return space
        return None

    # ── content ──────────────────────────────────────────────────────────────────────────────────────────

    async def list_by(self, space: str, kind: str, sort: str, cursor: str | None) -> Part:
        """Cloud: a page of the pages or blog posts of a space, without bodies."""
        params: Params = {"status": "current", "sort": sort, "limit": 250, "cursor": cursor}
        return await self._part(f"{self._v2}/spaces/{space}/{kind}s", params)

    async def content(self, kind: str, number: str) -> dict[str, Any]:
        """Cloud: a page or blog post with its body."""
        return await self._get(f"{self._v2}/{kind}s/{number}", {"body-format": "storage"})

    async def by_id(self, number: str, expand: str) -> dict[str, Any]:
        """Version 1: any content."""
        return await self._get(f"{self._v1}/content/{number}", {"expand": expand})

    async def search(self, cql: str, expand: str, limit: int, cursor: str | None) -> Part:
        """A page of what CQL finds."""
        place = {"cursor" if self.cloud else "start": cursor}
        params: Params = {"cql": cql, "expand": expand or None, "limit": limit, **place}
        return await self._part(f"{self._v1}/content/search", params)

    async def ancestors(self, kind: str, number: str) -> list[str]:
        """Cloud: what a page lies in, whatever that is."""
        if kind != "page":
            return []
        data = await self._get(f"{self._v2}/pages/{number}/ancestors", {"limit": 250})
        return [str(a_dict(one).get("id")) for one in a_list(data.get("results"))]

    async def attachments(self, kind: str, number: str) -> list[dict[str, Any]]:
        """What is attached to a page or blog post."""
        if self.cloud:
            path, params = f"{self._v2}/{kind}s/{number}/attachments", {"limit": 250}
        else:
            path, params = (
                f"{self._v1}/content/{number}/child/attachment",
                {"limit": 100, "expand": "version"},
            )
        return [one async for one in self._all(path, params)]

    def download(self, locator: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        if not self.cloud:
            return self._transport.stream(str(locator["download"]))
        page, number = quote(str(locator["page"]), safe=""), quote(str(locator["id"]), safe="")
        return self._transport.stream(f"{self._v1}/content/{page}/child/attachment/{number}/download")

    # ── who may see what ─────────────────────────────────────────────────────────────────────────────────

    async def space_permissions(self, space: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Whom a space is open to, each as {type, id} of a user, a group or something else."""
        if self.cloud:
            found = self._all(f"{self._v2}/spaces/{space['id']}/permissions", {"limit": 250})
            return [
                a_dict(one.get("principal"))
                async for one in found
                if a_dict(one.get("operation")) == {"key": "read", "targetType": "space"}
            ]
        path = f"{self._v1}/space/{quote(str(space['key']), safe='')}/permissions"
        told: object = (await self._transport.get(path)).data
        if not isinstance(told, list):
            raise Unreadable("Confluence did not tell the permissions of a space.", code="connector_refused")
        return [_subject(one) for one in cast(list[Any], told) if _reads_space(a_dict(one))]

    async def restrictions(self, number: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Whom a page is restricted to: users and groups; none at all when it isn't restricted."""
        users: list[dict[str, Any]] = []
        groups: list[dict[str, Any]] = []
        path, start = f"{self._v1}/content/{number}/restriction/byOperation/read", 0
        for _ in range(100):
            told = await self._get(path, {"expand": _RESTRICTED, "start": start, "limit": 100})
            held = a_dict(told.get("restrictions"))
            some = a_list(a_dict(held.get("user")).get("results"))
            more = a_list(a_dict(held.get("group")).get("results"))
            users += some
            groups += more
            start += 100
            if len(some) < 100 and len(more) < 100:
                return users, groups
        raise Unreadable("The restrictions of a page do not end.", code="connector_refused")

    async def group(self, group: str) -> list[Person]:
        """The members of a group, by its id on Cloud and its name elsewhere."""
        name = quote(group, safe="")
        path = (
            f"{self._v1}/group/{name}/membersByGroupId" if self.cloud else f"{self._v1}/group/{name}/member"
        )
        members: list[Person] = []
        start = 0
        for _ in range(_MOST_PAGES):
            told = await self._get(path, {"start": start, "limit": 200})
            part = a_list(told.get("results"))
            members += [Person.of(whole(one)) for one in part]
            start += len(part)
            if not part or not a_dict(told.get("_links")).get("next"):
                return members
        raise Unreadable("The members of a group do not end.", code="connector_refused")

    async def user(self, account: str) -> Person:
        """One account."""
        named = {"accountId": account} if self.cloud else {"key": account}
        return Person.of(await self._get(f"{self._v1}/user", named))

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────

    async def _get(self, path: str, params: Params | None = None) -> dict[str, Any]:
        return whole((await self._transport.get(path, params)).data)

    async def _part(self, path: str, params: Params) -> Part:
        answer = await self._transport.get(path, params)
        data = whole(answer.data)
        results = [whole(one) for one in a_list(data.get("results"))]
        return Part(results, _next(answer, data, params, len(results)), server_time(answer))

    async def _all(self, path: str, params: Params) -> AsyncIterator[dict[str, Any]]:
        word = "cursor" if path.startswith(self._v2) else "start"
        more: str | None = None
        empty = 0
        for _ in range(_MOST_PAGES):
            part = await self._part(path, {**params, word: more})
            for one in part.results:
                yield one
            empty = 0 if part.results else empty + 1
            if part.more is None or part.more == more or empty > _EMPTY:
                return
            more = part.more
        raise Unreadable("A list of Confluence's does not end.", code="connector_refused")


def _next(answer: Answer, data: Mapping[str, Any], params: Params, size: int) -> str | None:
    """The word for the next page: a cursor, or where it starts."""
    told = a_dict(data.get("_links")).get("next") or answer.link("next")
    if not isinstance(told, str) or not told:
        return None
    asked = parse_qs(urlsplit(told).query)
    if "cursor" in asked:
        return asked["cursor"][0]
    if "start" in asked:
        return asked["start"][0]
    return str(int(str(params.get("start") or 0)) + size) if size else None


def _reads_space(permission: Mapping[str, Any]) -> bool:
    operation = a_dict(permission.get("operation"))
    key = operation.get("operationKey") or operation.get("operation") or operation.get("key")
    return key == "read" and operation.get("targetType") == "space"


def _subject(permission: Mapping[str, Any]) -> dict[str, Any]:
    """As Cloud tells it."""
    subject = a_dict(permission.get("subject"))
    if subject.get("type") == "group" and subject.get("name"):
        return {"type": "group", "id": str(subject["name"])}
    if subject.get("userKey"):
        return {"type": "user", "id": str(subject["userKey"]), "person": subject}
    return {"type": str(subject.get("type") or "unknown"), "id": ""}


def instant(told: object) -> datetime | None:
    """Confluence's times."""
    try:
        return datetime.fromisoformat(str(told).replace("Z", "+00:00")).astimezone(UTC)
    except ValueError:
        return None
