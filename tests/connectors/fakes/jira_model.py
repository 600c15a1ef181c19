"""The projects and issues of a fake Jira, and what tests do with them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.connectors.fakes.atlassian import FakeAtlassian
from tests.connectors.fakes.tool import ExpectedDocument, FakeComment, words_in


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
    hides_scheme: bool = False


class JiraModel(FakeAtlassian):
    """Two projects with issues; `FakeJira` serves them."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: dict[int, list[dict[str, Any]]] = {
            7: [permission_holder("user", "a:1"), permission_holder("reporter", "")]
        }
        self.projects = [
            Project(
                self.new_id(),
                "AB",
                [permission_holder("group", "devs"), permission_holder("projectRole", "10")],
                roles={10: ["@all"]},
            ),
            Project(self.new_id(), "PUB", [permission_holder("anyone", "")]),
        ]
        self.labels_followed: str | None = None
        for _ in range(12):
            self.add()

    def config(self) -> dict[str, Any]:
        issue_filter = {} if self.labels_followed is None else {"jql": f"labels = {self.labels_followed}"}
        return super().config() | issue_filter

    def add(self) -> None:
        number = self.new_id()
        project = self.projects[len(self.all_issues()) % len(self.projects)]
        issue = Issue(
            number,
            len(project.issues) + number,
            f"Title {self.new_word()}",
            f"Text {self.new_word()}",
            self.now,
        )
        issue.comments = [self._new_comment() for _ in range(2 + number % 2)]
        project.issues.append(issue)

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
        """Move an issue to the other project, where it gets another key."""
        target = self.projects[1 - self.projects.index(project)]
        project.issues.remove(issue)
        issue.number = 1000 + self.new_id()
        target.issues.append(issue)

    def delete(self, pick: int) -> None:
        if len(self.all_issues()) > 3:
            project, issue = self._pick(pick)
            project.issues.remove(issue)

    def change_permission(self, pick: int) -> None:
        group = self.groups["devs" if pick % 2 else "all"]
        group.remove("c:3") if "c:3" in group else group.append("c:3")

    def all_issues(self) -> list[tuple[Project, Issue]]:
        return [(project, issue) for project in self.projects for issue in project.issues]

    def _pick(self, pick: int) -> tuple[Project, Issue]:
        return self.all_issues()[pick % len(self.all_issues())]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for project, issue in self.all_issues():
            if self.labels_followed is None or self.labels_followed in issue.labels:
                comments = [comment.text for comment in issue.comments if "visibility" not in comment.more]
                expected[f"issue:{issue.id}"] = ExpectedDocument(
                    words_in(" ".join([issue.title, issue.text, *comments])), self._acl(project, issue)
                )
        return expected

    def _acl(self, project: Project, issue: Issue) -> frozenset[str]:
        browse = None if project.hides_scheme else self._allowed_accounts(project, project.grants)
        level = {"*"} if issue.level is None else self._level_accounts(project, issue.level)
        if browse is None or level is None:
            return frozenset()
        accounts = level if "*" in browse else browse if "*" in level else browse & level
        if "*" in accounts:
            return frozenset({"org:*"})
        return frozenset(f"user_email:{self.people[account]}" for account in accounts if self.people[account])

    def _level_accounts(self, project: Project, level: int) -> set[str] | None:
        return self._allowed_accounts(project, self.levels[level])

    def _allowed_accounts(self, project: Project, holders: list[dict[str, Any]]) -> set[str]:
        accounts: set[str] = set()
        for holder in holders:
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


def permission_holder(kind: str, value: str) -> dict[str, Any]:
    return {"type": kind, **({"value": value, "parameter": value} if value else {})}
