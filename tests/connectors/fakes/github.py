"""A fake GitHub with the part of its API that we use; strict about requests."""

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any

from tests.connectors.fakes.git_pack import pack_files, packet
from tests.connectors.fakes.github_model import Discussion, GitHubModel, Issue, Repo
from tests.connectors.fakes.tool import SECRET, FakeCall, FakeComment, FakeError
from tests.sources.site import SiteResponse


def iso(stamp: datetime) -> str:
    """To the second, as GitHub has it."""
    return stamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class FakeGitHub(GitHubModel):
    """An organisation with repositories."""

    kind = "github"

    def __init__(self) -> None:
        super().__init__()
        self.trees: dict[str, dict[str, str]] = {}
        self.blobs: dict[str, str] = {}
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
