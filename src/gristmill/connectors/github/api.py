"""Requests to GitHub's REST and GraphQL APIs, and the parts of their responses that we use.

Requests follow GitHub's published API description (version 2022-11-28). Credentials are a token, or a GitHub App: it signs a
JWT for itself and gets a token for an hour, which is renewed in time. A response without a field that we use is Unreadable.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from pydantic import BaseModel

from gristmill.connectors.transport import (
    ApiResponse,
    CredentialsRejected,
    Params,
    Transport,
    iter_pages,
    parse,
    rate_limited,
)
from gristmill.errors import Unreadable

VERSION = "2022-11-28"
PAGE_SIZE = 100
_JSON = "application/vnd.github+json"
_RAW = "application/vnd.github.raw+json"
_RENEW_BEFORE = 300  # seconds before a token expires

Model = TypeVar("Model")


class _GraphQlError(BaseModel):
    type: str | None = None


class _GraphQlBody(BaseModel):
    data: Any = None
    errors: list[_GraphQlError] | None = None


class Owner(BaseModel):
    """An account."""

    login: str
    id: int = 0


class Repository(BaseModel):
    """A repository; its id never changes, whatever its name and owner."""

    id: int
    full_name: str
    html_url: str
    private: bool = True
    visibility: str | None = None  # older servers say only whether it is private
    default_branch: str = "main"
    has_discussions: bool = False
    has_wiki: bool = False
    owner: Owner

    @property
    def scope(self) -> str:
        """Its scope."""
        return f"repository:{self.id}"


class Label(BaseModel):
    """A label of an issue."""

    name: str | None = None


class Issue(BaseModel):
    """An issue or a pull request: GitHub lists both together."""

    id: int
    number: int
    title: str
    body: str | None = None
    state: str
    html_url: str
    user: Owner | None = None
    labels: list[Label | str] = []
    comments: int = 0
    created_at: datetime
    updated_at: datetime
    pull_request: dict[str, Any] | None = None
    repository_url: str = ""


class Comment(BaseModel):
    """A comment on an issue, a review, or a comment on a line of a change."""

    id: int
    body: str | None = None
    user: Owner | None = None
    created_at: datetime | None = None
    submitted_at: datetime | None = None  # reviews
    state: str | None = None  # reviews
    path: str | None = None  # comments on lines


class GitHubUser(BaseModel):
    """An account, with its public email address if it has one."""

    login: str
    id: int
    email: str | None = None


class TreeEntry(BaseModel):
    """A file or folder of a tree."""

    path: str
    type: str
    sha: str = ""
    size: int = 0


class Tree(BaseModel):
    """A tree, or the part of it that fits in a response."""

    sha: str
    tree: list[TreeEntry]
    truncated: bool = False


class GitHubApp:
    """A GitHub App, which signs its own tokens."""

    def __init__(self, app_id: str, installation: int, key: str) -> None:
        self.app_id, self.installation = app_id, installation
        try:
            loaded = serialization.load_pem_private_key(key.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise CredentialsRejected("The App's private key is not in PEM format. Enter it again.") from None
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise CredentialsRejected("The App's private key is not an RSA key. Enter it again.")
        self._key = loaded

    def jwt(self) -> str:
        """A token for the App itself, valid for nine minutes."""
        now = int(time.time())
        claims = {"iat": now - 60, "exp": now + 540, "iss": self.app_id}
        signing_input = f"{_base64_json({'alg': 'RS256', 'typ': 'JWT'})}.{_base64_json(claims)}"
        signature = self._key.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signing_input}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


class GitHubApi:
    """Requests to GitHub."""

    def __init__(self, transport: Transport, graphql: str, app: GitHubApp | None) -> None:
        self.transport, self._graphql, self._app = transport, graphql, app
        self._token_expires_at, self._renewal = 0.0, asyncio.Lock()
        self.server_now = datetime.now(UTC)  # GitHub's own time, at the last GraphQL response

    async def token(self) -> str:
        """The current token, for git."""
        await self._renew_token()
        return self.transport.header_value("Authorization").removeprefix("Bearer ")

    async def whoami(self) -> str:
        """The account that the credentials belong to."""
        if self._app is not None:
            await self._renew_token()
            return f"App {self._app.app_id}, installation {self._app.installation}"
        response = await self._get("/user")
        return _parse(GitHubUser, response.data).login

    async def repository(self, name: str) -> Repository:
        """A repository by owner and name; GitHub redirects after a rename or transfer."""
        return _parse(Repository, (await self._get(f"/repos/{name}")).data)

    async def organisation_repositories(self, name: str) -> AsyncIterator[Repository]:
        """The repositories of an organisation that the credentials can see."""
        params: Params = {"type": "all", "sort": "created", "direction": "asc"}
        async for repository in self._iter_pages(f"/orgs/{name}/repos", params, Repository):
            yield repository

    async def installation_repositories(self) -> AsyncIterator[Repository]:
        """The repositories that an App is installed in."""
        async for response in iter_pages(self._get, "/installation/repositories", {}, PAGE_SIZE):
            for repository in _parse(list[Repository], response.data.get("repositories", [])):
                yield repository

    async def issues(
        self, name: str, since: datetime | None, page: int
    ) -> tuple[list[Issue], bool, datetime]:
        """Issues and pull requests, oldest change first; whether there are more, and GitHub's time."""
        params: Params = {
            "state": "all",
            "sort": "updated",
            "direction": "asc",
            "per_page": PAGE_SIZE,
            "page": page,
            "since": None if since is None else since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        response = await self._get(f"/repos/{name}/issues", params)
        return _parse(list[Issue], response.data), response.link("next") is not None, response.server_time

    async def count_issues(self, name: str) -> int:
        """How many issues and pull requests there are: the number of the last page with one per page."""
        params: Params = {"state": "all", "per_page": 1, "page": 1}
        response = await self._get(f"/repos/{name}/issues", params)
        last = response.link("last")
        if last is None:
            return len(response.data)
        return int(httpx.URL(last).params.get("page", 0))

    async def issue(self, name: str, number: int) -> Issue:
        """One issue or pull request; SourceGone when it was deleted, another one when it was transferred."""
        return _parse(Issue, (await self._get(f"/repos/{name}/issues/{number}")).data)

    async def comments(self, name: str, number: int) -> list[Comment]:
        """The comments on an issue."""
        return await self._all_comments(f"/repos/{name}/issues/{number}/comments")

    async def reviews(self, name: str, number: int) -> list[Comment]:
        """Reviews of a pull request."""
        return await self._all_comments(f"/repos/{name}/pulls/{number}/reviews")

    async def line_comments(self, name: str, number: int) -> list[Comment]:
        """The comments on lines of a pull request."""
        return await self._all_comments(f"/repos/{name}/pulls/{number}/comments")

    async def collaborators(self, name: str) -> list[GitHubUser]:
        """Everyone who has access: directly, by a team or by the organisation."""
        params: Params = {"affiliation": "all"}
        return [user async for user in self._iter_pages(f"/repos/{name}/collaborators", params, GitHubUser)]

    async def user(self, login: str) -> GitHubUser:
        """An account."""
        return _parse(GitHubUser, (await self._get(f"/users/{login}")).data)

    async def branch_tree(self, name: str, branch: str) -> str:
        """The hash of a branch's tree; SourceGone in an empty repository."""
        response = await self._get(f"/repos/{name}/git/trees/{quote(branch, safe='')}")
        return _parse(Tree, response.data).sha

    async def tree(self, name: str, sha: str) -> list[TreeEntry]:
        """Every file of a tree, also of one that is too large for one response."""
        tree = await self._tree(name, sha, recursive=True)
        if not tree.truncated:
            return [entry for entry in tree.tree if entry.type == "blob"]
        files: list[TreeEntry] = []
        for entry in (await self._tree(name, sha, recursive=False)).tree:
            if entry.type == "blob":
                files.append(entry)
            elif entry.type == "tree":
                files += [
                    below.model_copy(update={"path": f"{entry.path}/{below.path}"})
                    for below in await self.tree(name, entry.sha)
                ]
        return files

    async def _tree(self, name: str, sha: str, *, recursive: bool) -> Tree:
        params: Params = {"recursive": "1"} if recursive else {}
        return _parse(Tree, (await self._get(f"/repos/{name}/git/trees/{sha}", params)).data)

    async def blob(self, name: str, sha: str, limit: int) -> str:
        """The text of a file."""
        await self._renew_token()
        text = await self.transport.text(f"/repos/{name}/git/blobs/{sha}", accept=_RAW, limit=2 * limit)
        return decode_blob(text, sha)

    async def graphql(self, query: str, **variables: Any) -> Any:
        """The `data` of a GraphQL response."""
        await self._renew_token()
        response = await self.transport.post(self._graphql, {"query": query, "variables": variables})
        self.server_now = response.server_time
        body = _parse(_GraphQlBody, response.data)
        types = {error.type for error in body.errors or ()}
        if "RATE_LIMITED" in types:  # with status 200
            raise rate_limited(response.headers, "GitHub's GraphQL API")
        if body.data is None or types - {"NOT_FOUND"}:
            raise Unreadable("GitHub rejected the GraphQL query.", code="connector_refused")
        return body.data

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _all_comments(self, path: str) -> list[Comment]:
        return [comment async for comment in self._iter_pages(path, {}, Comment)]

    async def _iter_pages(self, path: str, params: Params, model: type[Model]) -> AsyncIterator[Model]:
        async for response in iter_pages(self._get, path, params, PAGE_SIZE):
            for entry in _parse(list[model], response.data):
                yield entry

    async def _get(self, path: str, params: Params | None = None) -> ApiResponse:
        await self._renew_token()
        return await self.transport.get(path, params)

    async def _renew_token(self) -> None:
        """Have a token that is valid long enough for a request. The App's own is sent with this request alone: others that are sent at
        the same time, or again, would be refused with it."""
        if self._app is None:
            return
        async with self._renewal:
            if time.time() < self._token_expires_at - _RENEW_BEFORE:
                return
            path = f"/app/installations/{self._app.installation}/access_tokens"
            response = await self.transport.post(path, {}, Authorization=f"Bearer {self._app.jwt()}")
            self.transport.set_header("Authorization", f"Bearer {response.data['token']}")
            self._token_expires_at = datetime.fromisoformat(
                response.data["expires_at"].replace("Z", "+00:00")
            ).timestamp()


def decode_blob(text: str, sha: str) -> str:
    """The contents of a blob. A server that does not know the raw media type returns them in JSON, as base64."""
    if not (text.startswith("{") and sha in text):
        return text
    try:
        blob = json.loads(text)
        return base64.b64decode(blob["content"]).decode("utf-8", "replace") if blob["sha"] == sha else text
    except (ValueError, KeyError, TypeError):
        return text


def default_headers() -> dict[str, str]:
    """The headers of every request."""
    return {"Accept": _JSON, "X-GitHub-Api-Version": VERSION}


def _base64_json(claims: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()


def _parse(model: type[Model], data: object) -> Model:
    return parse(model, data, "GitHub")
