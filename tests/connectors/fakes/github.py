"""A fake GitHub with the part of its API that we use; strict about requests."""

import base64
import hashlib
import struct
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

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


def iso(stamp: datetime) -> str:
    """To the second, as GitHub has it."""
    return stamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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


def packet(line: bytes) -> bytes:
    """A line as git sends it."""
    return b"%04x%s" % (len(line) + 4, line)


def pack_files(files: dict[str, str]) -> tuple[str, bytes]:
    """The name of a commit with these files, and the pack of it."""
    objects: list[bytes] = []

    def put(kind: int, name: bytes, data: bytes) -> bytes:
        size, head = len(data) >> 4, [kind << 4 | len(data) & 15]
        while size:
            head[-1] |= 128
            head.append(size & 127)
            size >>= 7
        objects.append(bytes(head) + zlib.compress(data))
        return hashlib.sha1(b"%s %d\0" % (name, len(data)) + data, usedforsecurity=False).digest()

    tree = b"".join(
        b"100644 %s\0%s" % (path.encode(), put(3, b"blob", text.encode()))
        for path, text in sorted(files.items())
    )
    commit = put(1, b"commit", b"tree %s\n\nchanged\n" % put(2, b"tree", tree).hex().encode())
    pack = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
    return commit.hex(), pack + hashlib.sha1(pack, usedforsecurity=False).digest()


