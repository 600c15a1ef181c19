"""Jira, as far as we use its API: Cloud with page tokens, Data Center with offsets; both to the minute of a user's clock."""

import base64
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.connectors.fakes.tool import (
    SECRET,
    ExpectedDocument,
    FakeCall,
    FakeComment,
    FakeError,
    FakeTool,
    words_in,
)
from tests.sources.site import SiteResponse

EMAIL = "robot@example.org"
_JQL = re.compile(
    r"project = (?P<project>\d+)(?: AND \((?P<filter>[^()]*)\))?"
    r'(?: AND updated >= "(?P<since>[\d -]{11}\d\d:\d\d)")?(?: AND updated < "(?P<before>[\d -]{11}\d\d:\d\d)")?'
    r"(?: ORDER BY (?P<order>updated ASC, key ASC|key DESC))?"
)
_BY_ID = re.compile(r"id = (?P<id>\d+) AND \((?P<filter>[^()]*)\)")


@dataclass
class Issue:
    """An issue."""

    id: int
    number: int
    title: str
    text: str
    updated: datetime
    comments: list[FakeComment] = field(default_factory=list[FakeComment])
    level: int | None = None
    labels: list[str] = field(default_factory=list[str])
    files: dict[int, bytes] = field(default_factory=dict[int, bytes])


@dataclass
class Project:
    """A project, with the grants of its permission scheme."""

    id: int
    key: str
    grants: list[dict[str, Any]]
    issues: list[Issue] = field(default_factory=list[Issue])
    roles: dict[int, list[str]] = field(default_factory=dict[int, list[str]])  # accounts, or @group
    secret_scheme: bool = False


class FakeAtlassian(FakeTool):
    """What both tools have: people, groups, and how one signs in."""

    cloud = True

    def __init__(self) -> None:
        super().__init__()
        self.people = {
            "a:1": "ann@example.org",
            "b:2": "bob@example.org",
            "c:3": "cat@example.org",
            "d:4": "",
        }
        self.groups = {"devs": ["a:1", "b:2"], "all": ["a:1", "b:2", "d:4"]}

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": self.site.url, "deployment": "cloud" if self.cloud else "data_center"}

    def credentials(self) -> dict[str, Any]:
        return {"email": EMAIL, "token": SECRET} if self.cloud else {"token": SECRET}

    def check_authorization(self, call: FakeCall) -> None:
        pair = base64.b64encode(f"{EMAIL}:{SECRET}".encode()).decode()
        wanted = f"Basic {pair}" if self.cloud else f"Bearer {SECRET}"
        if call.headers.get("authorization") != wanted:
            raise FakeError(401, {"message": f"no {SECRET}"})


