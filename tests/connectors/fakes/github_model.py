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
    review_comments: list[FakeComment] = field(default_factory=list[FakeComment])

    @property
    def words(self) -> frozenset[str]:
        comments = [comment.text for comment in (*self.comments, *self.reviews, *self.review_comments)]
        return words_in(" ".join([self.title, self.text, *comments]))


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
    collaborators: dict[str, int] = field(default_factory=dict[str, int])
    issues: list[Issue] = field(default_factory=list[Issue])
    discussions: list[Discussion] = field(default_factory=list[Discussion])
    files: dict[str, str] = field(default_factory=dict[str, str])
    former_names: list[str] = field(default_factory=list[str])
    wiki: dict[str, str] = field(default_factory=dict[str, str])
    has_discussions: bool = True
    hides_collaborators: bool = False
    last_number: int = 0  # of issues and discussions: no number is used twice

    def next_number(self) -> int:
        self.last_number += 1
        return self.last_number


class GitHubModel(FakeTool):
    """An organisation with repositories; `FakeGitHub` serves them."""

    def __init__(self) -> None:
        super().__init__()
        self.ignores_since = False  # a server that does not know the time filter
        self.add_count = 0
        self.repos: list[Repo] = []
        self.emails = {"ann": "Ann@example.org", "bob": None, "cat": "cat@example.org"}
        widget = self.add_repo("acme/widget", private=True)
        widget.collaborators = {"ann": 1, "bob": 2}
        self.add_repo("acme/handbook")
        for _ in range(12):
            self.add()

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": self.site.url, "organizations": ["acme"]}

    def add_repo(self, name: str, *, private: bool = False) -> Repo:
        repo = Repo(self.new_id(), name, private)
        repo.files = {"README.md": f"# Readme {self.new_word()}", "src/main.c": "int main;"}
        self.repos.append(repo)
        return repo

    def add(self) -> None:
        self.add_count += 1
        repo = self.repos[self.add_count % len(self.repos)]
        choice = self.add_count % 7
        if self.add_count % 11 == 5:
            repo.wiki[f"Page-{self.new_word()}.md"] = f"known {self.new_word()}"
        elif choice == 0:
            repo.files[f"docs/{self.new_word()}.md"] = f"guide {self.new_word()}"
        elif choice == 1:
            self._add_discussion(repo)
        else:
            self.add_issue(repo, is_pull=choice in (2, 3))

    def add_issue(self, repo: Repo, *, is_pull: bool = False) -> Issue:
        issue = Issue(
            self.new_id(),
            repo.next_number(),
            f"Title {self.new_word()}",
            f"Text {self.new_word()}",
            self.now,
            is_pull,
        )
        issue.comments = [self._new_comment() for _ in range(issue.number % 6)]
        if is_pull:
            issue.reviews, issue.review_comments = [self._new_comment()], [self._new_comment()]
        repo.issues.append(issue)
        return issue

    def _add_discussion(self, repo: Repo) -> None:
        discussion = Discussion(
            self.new_id(), repo.next_number(), f"Topic {self.new_word()}", f"Text {self.new_word()}", self.now
        )
        discussion.comments = [self._new_comment() for _ in range(3)]
        repo.discussions.append(discussion)

    def _new_comment(self) -> FakeComment:
        return FakeComment(self.new_id(), f"said {self.new_word()}", self.now)

    def edit(self, pick: int) -> None:
        documents = self._documents()
        repo, document = documents[pick % len(documents)]
        if isinstance(document, str):
            (repo.wiki if document in repo.wiki else repo.files)[document] = f"guide {self.new_word()}"
            return
        if pick % 3 == 0:
            document.comments.append(self._new_comment())
        elif pick % 3 == 1 and document.comments:
            document.comments.pop()
        else:
            document.text = f"Text {self.new_word()}"
        document.updated = self.now

    def delete(self, pick: int) -> None:
        documents = self._documents()
        if len(documents) < 4:
            return
        repo, document = documents[pick % len(documents)]
        if isinstance(document, str):
            del (repo.wiki if document in repo.wiki else repo.files)[document]
        elif isinstance(document, Issue):
            repo.issues.remove(document)
        else:
            repo.discussions.remove(document)

    def change_permission(self, pick: int) -> None:
        repo = self.repos[0]
        if "cat" in repo.collaborators:
            del repo.collaborators["cat"]
        else:
            repo.collaborators["cat"] = 3
        del pick

    def _documents(self) -> list[tuple[Repo, Issue | Discussion | str]]:
        return [
            (repo, document)
            for repo in self.repos
            for document in (
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
            for discussion in repo.discussions if repo.has_discussions else ():
                words = " ".join(
                    [discussion.title, discussion.text, *(comment.text for comment in discussion.comments)]
                )
                expected[f"discussion:{discussion.id}"] = ExpectedDocument(words_in(words), acl)
            for path, text in repo.files.items():
                if path.endswith(".md"):
                    expected[f"file:{repo.id}:{path}"] = ExpectedDocument(words_in(text), acl)
            for path, text in repo.wiki.items():
                expected[f"wiki:{repo.id}:{path}"] = ExpectedDocument(words_in(text), acl)
        return expected

    def _acl(self, repo: Repo) -> frozenset[str]:
        if not repo.private:
            return frozenset({"org:*"})
        if repo.hides_collaborators:
            return frozenset()
        emails = (self.emails[login] for login in repo.collaborators)
        return frozenset(f"user_email:{email.lower()}" for email in emails if email)
