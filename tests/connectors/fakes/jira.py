"""A fake Jira with the part of its API that we use: Cloud with page tokens, Data Center with offsets; both compare times by the minute."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.connectors.fakes.jira_model import Issue, JiraModel, Project, permission_holder
from tests.connectors.fakes.tool import FakeCall, FakeComment, FakeError
from tests.sources.site import SiteResponse

_JQL = re.compile(
    r"project = (?P<project>\d+)(?: AND \((?P<filter>[^()]*)\))?"
    r'(?: AND updated >= "(?P<since>[\d -]{11}\d\d:\d\d)")?(?: AND updated < "(?P<before>[\d -]{11}\d\d:\d\d)")?'
    r"(?: ORDER BY (?P<order>updated ASC, key ASC|key DESC))?"
)
_BY_ID = re.compile(r"id = (?P<id>\d+) AND \((?P<filter>[^()]*)\)")


class FakeJira(JiraModel):
    """Jira Cloud with two projects, in New York."""

    kind = "jira"
    root = "/rest/api/3"
    zone = "America/New_York"
    shows_zone = True
    shown_zone: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self._add_routes()

    def _add_routes(self) -> None:
        for method, pattern, route in (
            ("GET", "/myself", self._myself),
            ("GET", "/project/search", self._search_projects),
            ("GET", "/project", self._all_projects),
            ("GET", "/project/{name}", self._project),
            ("POST", "/search/jql", self.cloud_search),
            ("POST", "/search", self._offset_search),
            ("POST", "/search/approximate-count", self._count),
            ("GET", "/issue/{number}", self._issue),
            ("GET", "/issue/{number}/comment", self._comments),
            ("GET", "/attachment/content/{number}", self.content),
            ("GET", "/project/{number}/permissionscheme", self._permission_scheme),
            ("GET", "/project/{number}/role/{role}", self._role),
            ("GET", "/issuesecurityschemes/level/member", self._members_of_level),
            ("GET", "/group/member", self._group),
            ("GET", "/user", self._user),
        ):
            self.route(method, self.root + pattern, route)

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.endswith("/comment")

    def _myself(self, call: FakeCall) -> Any:
        return {
            "accountId": "r",
            "displayName": "Robot",
            **({"timeZone": self.shown_zone or self.zone} if self.shows_zone else {}),
        }

    def _project_json(self, project: Project) -> dict[str, Any]:
        return {"id": str(project.id), "key": project.key, "name": project.key, "lead": {"accountId": "a:1"}}

    def _search_projects(self, call: FakeCall) -> Any:
        call.require_only("orderBy", "expand", "startAt", "maxResults")
        return self.values_page(call, [self._project_json(project) for project in self.projects])

    def _all_projects(self, call: FakeCall) -> Any:
        assert not self.cloud
        return [self._project_json(project) for project in self.projects]

    def _project(self, call: FakeCall, name: str) -> Any:
        return self._project_json(self._find_project(name))

    def _find_project(self, name: str) -> Project:
        for project in self.projects:
            if name in (str(project.id), project.key):
                return project
        raise FakeError(404)

    def values_page(self, call: FakeCall, values: list[Any]) -> Any:
        start, size = (
            int(call.params.get("startAt", 0)),
            min(self.page_size, int(call.params.get("maxResults", 50))),
        )
        page = values[start : start + size]
        end = start + len(page)
        return {
            "values": page,
            "startAt": start,
            "maxResults": size,
            "total": len(values),
            "isLast": end >= len(values),
        }

    def search(self, jql: str) -> list[tuple[Project, Issue]]:
        """The results of a JQL query, which compares times by the minute in the user's time zone."""
        if by_id := _BY_ID.fullmatch(jql):
            hits = [hit for hit in self.all_issues() if hit[1].id == int(by_id["id"])]
            return [hit for hit in hits if self._passes(hit[1], by_id["filter"])]
        query = _JQL.fullmatch(jql)
        assert query, jql
        hits = [
            (project, issue)
            for project, issue in self.all_issues()
            if project.id == int(query["project"])
            and self._passes(issue, query["filter"])
            and (query["since"] is None or issue.updated >= self._parse_minute(query["since"]))
            and (query["before"] is None or issue.updated < self._parse_minute(query["before"]))
        ]
        if query["order"] == "key DESC":
            return sorted(hits, key=lambda hit: -hit[1].number)
        return sorted(hits, key=lambda hit: (hit[1].updated, hit[1].number))

    def _passes(self, issue: Issue, condition: str | None) -> bool:
        return not condition or condition.removeprefix("labels = ") in issue.labels

    def _parse_minute(self, text: str) -> datetime:
        # When the clock repeats an hour, take the later one: the worst choice that a server can make.
        return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=ZoneInfo(self.zone), fold=1)

    def cloud_search(self, call: FakeCall) -> Any:
        if not self.cloud:
            raise FakeError(404)
        assert set(call.body) <= {"jql", "fields", "maxResults", "nextPageToken"}
        start = int(call.body.get("nextPageToken", "t0")[1:])
        hits = self.search(call.body["jql"])
        page = hits[start : start + self.page_size]
        end = start + len(page)
        response: dict[str, Any] = {"issues": [self._issue_json(*hit, call.body["fields"]) for hit in page]}
        if end < len(hits):
            return response | {"nextPageToken": f"t{end}", "isLast": False}
        return response | {"isLast": True}

    def _offset_search(self, call: FakeCall) -> Any:
        if self.cloud:
            raise FakeError(410, {"errorMessages": ["The requested API has been removed."]})
        assert set(call.body) <= {"jql", "fields", "maxResults", "startAt"}
        start = call.body["startAt"]
        hits = self.search(call.body["jql"])
        page = hits[start : start + min(self.page_size, call.body["maxResults"])]
        issues = [self._issue_json(*hit, call.body["fields"]) for hit in page]
        return {"issues": issues, "startAt": start, "maxResults": self.page_size, "total": len(hits)}

    def _count(self, call: FakeCall) -> Any:
        return {"count": len(self.search(call.body["jql"]))}

    def timestamp(self, when: datetime) -> str:
        return when.astimezone(ZoneInfo(self.zone)).strftime("%Y-%m-%dT%H:%M:%S.000%z")

    def rich_text(self, text: str) -> Any:
        """A text in the markup of this Jira."""
        if not self.cloud:
            return f"h1. Head\n{{panel}}{text}{{panel}}"
        inner = {"type": "paragraph", "content": [{"type": "text", "text": text}]}
        return {"type": "doc", "version": 1, "content": [{"type": "hologram", "content": [inner]}]}

    def _issue_json(self, project: Project, issue: Issue, fields: list[str]) -> Any:
        all_fields: dict[str, Any] = {
            "summary": issue.title,
            "description": self.rich_text(issue.text),
            "updated": self.timestamp(issue.updated),
            "comment": {
                "comments": [self._comment_json(comment) for comment in issue.comments[:1]],
                "total": len(issue.comments),
                "maxResults": 1,
                "startAt": 0,
            },
            "project": {"id": str(project.id), "key": project.key},
            "status": {"name": "Open"},
            "labels": issue.labels,
            "security": {"id": str(issue.level), "name": "Few"} if issue.level else None,
            "attachment": [
                {"id": str(number), "filename": f"{number}.txt", "size": len(data), "mimeType": "text/plain",
                 "content": f"{self.site.url if self.site else ''}/secure/attachment/{number}/x.txt"}
                for number, data in issue.files.items()
            ],
        }  # fmt: skip
        requested_fields = {name: value for name, value in all_fields.items() if name in fields}
        return {"id": str(issue.id), "key": f"{project.key}-{issue.number}", "fields": requested_fields}

    def _comment_json(self, comment: FakeComment) -> dict[str, Any]:
        author = {"accountId": "a:1", "displayName": "Ann"}
        return {
            "id": str(comment.id),
            "author": author,
            "body": self.rich_text(comment.text),
            "created": self.timestamp(comment.at),
            **comment.more,
        }

    def _find_issue(self, number: str) -> tuple[Project, Issue]:
        for project, issue in self.all_issues():
            if str(issue.id) == number:
                return project, issue
        raise FakeError(
            404, {"errorMessages": ["Issue does not exist or you do not have permission to see it."]}
        )

    def _issue(self, call: FakeCall, number: str) -> Any:
        fields = call.require_only("fields")["fields"].split(",")
        return self._issue_json(*self._find_issue(number), fields)

    def _comments(self, call: FakeCall, number: str) -> Any:
        params = call.require_only("startAt", "maxResults", "orderBy")
        comments = self._find_issue(number)[1].comments
        start = int(params["startAt"])
        page = comments[start : start + self.page_size]
        return {
            "comments": [self._comment_json(comment) for comment in page],
            "startAt": start,
            "total": len(comments),
        }

    def content(self, call: FakeCall, number: str) -> SiteResponse:
        for _, issue in self.all_issues():
            if int(number) in issue.files:
                return SiteResponse(200, issue.files[int(number)])
        raise FakeError(404)

    def _permission_scheme(self, call: FakeCall, number: str) -> Any:
        call.require_only("expand")
        project = self._find_project(number)
        if project.hides_scheme:
            raise FakeError(403)
        grants = [
            {"id": 1, "permission": "BROWSE_PROJECTS", "holder": self.holder_json(grant)}
            for grant in project.grants
        ]
        unrelated_grant = {
            "id": 2,
            "permission": "EDIT_ISSUES",
            "holder": self.holder_json(permission_holder("anyone", "")),
        }
        return {"id": 5, "name": "Scheme", "permissions": [*grants, unrelated_grant]}

    def holder_json(self, holder: dict[str, Any]) -> dict[str, Any]:
        return holder

    def _role(self, call: FakeCall, number: str, role: str) -> Any:
        actors = self._find_project(number).roles[int(role)]
        return {"id": int(role), "name": "Members", "actors": [self.actor_json(actor) for actor in actors]}

    def actor_json(self, actor: str) -> dict[str, Any]:
        if actor.startswith("@"):
            group = {"groupId": actor[1:], "name": actor[1:], "displayName": actor[1:]}
            return {"type": "atlassian-group-role-actor", "actorGroup": group}
        return {"type": "atlassian-user-role-actor", "actorUser": {"accountId": actor}}

    def _members_of_level(self, call: FakeCall) -> Any:
        level = int(call.require_only("levelId", "startAt", "maxResults")["levelId"])
        holders = self.levels[level]
        return self.values_page(
            call, [{"id": "1", "issueSecurityLevelId": str(level), "holder": holder} for holder in holders]
        )

    def _group(self, call: FakeCall) -> Any:
        params = call.require_only(
            "groupId" if self.cloud else "groupname", "includeInactiveUsers", "startAt", "maxResults"
        )
        name = params["groupId" if self.cloud else "groupname"]
        if name not in self.groups:
            raise FakeError(404)
        bots = (
            [{"accountId": "x", "displayName": "Bot", "accountType": "app", "active": True}]
            if self.cloud
            else []
        )
        return self.values_page(call, [*bots, *(self.user_json(account) for account in self.groups[name])])

    def _user(self, call: FakeCall) -> Any:
        name = "accountId" if self.cloud else "username"
        return self.user_json(call.require_only(name)[name])

    def user_json(self, account: str) -> dict[str, Any]:
        email = {"emailAddress": self.people[account]} if self.people[account] else {}
        identity = {"accountId": account, "accountType": "atlassian"}
        if not self.cloud:
            identity = {"key": f"JIRAUSER{account}", "name": account}
        return {**identity, "displayName": account, "active": True, **email}


class FakeJiraDataCenter(FakeJira):
    """Jira Data Center: offsets, wiki markup, user names, and no members of security levels."""

    cloud = False
    root = "/rest/api/2"
    zone = "Europe/Berlin"

    def _level_accounts(self, project: Project, level: int) -> set[str] | None:
        return None

    def holder_json(self, holder: dict[str, Any]) -> dict[str, Any]:
        return {"type": holder["type"], **({"parameter": holder["value"]} if holder.get("value") else {})}

    def actor_json(self, actor: str) -> dict[str, Any]:
        kind = "group" if actor.startswith("@") else "user"
        return {"type": f"atlassian-{kind}-role-actor", "name": actor.removeprefix("@"), "displayName": actor}