class FakeJira(FakeAtlassian):
    """Jira Cloud with two projects, in New York."""

    kind = "jira"
    root = "/rest/api/3"
    zone = "America/New_York"
    shows_zone = True
    shown_zone: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.levels: dict[int, list[dict[str, Any]]] = {7: [_holder("user", "a:1"), _holder("reporter", "")]}
        self.projects = [
            Project(
                self.new_id(),
                "AB",
                [_holder("group", "devs"), _holder("projectRole", "10")],
                roles={10: ["@all"]},
            ),
            Project(self.new_id(), "PUB", [_holder("anyone", "")]),
        ]
        self.labels_followed: str | None = None
        for _ in range(12):
            self.add()
        self._add_routes()

    def _add_routes(self) -> None:
        for method, pattern, route in (
            ("GET", "/myself", self._myself),
            ("GET", "/project/search", self._search_projects),
            ("GET", "/project", self._all_projects),
            ("GET", "/project/{name}", self._project),
            ("POST", "/search/jql", self.cloud_search),
            ("POST", "/search", self._old_search),
            ("POST", "/search/approximate-count", self._count),
            ("GET", "/issue/{number}", self._issue),
            ("GET", "/issue/{number}/comment", self._comments),
            ("GET", "/attachment/content/{number}", self.content),
            ("GET", "/project/{number}/permissionscheme", self._scheme),
            ("GET", "/project/{number}/role/{role}", self._role),
            ("GET", "/issuesecurityschemes/level/member", self._members_of_level),
            ("GET", "/group/member", self._group),
            ("GET", "/user", self._user),
        ):
            self.route(method, self.root + pattern, route)

    # ── what tests do ────────────────────────────────────────────────────────────────────────────────────

    def config(self) -> dict[str, Any]:
        filtered = {} if self.labels_followed is None else {"jql": f"labels = {self.labels_followed}"}
        return super().config() | filtered

    def add(self) -> None:
        number = self.new_id()
        project = self.projects[len(self.all()) % len(self.projects)]
        made = Issue(
            number,
            len(project.issues) + number,
            f"Title {self.new_word()}",
            f"Text {self.new_word()}",
            self.now,
        )
        made.comments = [self._new_comment() for _ in range(2 + number % 2)]
        project.issues.append(made)

    def _new_comment(self, **more: Any) -> FakeComment:
        return FakeComment(self.new_id(), f"said {self.new_word()}", self.now, more=more)

    def edit(self, pick: int) -> None:
        project, issue = self._pick(pick)
        match pick % 6:
            case 0:
                issue.comments.append(self._new_comment())
            case 1:
                issue.comments.append(
                    self._new_comment(visibility={"type": "role", "value": "Administrators"})
                )
            case 2:
                issue.comments = issue.comments[:-1]
            case 3:
                issue.level = None if issue.level else 7
            case 4:
                self.move(project, issue)
            case _:
                issue.text = f"Text {self.new_word()}"
        issue.updated = self.now

    def move(self, project: Project, issue: Issue) -> None:
        """To the other project, where it has another key."""
        other = self.projects[1 - self.projects.index(project)]
        project.issues.remove(issue)
        issue.number = 1000 + self.new_id()
        other.issues.append(issue)

    def delete(self, pick: int) -> None:
        if len(self.all()) > 3:
            project, issue = self._pick(pick)
            project.issues.remove(issue)

    def change_permission(self, pick: int) -> None:
        group = self.groups["devs" if pick % 2 else "all"]
        group.remove("c:3") if "c:3" in group else group.append("c:3")

    def all(self) -> list[tuple[Project, Issue]]:
        return [(project, issue) for project in self.projects for issue in project.issues]

    def _pick(self, pick: int) -> tuple[Project, Issue]:
        return self.all()[pick % len(self.all())]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for project, issue in self.all():
            if self.labels_followed is None or self.labels_followed in issue.labels:
                said = [one.text for one in issue.comments if "visibility" not in one.more]
                expected[f"issue:{issue.id}"] = ExpectedDocument(
                    words_in(" ".join([issue.title, issue.text, *said])), self._acl(project, issue)
                )
        return expected

    def _acl(self, project: Project, issue: Issue) -> frozenset[str]:
        browse = None if project.secret_scheme else self._allowed_accounts(project, project.grants)
        level = {"*"} if issue.level is None else self._level_accounts(project, issue.level)
        if browse is None or level is None:
            return frozenset()
        both = level if "*" in browse else browse if "*" in level else browse & level
        if "*" in both:
            return frozenset({"org:*"})
        return frozenset(f"user_email:{self.people[one]}" for one in both if self.people[one])

    def _level_accounts(self, project: Project, level: int) -> set[str] | None:
        return self._allowed_accounts(project, self.levels[level])

    def _allowed_accounts(self, project: Project, held: list[dict[str, Any]]) -> set[str]:
        accounts: set[str] = set()
        for holder in held:
            kind, value = holder["type"], str(holder.get("value", ""))
            if kind == "anyone":
                accounts.add("*")
            elif kind == "user":
                accounts.add(value)
            elif kind == "group":
                accounts |= set(self.groups[value])
            elif kind == "projectRole":
                for actor in project.roles[int(value)]:
                    accounts |= set(self.groups[actor[1:]]) if actor.startswith("@") else {actor}
        return accounts

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.endswith("/comment")

    # ── what Jira says ───────────────────────────────────────────────────────────────────────────────────

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
        return self.values_page(call, [self._project_json(one) for one in self.projects])

    def _all_projects(self, call: FakeCall) -> Any:
        assert not self.cloud
        return [self._project_json(one) for one in self.projects]

    def _project(self, call: FakeCall, name: str) -> Any:
        return self._project_json(self._find_project(name))

    def _find_project(self, name: str) -> Project:
        for project in self.projects:
            if name in (str(project.id), project.key):
                return project
        raise FakeError(404)

    def values_page(self, call: FakeCall, things: list[Any]) -> Any:
        start, size = (
            int(call.params.get("startAt", 0)),
            min(self.page_size, int(call.params.get("maxResults", 50))),
        )
        part = things[start : start + size]
        end = start + len(part)
        return {
            "values": part,
            "startAt": start,
            "maxResults": size,
            "total": len(things),
            "isLast": end >= len(things),
        }

    def matching(self, jql: str) -> list[tuple[Project, Issue]]:
        """What a query finds: by the user's minutes."""
        if by_id := _BY_ID.fullmatch(jql):
            found = [one for one in self.all() if one[1].id == int(by_id["id"])]
            return [one for one in found if self._passes(one[1], by_id["filter"])]
        asked = _JQL.fullmatch(jql)
        assert asked, jql
        found = [
            (project, issue)
            for project, issue in self.all()
            if project.id == int(asked["project"])
            and self._passes(issue, asked["filter"])
            and (asked["since"] is None or issue.updated >= self._parse_minute(asked["since"]))
            and (asked["before"] is None or issue.updated < self._parse_minute(asked["before"]))
        ]
        if asked["order"] == "key DESC":
            return sorted(found, key=lambda one: -one[1].number)
        return sorted(found, key=lambda one: (one[1].updated, one[1].number))

    def _passes(self, issue: Issue, condition: str | None) -> bool:
        return not condition or condition.removeprefix("labels = ") in issue.labels

    def _parse_minute(self, told: str) -> datetime:
        # Of an hour that the clock has twice, the later: the worst that a server can make of it.
        return datetime.strptime(told, "%Y-%m-%d %H:%M").replace(tzinfo=ZoneInfo(self.zone), fold=1)

    def cloud_search(self, call: FakeCall) -> Any:
        if not self.cloud:
            raise FakeError(404)
        assert set(call.body) <= {"jql", "fields", "maxResults", "nextPageToken"}
        start = int(call.body.get("nextPageToken", "t0")[1:])
        found = self.matching(call.body["jql"])
        part = found[start : start + self.page_size]
        end = start + len(part)
        told: dict[str, Any] = {"issues": [self._issue_json(*one, call.body["fields"]) for one in part]}
        if end < len(found):
            return told | {"nextPageToken": f"t{end}", "isLast": False}
        return told | {"isLast": True}

    def _old_search(self, call: FakeCall) -> Any:
        if self.cloud:
            raise FakeError(410, {"errorMessages": ["The requested API has been removed."]})
        assert set(call.body) <= {"jql", "fields", "maxResults", "startAt"}
        start = call.body["startAt"]
        found = self.matching(call.body["jql"])
        part = found[start : start + min(self.page_size, call.body["maxResults"])]
        issues = [self._issue_json(*one, call.body["fields"]) for one in part]
        return {"issues": issues, "startAt": start, "maxResults": self.page_size, "total": len(found)}

    def _count(self, call: FakeCall) -> Any:
        return {"count": len(self.matching(call.body["jql"]))}

    def timestamp(self, when: datetime) -> str:
        return when.astimezone(ZoneInfo(self.zone)).strftime("%Y-%m-%dT%H:%M:%S.000%z")

    def rich(self, text: str) -> Any:
        """A text as this Jira writes it."""
        if not self.cloud:
            return f"h1. Head\n{{panel}}{text}{{panel}}"
        inner = {"type": "paragraph", "content": [{"type": "text", "text": text}]}
        return {"type": "doc", "version": 1, "content": [{"type": "hologram", "content": [inner]}]}

    def _issue_json(self, project: Project, issue: Issue, fields: list[str]) -> Any:
        told: dict[str, Any] = {
            "summary": issue.title,
            "description": self.rich(issue.text),
            "updated": self.timestamp(issue.updated),
            "comment": {
                "comments": [self._comment(one) for one in issue.comments[:1]],
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
        held = {name: value for name, value in told.items() if name in fields}
        return {"id": str(issue.id), "key": f"{project.key}-{issue.number}", "fields": held}

    def _comment(self, one: FakeComment) -> dict[str, Any]:
        author = {"accountId": "a:1", "displayName": "Ann"}
        return {
            "id": str(one.id),
            "author": author,
            "body": self.rich(one.text),
            "created": self.timestamp(one.at),
            **one.more,
        }

    def _find_issue(self, number: str) -> tuple[Project, Issue]:
        for project, issue in self.all():
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
        part = comments[start : start + self.page_size]
        return {"comments": [self._comment(one) for one in part], "startAt": start, "total": len(comments)}

    def content(self, call: FakeCall, number: str) -> SiteResponse:
        for _, issue in self.all():
            if int(number) in issue.files:
                return SiteResponse(200, issue.files[int(number)])
        raise FakeError(404)

    def _scheme(self, call: FakeCall, number: str) -> Any:
        call.require_only("expand")
        project = self._find_project(number)
        if project.secret_scheme:
            raise FakeError(403)
        grants = [
            {"id": 1, "permission": "BROWSE_PROJECTS", "holder": self.holder(one)} for one in project.grants
        ]
        other = {"id": 2, "permission": "EDIT_ISSUES", "holder": self.holder(_holder("anyone", ""))}
        return {"id": 5, "name": "Scheme", "permissions": [*grants, other]}

    def holder(self, held: dict[str, Any]) -> dict[str, Any]:
        return held

    def _role(self, call: FakeCall, number: str, role: str) -> Any:
        actors = self._find_project(number).roles[int(role)]
        return {"id": int(role), "name": "Members", "actors": [self.actor(one) for one in actors]}

    def actor(self, one: str) -> dict[str, Any]:
        if one.startswith("@"):
            group = {"groupId": one[1:], "name": one[1:], "displayName": one[1:]}
            return {"type": "atlassian-group-role-actor", "actorGroup": group}
        return {"type": "atlassian-user-role-actor", "actorUser": {"accountId": one}}

    def _members_of_level(self, call: FakeCall) -> Any:
        level = int(call.require_only("levelId", "startAt", "maxResults")["levelId"])
        held = self.levels[level]
        return self.values_page(
            call, [{"id": "1", "issueSecurityLevelId": str(level), "holder": one} for one in held]
        )

    def _group(self, call: FakeCall) -> Any:
        params = call.require_only(
            "groupId" if self.cloud else "groupname", "includeInactiveUsers", "startAt", "maxResults"
        )
        name = params["groupId" if self.cloud else "groupname"]
        if name not in self.groups:
            raise FakeError(404)
        gone = (
            [{"accountId": "x", "displayName": "Bot", "accountType": "app", "active": True}]
            if self.cloud
            else []
        )
        return self.values_page(call, [*gone, *(self.person(one) for one in self.groups[name])])

    def _user(self, call: FakeCall) -> Any:
        name = "accountId" if self.cloud else "username"
        return self.person(call.require_only(name)[name])

    def person(self, account: str) -> dict[str, Any]:
        shown = {"emailAddress": self.people[account]} if self.people[account] else {}
        named = {"accountId": account, "accountType": "atlassian"}
        if not self.cloud:
            named = {"key": f"JIRAUSER{account}", "name": account}
        return {**named, "displayName": account, "active": True, **shown}


class FakeJiraDataCenter(FakeJira):
    """Jira Data Center: offsets, wiki markup, user names, and no members of security levels."""

    cloud = False
    root = "/rest/api/2"
    zone = "Europe/Berlin"

    def _level_accounts(self, project: Project, level: int) -> set[str] | None:
        return None

    def holder(self, held: dict[str, Any]) -> dict[str, Any]:
        return {"type": held["type"], **({"parameter": held["value"]} if held.get("value") else {})}

    def actor(self, one: str) -> dict[str, Any]:
        kind = "group" if one.startswith("@") else "user"
        return {"type": f"atlassian-{kind}-role-actor", "name": one.removeprefix("@"), "displayName": one}


def _holder(kind: str, value: str) -> dict[str, Any]:
    return {"type": kind, **({"value": value, "parameter": value} if value else {})}
