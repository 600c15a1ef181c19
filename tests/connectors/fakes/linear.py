"""A fake of Linear's GraphQL API, written from its published schema. It knows the queries of the connector by their names."""

import re
from dataclasses import dataclass, field
from typing import Any

from tests.connectors.fakes.tool import ExpectedDocument, FakeCall, FakeComment, FakeError, FakeTool, words_in

NAME = re.compile(r"query (\w+)")


@dataclass
class LinearIssue:
    """An issue of a team."""

    id: str
    team: str
    text: str
    updated: str
    trashed: bool = False
    assignee: str | None = None
    comments: list[FakeComment] = field(default_factory=list[FakeComment])


class FakeLinear(FakeTool):
    """A workspace with a public and a private team."""

    kind = "linear"
    requests_each = 2

    def __init__(self) -> None:
        super().__init__()
        self.issues: dict[str, LinearIssue] = {}
        self.members = {"t2": ["u1"]}
        for _ in range(12):
            self.add()
        self.route("POST", "/graphql", self._graphql)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": f"{self.site.url}/graphql"}

    def followed(self) -> list[LinearIssue]:
        """The issues that are not in the trash."""
        return [issue for issue in self.issues.values() if not issue.trashed]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        emails = {"u1": "ann@example.org", "u2": "bob@example.org"}
        return {
            f"issue:{issue.id}": ExpectedDocument(
                words_in(" ".join([issue.text, *(comment.text for comment in issue.comments)])),
                frozenset(f"user_email:{emails[user]}" for user in self.members.get(issue.team, emails)),
            )
            for issue in self.followed()
        }

    def stamp(self) -> str:
        """The time, never the same twice."""
        return f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.new_id() % 1_000_000:06d}Z"

    def add(self) -> None:
        team = ("t1", "t2")[len(self.issues) % 2]
        issue = LinearIssue(f"i{self.new_id()}", team, f"text {self.new_word()}", self.stamp())
        self.issues[issue.id] = issue

    def edit(self, pick: int) -> None:
        issue = self.followed()[pick % len(self.followed())]
        if pick % 3 == 0:  # a comment does not change the issue's own time
            comment = FakeComment(self.new_id(), f"comment {self.new_word()}", self.now)
            comment.more["updated"] = self.stamp()
            issue.comments.append(comment)
        elif pick % 3 == 1:
            issue.team = "t1" if issue.team == "t2" else "t2"
            issue.updated = self.stamp()
        else:
            issue.text, issue.updated = f"text {self.new_word()}", self.stamp()

    def delete(self, pick: int) -> None:
        if len(self.followed()) > 8:
            issue = self.followed()[pick % len(self.followed())]
            if pick % 2:
                issue.trashed, issue.updated = True, self.stamp()
            else:
                del self.issues[issue.id]

    def change_permission(self, pick: int) -> None:
        self.members["t2"] = ["u1", "u2"] if self.members["t2"] == ["u1"] else ["u1"]
        del pick

    def is_detail(self, call: FakeCall) -> bool:
        return bool(call.body) and _operation(call) in ("Issue", "Comments")

    # ── serving ──────────────────────────────────────────────────────────────────────────────────────────

    def _graphql(self, call: FakeCall) -> dict[str, Any]:
        name, variables = _operation(call), call.body["variables"]
        match name:
            case "Viewer":
                return {"data": {"viewer": {"name": "Ann"}, "organization": {"name": "Acme"}}}
            case "Teams":
                teams = [
                    {"id": "t1", "key": "ENG", "name": "Engineering", "private": False},
                    {"id": "t2", "key": "HR", "name": "People", "private": True},
                ]
                return {"data": {"teams": self._page_of(call, teams)}}
            case "Users":
                return {
                    "data": {
                        "users": self._page_of(call, [_user("u1"), _user("u2"), _user("u3", guest=True)])
                    }
                }
            case "Members":
                members = [_user(user) for user in self.members[variables["id"]]]
                return {"data": {"team": {"members": self._page_of(call, members)}}}
            case "List":
                issues = [issue for issue in self.issues.values() if issue.team == variables["team"]]
                return {"data": {"issues": self._page_of(call, [self._show(issue) for issue in issues])}}
            case "Issue":
                issue = self.issues.get(variables["id"])
                nodes = (
                    [] if issue is None else [{**self._show(issue), "latest": self._show(issue)["comments"]}]
                )
                return {"data": {"issues": {"nodes": nodes}}}
            case "Comments":
                issue = self.issues.get(variables["id"])
                comments = [] if issue is None else [_show_comment(comment) for comment in issue.comments]
                return {"data": {"comments": self._page_of(call, comments)}}
            case _:
                raise FakeError(400)

    def _page_of(self, call: FakeCall, rows: list[dict[str, Any]]) -> dict[str, Any]:
        start = int(call.body["variables"].get("after") or 0)
        end = start + self.page_size
        return {"nodes": rows[start:end], "pageInfo": {"hasNextPage": end < len(rows), "endCursor": str(end)}}

    def _show(self, issue: LinearIssue) -> dict[str, Any]:
        return {
            "id": issue.id,
            "identifier": f"ENG-{issue.id[1:]}",
            "title": "Grain",
            "description": issue.text,
            "url": f"https://linear.app/acme/issue/{issue.id}",
            "updatedAt": issue.updated,
            "trashed": issue.trashed or None,
            "priorityLabel": "High",
            "state": {"name": "Todo"},
            "assignee": issue.assignee and {"name": issue.assignee},
            "labels": {"nodes": [{"name": "Bug"}]},
            "team": {"id": issue.team, "key": "ENG"},
            "comments": {"nodes": [_show_comment(comment) for comment in issue.comments[-1:]]},
        }


def _operation(call: FakeCall) -> str:
    match = NAME.match(call.body["query"])
    assert match is not None
    return match[1]


def _show_comment(comment: FakeComment) -> dict[str, Any]:
    return {
        "id": f"c{comment.id}",
        "body": comment.text,
        "createdAt": comment.at.isoformat(),
        "updatedAt": comment.more["updated"],
        "user": {"name": "Ann"},
    }


def _user(user: str, *, guest: bool = False) -> dict[str, Any]:
    emails = {"u1": "Ann@example.org", "u2": "bob@example.org", "u3": "guest@example.org"}
    return {"id": user, "name": user, "email": emails[user], "active": True, "guest": guest}