class FakeGitHub(FakeTool):
    """An organisation with repositories."""

    kind = "github"

    def __init__(self) -> None:
        super().__init__()
        self.added = 0
        self.repos: list[Repo] = []
        self.trees: dict[str, dict[str, str]] = {}
        self.blobs: dict[str, str] = {}
        self.emails = {"ann": "Ann@example.org", "bob": None, "cat": "cat@example.org"}
        one = self.new_repo("acme/widget", private=True)
        one.people = {"ann": 1, "bob": 2}
        self.new_repo("acme/handbook")
        for _ in range(12):
            self.add()
        for method, pattern, route in (
            ("GET", "/user", self._robot),
            ("GET", "/orgs/{org}/repos", self._repos),
            ("GET", "/repos/{owner}/{name}", self._repo),
            ("GET", "/repositories/{number}", self._by_number),
            ("GET", "/repos/{owner}/{name}/issues", self._issues),
            ("GET", "/repos/{owner}/{name}/issues/{number}", self._issue),
            ("GET", "/repos/{owner}/{name}/issues/{number}/comments", self._comments),
            ("GET", "/repos/{owner}/{name}/pulls/{number}/reviews", self._reviews),
            ("GET", "/repos/{owner}/{name}/pulls/{number}/comments", self._lines),
            ("GET", "/repos/{owner}/{name}/collaborators", self._people),
            ("GET", "/users/{login}", self._user),
            ("GET", "/repos/{owner}/{name}/git/trees/{sha}", self._tree),
            ("GET", "/repos/{owner}/{name}/git/blobs/{sha}", self._blob),
            ("POST", "/graphql", self._graphql),
            ("GET", "/{owner}/{name}.wiki.git/info/refs", self._wiki_refs),
            ("POST", "/{owner}/{name}.wiki.git/git-upload-pack", self._wiki_pack),
        ):
            self.route(method, pattern, route)

    # ── what tests do ────────────────────────────────────────────────────────────────────────────────────

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

    def is_detail(self, call: FakeCall) -> bool:
        parts = call.path.split("/")
        one = call.path == "/graphql" and "discussion(" in call.body["query"]
        return one or "blobs" in parts or (len(parts) == 7 and parts[6] in ("comments", "reviews"))

    # ── what GitHub says ─────────────────────────────────────────────────────────────────────────────────

    def check_authorization(self, call: FakeCall) -> None:
        if ".wiki.git/" in call.path:
            given = base64.b64decode(call.headers.get("authorization", "").removeprefix("Basic ")).decode()
            if given != f"x-access-token:{SECRET}":
                raise FakeError(401)
            return
        super().check_authorization(call)
        assert call.headers["accept"].startswith("application/vnd.github") or call.path == "/graphql"
        assert call.headers["x-github-api-version"] == "2022-11-28"

    def _robot(self, call: FakeCall) -> Any:
        return {"login": "robot", "id": 9}

    def _find_repo(self, owner: str, name: str) -> Repo:
        wanted = f"{owner}/{name}"
        for repo in self.repos:
            if repo.name == wanted:
                return repo
            if wanted in repo.former:
                assert self.site is not None
                raise FakeError(301, Location=f"{self.site.url}/repositories/{repo.id}")
        raise FakeError(404)

    def _repos(self, call: FakeCall, org: str) -> SiteResponse:
        call.require_only("type", "sort", "direction", "per_page", "page")
        found = [repo for repo in self.repos if repo.name.startswith(f"{org}/")]
        return self.respond_page(call, found, self._repo_json)

    def _repo_json(self, repo: Repo) -> dict[str, Any]:
        return {
            "id": repo.id,
            "full_name": repo.name,
            "html_url": f"https://github.com/{repo.name}",
            "private": repo.private,
            "visibility": "private" if repo.private else "public",
            "default_branch": "main",
            "has_discussions": repo.has_discussions,
            "has_wiki": True,
            "owner": {"login": repo.name.partition("/")[0], "id": 1},
        }

    def _repo(self, call: FakeCall, owner: str, name: str) -> Any:
        return self._repo_json(self._find_repo(owner, name))

    def _by_number(self, call: FakeCall, number: str) -> Any:
        return next(self._repo_json(repo) for repo in self.repos if repo.id == int(number))

    def _issues(self, call: FakeCall, owner: str, name: str) -> SiteResponse:
        params = call.require_only("state", "sort", "direction", "since", "per_page", "page")
        assert params["state"] == "all"
        since = params.get("since")
        found = [
            one for one in self._find_repo(owner, name).issues if since is None or iso(one.updated) >= since
        ]
        # What changed at one second has no order that one could rely on.
        found.sort(key=lambda one: (iso(one.updated), hashlib.sha256(str(one.id).encode()).hexdigest()))
        return self.respond_page(call, found, self._issue_json)

    def _issue_json(self, issue: Issue) -> dict[str, Any]:
        pull = {"pull_request": {"url": "x", "merged_at": None}} if issue.is_pull else {}
        return {
            "id": issue.id,
            "number": issue.number,
            "title": issue.title,
            "body": issue.text,
            "state": issue.state,
            "html_url": f"https://github.com/x/{issue.number}",
            "user": {"login": "ann", "id": 1},
            "labels": [{"name": "bug"}],
            "comments": len(issue.comments),
            "created_at": iso(issue.updated),
            "updated_at": iso(issue.updated),
            **pull,
        }

    def _find_issue(self, owner: str, name: str, number: str) -> Issue:
        for issue in self._find_repo(owner, name).issues:
            if issue.number == int(number):
                return issue
        raise FakeError(410, {"message": "This issue was deleted"})

    def _issue(self, call: FakeCall, owner: str, name: str, number: str) -> Any:
        return self._issue_json(self._find_issue(owner, name, number))

    def _comments(self, call: FakeCall, owner: str, name: str, number: str) -> SiteResponse:
        call.require_only("since", "per_page", "page")
        return self.respond_page(call, self._find_issue(owner, name, number).comments, self._comment_json)

    def _reviews(self, call: FakeCall, owner: str, name: str, number: str) -> SiteResponse:
        call.require_only("per_page", "page")
        issue = self._find_issue(owner, name, number)
        assert issue.is_pull, "reviews of what is no pull request"
        return self.respond_page(
            call,
            issue.reviews,
            lambda one: {**self._comment_json(one), "submitted_at": iso(one.at), "state": "APPROVED"},
        )

    def _lines(self, call: FakeCall, owner: str, name: str, number: str) -> SiteResponse:
        call.require_only("sort", "direction", "since", "per_page", "page")
        return self.respond_page(
            call,
            self._find_issue(owner, name, number).lines,
            lambda one: {**self._comment_json(one), "path": "a.c"},
        )

    def _comment_json(self, one: FakeComment) -> dict[str, Any]:
        return {"id": one.id, "body": one.text, "user": {"login": one.by, "id": 1}, "created_at": iso(one.at)}

    def _people(self, call: FakeCall, owner: str, name: str) -> SiteResponse:
        call.require_only("affiliation", "permission", "per_page", "page")
        repo = self._find_repo(owner, name)
        if repo.secret_people:
            raise FakeError(403, {"message": "Must have push access"})
        return self.respond_page(call, list(repo.people.items()), lambda one: {"login": one[0], "id": one[1]})

    def _user(self, call: FakeCall, login: str) -> Any:
        return {"login": login, "id": 1, "email": self.emails[login]}

    def _tree(self, call: FakeCall, owner: str, name: str, sha: str) -> Any:
        params = call.require_only("recursive")
        repo = self._find_repo(owner, name)
        if sha == "main":
            shas = {path: self._store_blob(text) for path, text in repo.files.items()}
            sha = hashlib.sha1(repr(sorted(shas.items())).encode(), usedforsecurity=False).hexdigest()
            self.trees[sha] = shas
        if sha not in self.trees:
            raise FakeError(404)
        entries = [
            {"path": path, "type": "blob", "sha": digest, "size": 10}
            for path, digest in sorted(self.trees[sha].items())
            if "recursive" in params or "/" not in path
        ]
        return {"sha": sha, "tree": entries, "truncated": False}

    def _store_blob(self, text: str) -> str:
        digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.blobs[digest] = text
        return digest

    def _blob(self, call: FakeCall, owner: str, name: str, sha: str) -> SiteResponse:
        assert "raw" in call.headers["accept"]
        return SiteResponse(200, self.blobs[sha].encode())

    def _wiki_refs(self, call: FakeCall, owner: str, name: str) -> SiteResponse:
        assert call.params == {"service": "git-upload-pack"}
        repo = self._find_repo(owner, name)
        if not repo.wiki:
            raise FakeError(404)
        commit, _ = pack_files(repo.wiki)
        told = [packet(b"# service=git-upload-pack\n"), b"0000"]
        return SiteResponse(
            200, b"".join([*told, packet(b"%s HEAD\0shallow ofs-delta\n" % commit.encode()), b"0000"])
        )

    def _wiki_pack(self, call: FakeCall, owner: str, name: str) -> SiteResponse:
        commit, pack = pack_files(self._find_repo(owner, name).wiki)
        if f"want {commit} ".encode() not in call.body:
            return SiteResponse(200, packet(b"ERR upload-pack: not our ref\n"))
        return SiteResponse(200, packet(f"shallow {commit}".encode()) + b"0000" + packet(b"NAK\n") + pack)

    def _graphql(self, call: FakeCall) -> Any:
        given = call.body["variables"]
        repo = self._find_repo(given["owner"], given["name"])
        if "discussions(" in call.body["query"]:
            return {"data": {"repository": {"discussions": self._discussions(repo, given["after"])}}}
        for one in repo.discussions:
            if one.number == given["number"]:
                return {"data": {"repository": {"discussion": self._discussion(one)}}}
        return {"data": {"repository": {"discussion": None}}, "errors": [{"type": "NOT_FOUND"}]}

    def _discussions(self, repo: Repo, after: str | None) -> Any:
        ordered = sorted(repo.discussions, key=lambda one: (iso(one.updated), one.id))
        left = [one for one in ordered if after is None or f"{iso(one.updated)} {one.id}" > after]
        part = left[: self.page_size]
        return {
            "pageInfo": {
                "hasNextPage": len(left) > len(part),
                "endCursor": f"{iso(part[-1].updated)} {part[-1].id}" if part else after,
            },
            "nodes": [
                {"databaseId": one.id, "number": one.number, "updatedAt": iso(one.updated)} for one in part
            ],
        }

    def _discussion(self, one: Discussion) -> Any:
        nodes = [
            {
                "databaseId": said.id,
                "body": said.text,
                "createdAt": iso(said.at),
                "author": {"login": said.by},
                "replies": {"nodes": list[Any]()},
            }
            for said in one.comments
        ]
        return {
            "databaseId": one.id,
            "number": one.number,
            "title": one.title,
            "body": one.text,
            "url": "https://github.com/d",
            "updatedAt": iso(one.updated),
            "author": {"login": "ann"},
            "category": {"name": "Ideas"},
            "comments": {"pageInfo": {"hasNextPage": False, "endCursor": None}, "nodes": nodes},
        }
