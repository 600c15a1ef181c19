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
    """A timestamp to the second, as GitHub writes it."""
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
            ("GET", "/repositories/{number}", self._repo_by_id),
            ("GET", "/repos/{owner}/{name}/issues", self._issues),
            ("GET", "/repos/{owner}/{name}/issues/{number}", self._issue),
            ("GET", "/repos/{owner}/{name}/issues/{number}/comments", self._comments),
            ("GET", "/repos/{owner}/{name}/pulls/{number}/reviews", self._reviews),
            ("GET", "/repos/{owner}/{name}/pulls/{number}/comments", self._review_comments),
            ("GET", "/repos/{owner}/{name}/collaborators", self._collaborators),
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
        is_discussion = call.path == "/graphql" and "discussion(" in call.body["query"]
        return is_discussion or "blobs" in parts or (len(parts) == 7 and parts[6] in ("comments", "reviews"))

    # ── the API ─────────────────────────────────────────────────────────────────────────────────

    def check_authorization(self, call: FakeCall) -> None:
        if ".wiki.git/" in call.path:
            credentials = base64.b64decode(
                call.headers.get("authorization", "").removeprefix("Basic ")
            ).decode()
            if credentials != f"x-access-token:{SECRET}":
                raise FakeError(401)
            return
        super().check_authorization(call)
        assert call.headers["accept"].startswith("application/vnd.github") or call.path == "/graphql"
        assert call.headers["x-github-api-version"] == "2022-11-28"

    def _robot(self, call: FakeCall) -> Any:
        return {"login": "robot", "id": 9}

    def _find_repo(self, owner: str, name: str) -> Repo:
        full_name = f"{owner}/{name}"
        for repo in self.repos:
            if repo.name == full_name:
                return repo
            if full_name in repo.former_names:
                assert self.site is not None
                raise FakeError(301, Location=f"{self.site.url}/repositories/{repo.id}")
        raise FakeError(404)

    def _repos(self, call: FakeCall, org: str) -> SiteResponse:
        call.require_only("type", "sort", "direction", "per_page", "page")
        repos = [repo for repo in self.repos if repo.name.startswith(f"{org}/")]
        return self.respond_page(call, repos, self._repo_json)

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

    def _repo_by_id(self, call: FakeCall, number: str) -> Any:
        return next(self._repo_json(repo) for repo in self.repos if repo.id == int(number))

    def _issues(self, call: FakeCall, owner: str, name: str) -> SiteResponse:
        params = call.require_only("state", "sort", "direction", "since", "per_page", "page")
        assert params["state"] == "all"
        since = params.get("since")
        issues = [
            issue
            for issue in self._find_repo(owner, name).issues
            if since is None or self.ignores_since or iso(issue.updated) >= since
        ]
        # Issues that changed in the same second have no reliable order.
        issues.sort(
            key=lambda issue: (iso(issue.updated), hashlib.sha256(str(issue.id).encode()).hexdigest())
        )
        return self.respond_page(call, issues, self._issue_json)

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
        assert issue.is_pull, "only pull requests have reviews"
        return self.respond_page(
            call,
            issue.reviews,
            lambda review: {
                **self._comment_json(review),
                "submitted_at": iso(review.at),
                "state": "APPROVED",
            },
        )

    def _review_comments(self, call: FakeCall, owner: str, name: str, number: str) -> SiteResponse:
        call.require_only("sort", "direction", "since", "per_page", "page")
        return self.respond_page(
            call,
            self._find_issue(owner, name, number).review_comments,
            lambda comment: {**self._comment_json(comment), "path": "a.c"},
        )

    def _comment_json(self, comment: FakeComment) -> dict[str, Any]:
        return {
            "id": comment.id,
            "body": comment.text,
            "user": {"login": comment.by, "id": 1},
            "created_at": iso(comment.at),
        }

    def _collaborators(self, call: FakeCall, owner: str, name: str) -> SiteResponse:
        call.require_only("affiliation", "permission", "per_page", "page")
        repo = self._find_repo(owner, name)
        if repo.hides_collaborators:
            raise FakeError(403, {"message": "Must have push access"})
        return self.respond_page(
            call, list(repo.collaborators.items()), lambda person: {"login": person[0], "id": person[1]}
        )

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
        header = [packet(b"# service=git-upload-pack\n"), b"0000"]
        return SiteResponse(
            200, b"".join([*header, packet(b"%s HEAD\0shallow ofs-delta\n" % commit.encode()), b"0000"])
        )

    def _wiki_pack(self, call: FakeCall, owner: str, name: str) -> SiteResponse:
        commit, pack = pack_files(self._find_repo(owner, name).wiki)
        if f"want {commit} ".encode() not in call.body:
            return SiteResponse(200, packet(b"ERR upload-pack: not our ref\n"))
        return SiteResponse(200, packet(f"shallow {commit}".encode()) + b"0000" + packet(b"NAK\n") + pack)

    def _graphql(self, call: FakeCall) -> Any:
        variables = call.body["variables"]
        repo = self._find_repo(variables["owner"], variables["name"])
        if "discussions(" in call.body["query"]:
            return {"data": {"repository": {"discussions": self._discussions(repo, variables["after"])}}}
        for discussion in repo.discussions:
            if discussion.number == variables["number"]:
                return {"data": {"repository": {"discussion": self._discussion_json(discussion)}}}
        return {"data": {"repository": {"discussion": None}}, "errors": [{"type": "NOT_FOUND"}]}

    def _discussions(self, repo: Repo, after: str | None) -> Any:
        discussions = sorted(
            repo.discussions, key=lambda discussion: (iso(discussion.updated), discussion.id)
        )
        remaining = [
            discussion
            for discussion in discussions
            if after is None or f"{iso(discussion.updated)} {discussion.id}" > after
        ]
        page = remaining[: self.page_size]
        return {
            "pageInfo": {
                "hasNextPage": len(remaining) > len(page),
                "endCursor": f"{iso(page[-1].updated)} {page[-1].id}" if page else after,
            },
            "nodes": [
                {
                    "databaseId": discussion.id,
                    "number": discussion.number,
                    "updatedAt": iso(discussion.updated),
                }
                for discussion in page
            ],
        }

    def _discussion_json(self, discussion: Discussion) -> Any:
        nodes = [
            {
                "databaseId": comment.id,
                "body": comment.text,
                "createdAt": iso(comment.at),
                "author": {"login": comment.by},
                "replies": {"nodes": list[Any]()},
            }
            for comment in discussion.comments
        ]
        return {
            "databaseId": discussion.id,
            "number": discussion.number,
            "title": discussion.title,
            "body": discussion.text,
            "url": "https://github.com/d",
            "updatedAt": iso(discussion.updated),
            "author": {"login": "ann"},
            "category": {"name": "Ideas"},
            "comments": {"pageInfo": {"hasNextPage": False, "endCursor": None}, "nodes": nodes},
        }
