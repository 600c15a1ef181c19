"""Jira's REST API: version 3 of Cloud, version 2 of Server and Data Center.

search      Cloud: POST /rest/api/3/search/jql, by `nextPageToken` (the old search answers 410)
            Data Center: POST /rest/api/2/search, by `startAt`
people      by `accountId` and `groupId` on Cloud, by `username` and `groupname` elsewhere
"""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from gristmill.connectors.atlassian import Person, a_dict, a_list, whole
from gristmill.connectors.github_api import server_time
from gristmill.connectors.transport import Params, Transport
from gristmill.errors import Unreadable

PAGE = 100
LIGHT_PAGE = 1000  # of ids and times alone
_MOST_PAGES = 1000
FIELDS = (
    *("summary", "description", "comment", "attachment", "updated", "created", "status", "issuetype"),
    *(
        "priority",
        "labels",
        "components",
        "assignee",
        "reporter",
        "project",
        "security",
        "resolution",
        "parent",
    ),
)


class JiraApi:
    """One Jira."""

    def __init__(self, transport: Transport, *, cloud: bool) -> None:
        self._transport, self.cloud = transport, cloud
        self._root = "/rest/api/3" if cloud else "/rest/api/2"

    async def close(self) -> None:
        """Close its connections."""
        await self._transport.close()

    async def myself(self) -> dict[str, Any]:
        """Who the credentials are, with their time zone."""
        return whole((await self._transport.get(f"{self._root}/myself")).data)

    async def projects(self) -> AsyncIterator[dict[str, Any]]:
        """Every project that the credentials see."""
        if not self.cloud:
            for project in a_list(
                (await self._transport.get(f"{self._root}/project", {"expand": "lead"})).data
            ):
                yield whole(project)
            return
        async for project in self._values(
            f"{self._root}/project/search", {"orderBy": "key", "expand": "lead"}
        ):
            yield project

    async def project(self, key: str) -> dict[str, Any]:
        """One project; a key that it had earlier finds it too."""
        return whole((await self._transport.get(f"{self._root}/project/{quote(key, safe='')}")).data)

    async def search(
        self, jql: str, fields: Sequence[str], size: int, cursor: str | None
    ) -> tuple[list[dict[str, Any]], str | None, datetime]:
        """A page of issues, the word for the next one, and Jira's time."""
        body: dict[str, Any] = {"jql": jql, "fields": list(fields), "maxResults": size}
        if self.cloud:
            if cursor is not None:
                body["nextPageToken"] = cursor
            answer = await self._transport.post(f"{self._root}/search/jql", body)
            data = whole(answer.data)
            token = data.get("nextPageToken")
            more = token if isinstance(token, str) and token and data.get("isLast") is not True else None
        else:
            start = int(cursor or 0)
            answer = await self._transport.post(f"{self._root}/search", body | {"startAt": start})
            data = whole(answer.data)
            end = start + len(a_list(data.get("issues")))
            more = str(end) if start < end < int(data.get("total") or 0) else None
        return [whole(issue) for issue in a_list(data.get("issues"))], more, server_time(answer)

    async def count(self, jql: str) -> int:
        """About how many issues there are."""
        if self.cloud:
            answer = await self._transport.post(f"{self._root}/search/approximate-count", {"jql": jql})
            return int(whole(answer.data).get("count") or 0)
        body = {"jql": jql, "maxResults": 0, "startAt": 0, "fields": ["id"]}
        answer = await self._transport.post(f"{self._root}/search", body)
        return int(whole(answer.data).get("total") or 0)

    async def issue(self, number: str) -> dict[str, Any]:
        """One issue as it is now."""
        path = f"{self._root}/issue/{quote(number, safe='')}"
        return whole((await self._transport.get(path, {"fields": ",".join(FIELDS)})).data)

    async def comments(self, number: str) -> list[dict[str, Any]]:
        """All comments of an issue, oldest first. Read again when some were deleted meanwhile, which shifts pages."""
        path = f"{self._root}/issue/{quote(number, safe='')}/comment"
        found: dict[str, dict[str, Any]] = {}
        for _ in range(3):
            found = {}
            total = start = 0
            while True:
                params: Params = {"startAt": start, "maxResults": PAGE, "orderBy": "created"}
                data = whole((await self._transport.get(path, params)).data)
                part = [whole(comment) for comment in a_list(data.get("comments"))]
                found |= {str(comment.get("id")): comment for comment in part}
                start += len(part)
                total = int(data.get("total") or 0)
                if not part or start >= total:
                    break
            if len(found) >= total:
                break
        return list(found.values())

    def content(self, locator: dict[str, Any]) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        if self.cloud:
            return self._transport.stream(
                f"{self._root}/attachment/content/{quote(str(locator['id']), safe='')}"
            )
        return self._transport.stream(str(locator["content"]))

    # ── who may see what ─────────────────────────────────────────────────────────────────────────────────

    async def scheme(self, project: str) -> list[dict[str, Any]]:
        """The grants of a project's permission scheme."""
        path = f"{self._root}/project/{project}/permissionscheme"
        data = whole((await self._transport.get(path, {"expand": "permissions,user,group,projectRole"})).data)
        if not isinstance(data.get("permissions"), list):
            raise Unreadable("The permission scheme came without its grants.", code="connector_refused")
        return [whole(grant) for grant in a_list(data["permissions"])]

    async def level_members(self, level: str) -> list[dict[str, Any]]:
        """Whom an issue security level lets in; Data Center does not tell."""
        if not self.cloud:
            raise Unreadable(
                "Data Center does not tell who is in a security level.", code="connector_refused"
            )
        path = f"{self._root}/issuesecurityschemes/level/member"
        return [member async for member in self._values(path, {"levelId": level})]

    async def role(self, project: str, role: str) -> list[dict[str, Any]]:
        """The actors of a role in a project."""
        data = whole((await self._transport.get(f"{self._root}/project/{project}/role/{role}")).data)
        return [whole(actor) for actor in a_list(data.get("actors"))]

    async def application_groups(self, key: str) -> list[str]:
        """The groups that an application role is made of: their ids on Cloud, their names elsewhere."""
        data = whole((await self._transport.get(f"{self._root}/applicationrole/{quote(key, safe='')}")).data)
        if self.cloud and data.get("groupDetails"):
            return [str(a_dict(group).get("groupId")) for group in a_list(data["groupDetails"])]
        return [str(name) for name in a_list(data.get("groups"))]

    async def group(self, name: str) -> list[Person]:
        """The members of a group, by its id on Cloud and its name elsewhere."""
        named = {"groupId" if self.cloud else "groupname": name}
        return [
            Person.of(member)
            async for member in self._values(
                f"{self._root}/group/member", {**named, "includeInactiveUsers": False}
            )
        ]

    async def user(self, account: str) -> Person:
        """One account, by its id on Cloud and its user name elsewhere."""
        named = {"accountId": account} if self.cloud else {"username": account}
        return Person.of(whole((await self._transport.get(f"{self._root}/user", named)).data))

    async def _values(self, path: str, params: Params) -> AsyncIterator[dict[str, Any]]:
        start = 0
        for _ in range(_MOST_PAGES):
            told = await self._transport.get(path, {**params, "startAt": start, "maxResults": 50})
            data = whole(told.data)
            values = a_list(data.get("values"))
            for value in values:
                yield whole(value)
            start += len(values)
            if not values or data.get("isLast") is True or start >= int(data.get("total") or start + 1):
                return
        raise Unreadable("A list of Jira's does not end.", code="connector_refused")


def instant(told: object) -> datetime | None:
    """Jira's times: an offset without a colon."""
    try:
        return datetime.fromisoformat(str(told)).astimezone(UTC)
    except ValueError:
        return None
