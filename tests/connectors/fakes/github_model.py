"""The repositories of a fake GitHub, and what tests do with them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.connectors.fakes.tool import ExpectedDocument, FakeComment, FakeTool, words_in


@dataclass
class Issue:
    """An issue or pull request."""

    id: int
    number: int
    title: str
    text: str
    updated: datetime
    is_pull: bool = False
    state: str = "open"
    comments: list[FakeComment] = field(default_factory=list[FakeComment])
    reviews: list[FakeComment] = field(default_factory=list[FakeComment])
    lines: list[FakeComment] = field(default_factory=list[FakeComment])

    @property
    def words(self) -> frozenset[str]:
        said = [one.text for one in (*self.comments, *self.reviews, *self.lines)]
        return words_in(" ".join([self.title, self.text, *said]))


@dataclass
class Discussion:
    """A discussion, its comments and their replies."""

    id: int
    number: int
    title: str
    text: str
    updated: datetime
    comments: list[FakeComment] = field(default_factory=list[FakeComment])


@dataclass
class Repo:
    """A repository."""

    id: int
    name: str
    private: bool = False
    people: dict[str, int] = field(default_factory=dict[str, int])
    issues: list[Issue] = field(default_factory=list[Issue])
    discussions: list[Discussion] = field(default_factory=list[Discussion])
    files: dict[str, str] = field(default_factory=dict[str, str])
    former: list[str] = field(default_factory=list[str])
    wiki: dict[str, str] = field(default_factory=dict[str, str])
    has_discussions: bool = True
    secret_people: bool = False


class GitHubModel(FakeTool):
    """An organisation with repositories; `FakeGitHub` serves them."""

    def __init__(self) -> None:
        super().__init__()
        self.added = 0
        self.repos: list[Repo] = []
        self.emails = {"ann": "Ann@example.org", "bob": None, "cat": "cat@example.org"}
        one = self.new_repo("acme/widget", private=True)
        one.people = {"ann": 1, "bob": 2}
        self.new_repo("acme/handbook")
        for _ in range(12):
            self.add()

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": self.site.url, "organizations": ["acme"]}

    def new_repo(self, name: str, *, private: bool = False) -> Repo:
        made = Repo(self.new_id(), name, private)
        made.files = {"README.md": f"# Readme {self.new_word()}", "src/main.c": "int main;"}
        self.repos.append(made)
        return made

    def add(self) -> None:
        self.added += 1
        repo = self.repos[self.added % len(self.repos)]
        choice = self.added % 7
        if self.added % 11 == 5:
            repo.wiki[f"Page-{self.new_word()}.md"] = f"known {self.new_word()}"
        elif choice == 0:
            repo.files[f"docs/{self.new_word()}.md"] = f"guide {self.new_word()}"
        elif choice == 1:
            self._add_discussion(repo)
        else:
            self.new_issue(repo, is_pull=choice in (2, 3))

    def new_issue(self, repo: Repo, *, is_pull: bool = False) -> Issue:
        taken = [*(one.number for one in repo.issues), *(one.number for one in repo.discussions), 0]
        made = Issue(
            self.new_id(),
            max(taken) + 1,
            f"Title {self.new_word()}",
            f"Text {self.new_word()}",
            self.now,
            is_pull,
        )
        made.comments = [self._new_comment() for _ in range(made.number % 6)]
        if is_pull:
            made.reviews, made.lines = [self._new_comment()], [self._new_comment()]
        repo.issues.append(made)
        return made

    def _add_discussion(self, repo: Repo) -> None:
        taken = [*(one.number for one in repo.issues), *(one.number for one in repo.discussions), 0]
        made = Discussion(
            self.new_id(), max(taken) + 1, f"Topic {self.new_word()}", f"Text {self.new_word()}", self.now
        )
        made.comments = [self._new_comment() for _ in range(3)]
        repo.discussions.append(made)

    def _new_comment(self) -> FakeComment:
        return FakeComment(self.new_id(), f"said {self.new_word()}", self.now)

    def edit(self, pick: int) -> None:
        things = self._documents()
        repo, thing = things[pick % len(things)]
        if isinstance(thing, str):
            (repo.wiki if thing in repo.wiki else repo.files)[thing] = f"guide {self.new_word()}"
            return
        if pick % 3 == 0:
            thing.comments.append(self._new_comment())
        elif pick % 3 == 1 and thing.comments:
            thing.comments.pop()
        else:
            thing.text = f"Text {self.new_word()}"
        thing.updated = self.now

    def delete(self, pick: int) -> None:
        things = self._documents()
        if len(things) < 4:
            return
        repo, thing = things[pick % len(things)]
        if isinstance(thing, str):
            del (repo.wiki if thing in repo.wiki else repo.files)[thing]
        elif isinstance(thing, Issue):
            repo.issues.remove(thing)
        else:
            repo.discussions.remove(thing)

    def change_permission(self, pick: int) -> None:
        repo = self.repos[0]
        if "cat" in repo.people:
            del repo.people["cat"]
        else:
            repo.people["cat"] = 3
        del pick

    def _documents(self) -> list[tuple[Repo, Issue | Discussion | str]]:
        return [
            (repo, thing)
            for repo in self.repos
            for thing in (
                *repo.issues,
                *repo.discussions,
                *(path for path in repo.files if path.endswith(".md")),
                *repo.wiki,
            )
        ]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for repo in self.repos:
            acl = self._acl(repo)
            for issue in repo.issues:
                expected[f"issue:{issue.id}"] = ExpectedDocument(issue.words, acl)
            for one in repo.discussions if repo.has_discussions else ():
                said = " ".join([one.title, one.text, *(comment.text for comment in one.comments)])
                expected[f"discussion:{one.id}"] = ExpectedDocument(words_in(said), acl)
            for path, text in repo.files.items():
                if path.endswith(".md"):
                    expected[f"file:{repo.id}:{path}"] = ExpectedDocument(words_in(text), acl)
            for path, text in repo.wiki.items():
                expected[f"wiki:{repo.id}:{path}"] = ExpectedDocument(words_in(text), acl)
        return expected

    def _acl(self, repo: Repo) -> frozenset[str]:
        if not repo.private:
            return frozenset({"org:*"})
        if repo.secret_people:
            return frozenset()
        named = (self.emails[login] for login in repo.people)
        return frozenset(f"user_email:{email.lower()}" for email in named if email)
