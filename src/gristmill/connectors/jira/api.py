"""Requests to Jira's REST API: version 3 of Cloud, version 2 of Server and Data Center.

search     Cloud: POST /rest/api/3/search/jql, by `nextPageToken` (the old search returns 410)
           Data Center: POST /rest/api/2/search, by `startAt`
users      by `accountId` and `groupId` on Cloud, by `username` and `groupname` elsewhere
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from gristmill.connectors.atlassian import AtlassianUser
from gristmill.connectors.json_values import as_dict, as_list, require_dict, require_list
from gristmill.connectors.transport import Params, Transport
from gristmill.errors import Unreadable

PAGE_SIZE = 100
IDS_PAGE_SIZE = 1000  # with ids and times only
_MAX_PAGES = 1000
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
    """Requests to one Jira."""

    def __init__(self, transport: Transport, *, cloud: bool) -> None:
        self.transport, self.cloud = transport, cloud
        self._root = "/rest/api/3" if cloud else "/rest/api/2"

    async def current_user(self) -> dict[str, Any]:
        """Who the credentials belong to, with their time zone."""
        return require_dict((await self.transport.get(f"{self._root}/myself")).data)

    async def site_url(self) -> str:
        """The address at which people open Jira."""
        return str(
            require_dict((await self.transport.get(f"{self._root}/serverInfo")).data).get("baseUrl") or ""
        )

    async def projects(self) -> AsyncIterator[dict[str, Any]]:
        """Every project that the credentials can see."""
        if not self.cloud:
            response = await self.transport.get(f"{self._root}/project", {"expand": "lead"})
            for project in require_list({"projects": response.data}, "projects"):
                yield require_dict(project)
            return
        async for project in self._iter_values(
            f"{self._root}/project/search", {"orderBy": "key", "expand": "lead"}
        ):
            yield project

    async def project(self, key: str) -> dict[str, Any]:
        """One project, also by a key that it had earlier."""
        return require_dict((await self.transport.get(f"{self._root}/project/{quote(key, safe='')}")).data)

    async def search(
        self, jql: str, fields: Sequence[str], size: int, cursor: str | None
    ) -> tuple[list[dict[str, Any]], str | None, datetime]:
        """A page of issues, the cursor of the next one, and Jira's time."""
        body: dict[str, Any] = {"jql": jql, "fields": list(fields), "maxResults": size}
        if self.cloud:
            if cursor is not None:
                body["nextPageToken"] = cursor
            response = await self.transport.post(f"{self._root}/search/jql", body)
            data = require_dict(response.data)
            token = data.get("nextPageToken")
            next_cursor = (
                token if isinstance(token, str) and token and data.get("isLast") is not True else None
            )
        else:
            start = int(cursor or 0)
            response = await self.transport.post(f"{self._root}/search", body | {"startAt": start})
            data = require_dict(response.data)
            end = start + len(require_list(data, "issues"))
            next_cursor = str(end) if start < end < int(data.get("total") or 0) else None
        return (
            [require_dict(issue) for issue in require_list(data, "issues")],
            next_cursor,
            response.server_time,
        )

    async def count(self, jql: str) -> int:
        """About how many issues there are."""
        if self.cloud:
            response = await self.transport.post(f"{self._root}/search/approximate-count", {"jql": jql})
            return int(require_dict(response.data).get("count") or 0)
        body = {"jql": jql, "maxResults": 0, "startAt": 0, "fields": ["id"]}
        response = await self.transport.post(f"{self._root}/search", body)
        return int(require_dict(response.data).get("total") or 0)

    async def issue(self, number: str) -> dict[str, Any]:
        """One issue as it is now."""
        path = f"{self._root}/issue/{quote(number, safe='')}"
        return require_dict((await self.transport.get(path, {"fields": ",".join(FIELDS)})).data)

    async def comments(self, number: str) -> list[dict[str, Any]]:
        """All comments of an issue, oldest first. Read again when some were deleted meanwhile, because that shifts pages."""
        path = f"{self._root}/issue/{quote(number, safe='')}/comment"
        comments: dict[str, dict[str, Any]] = {}
        for _ in range(3):
            comments = {}
            total = start = 0
            while True:
                params: Params = {"startAt": start, "maxResults": PAGE_SIZE, "orderBy": "created"}
                data = require_dict((await self.transport.get(path, params)).data)
                part = [require_dict(comment) for comment in require_list(data, "comments")]
                comments |= {str(comment.get("id")): comment for comment in part}
                start += len(part)
                total = int(data.get("total") or 0)
                if not part or start >= total:
                    break
            if len(comments) >= total:
                break
        return list(comments.values())

    def attachment_bytes(self, locator: dict[str, Any]) -> AsyncIterator[bytes]:
        """The bytes of an attachment."""
        if self.cloud:
            return self.transport.stream(
                f"{self._root}/attachment/content/{quote(str(locator['id']), safe='')}"
            )
        return self.transport.stream(str(locator["content"]))

    # ── who may see what ─────────────────────────────────────────────────────────────────────────────────

    async def permission_grants(self, project: str) -> list[dict[str, Any]]:
        """The grants of a project's permission scheme."""
        path = f"{self._root}/project/{project}/permissionscheme"
        data = require_dict(
            (await self.transport.get(path, {"expand": "permissions,user,group,projectRole"})).data
        )
        if not isinstance(data.get("permissions"), list):
            raise Unreadable(
                "Jira returned the permission scheme without its grants.", code="connector_refused"
            )
        return [require_dict(grant) for grant in as_list(data["permissions"])]

    async def level_members(self, level: str) -> list[dict[str, Any]]:
        """The members of an issue security level; Data Center does not return them."""
        if not self.cloud:
            raise Unreadable(
                "Data Center does not return the members of a security level.", code="connector_refused"
            )
        path = f"{self._root}/issuesecurityschemes/level/member"
        return [member async for member in self._iter_values(path, {"levelId": level})]

    async def role_actors(self, project: str, role: str) -> list[dict[str, Any]]:
        """The actors of a role in a project."""
        data = require_dict((await self.transport.get(f"{self._root}/project/{project}/role/{role}")).data)
        return [require_dict(actor) for actor in as_list(data.get("actors"))]

    async def application_groups(self, key: str) -> list[str]:
        """The groups of an application role: by id on Cloud, by name elsewhere."""
        data = require_dict(
            (await self.transport.get(f"{self._root}/applicationrole/{quote(key, safe='')}")).data
        )
        if self.cloud and data.get("groupDetails"):
            return [str(as_dict(group).get("groupId")) for group in as_list(data["groupDetails"])]
        return [str(name) for name in as_list(data.get("groups"))]

    async def group_members(self, name: str) -> list[AtlassianUser]:
        """The members of a group, by its id on Cloud and its name elsewhere."""
        params = {"groupId" if self.cloud else "groupname": name}
        return [
            AtlassianUser.from_json(member)
            async for member in self._iter_values(
                f"{self._root}/group/member", {**params, "includeInactiveUsers": False}
            )
        ]

    async def user(self, account: str) -> AtlassianUser:
        """One account, by its id on Cloud and its user name elsewhere."""
        params = {"accountId": account} if self.cloud else {"username": account}
        return AtlassianUser.from_json(
            require_dict((await self.transport.get(f"{self._root}/user", params)).data)
        )

    async def _iter_values(self, path: str, params: Params) -> AsyncIterator[dict[str, Any]]:
        start = 0
        for _ in range(_MAX_PAGES):
            response = await self.transport.get(path, {**params, "startAt": start, "maxResults": 50})
            data = require_dict(response.data)
            values = require_list(data, "values")
            for value in values:
                yield require_dict(value)
            start += len(values)
            if not values or data.get("isLast") is True or start >= int(data.get("total") or start + 1):
                return
        raise Unreadable("A list in Jira does not end.", code="connector_refused")
