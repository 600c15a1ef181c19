"""GitHub's REST and GraphQL: what is asked, and what is taken of the answers.

Requests are those of GitHub's published description (version 2022-11-28). A token, or an App that signs a JWT for itself and
is given a token for an hour, which is renewed in time. Only what is used of an answer is read; what is missing is Unreadable.
"""

import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from pydantic import BaseModel, TypeAdapter, ValidationError

from gristmill.connectors.transport import ApiResponse, CredentialsRejected, Params, Transport
from gristmill.errors import Unreadable

VERSION = "2022-11-28"
PAGE_SIZE = 100
_JSON = "application/vnd.github+json"
_RAW = "application/vnd.github.raw+json"
_RENEW_BEFORE = 300  # seconds before a token ends

Model = TypeVar("Model")


class Owner(BaseModel):
    """An account."""

    login: str
    id: int = 0


class Repository(BaseModel):
    """A repository; its id stays, whatever it is called and whoever owns it."""

    id: int
    full_name: str
    html_url: str
    private: bool = False
    visibility: str = "private"
    default_branch: str = "main"
    has_discussions: bool = False
    has_wiki: bool = False
    owner: Owner

    @property
    def scope(self) -> str:
        """Its name as a scope."""
        return f"repository:{self.id}"


class Label(BaseModel):
    """A label of an issue."""

    name: str | None = None


class Issue(BaseModel):
    """An issue, or a pull request: the list has both."""

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
    """What somebody wrote below an issue or a line of a change."""

    id: int
    body: str | None = None
    user: Owner | None = None
    created_at: datetime | None = None
    submitted_at: datetime | None = None  # reviews
    state: str | None = None  # reviews
    path: str | None = None  # comments on lines


class User(BaseModel):
    """An account, with its public address if it has one."""

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
    """A tree, or the part of it that fits in an answer."""

    sha: str
    tree: list[TreeEntry]
    truncated: bool = False


class GitHubApp:
    """The identity of a GitHub App: signs for itself."""

    def __init__(self, app_id: str, installation: int, key: str) -> None:
        self.app_id, self.installation = app_id, installation
        try:
            loaded = serialization.load_pem_private_key(key.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise CredentialsRejected("The App's private key is not a PEM key. Give it anew.") from None
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise CredentialsRejected("The App's private key is not an RSA key. Give it anew.")
        self._key = loaded

    def jwt(self) -> str:
        """A token for the App itself, good for nine minutes."""
        now = int(time.time())
        claims = {"iat": now - 60, "exp": now + 540, "iss": self.app_id}
        signing_input = f"{_base64_json({'alg': 'RS256', 'typ': 'JWT'})}.{_base64_json(claims)}"
        signature = self._key.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signing_input}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


class GitHubApi:
    """Questions to GitHub."""

    def __init__(self, http: Transport, graphql: str, app: GitHubApp | None) -> None:
        self._http, self._graphql, self._app = http, graphql, app
        self._token_expires_at = 0.0
        self.server_now = datetime.now(UTC)  # GitHub's own time, at the last GraphQL answer

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()

    async def token(self) -> str:
        """The token that requests carry at present, for what takes it in another form."""
        await self._renew_token()
        return self._http.sent_header("Authorization").removeprefix("Bearer ")

    async def whoami(self) -> str:
        """The account that the credentials belong to."""
        if self._app is not None:
            await self._renew_token()
            return f"App {self._app.app_id}, installation {self._app.installation}"
        answer = await self._get("/user")
        return _parse(User, answer.data).login

    async def repository(self, name: str) -> Repository:
        """A repository by owner and name; one that was renamed or transferred is found under its new name."""
        return _parse(Repository, (await self._get(f"/repos/{name}")).data)

    async def organisation_repositories(self, name: str) -> AsyncIterator[Repository]:
        """The repositories of an organisation that the credentials see."""
        params: Params = {"type": "all", "sort": "created", "direction": "asc"}
        async for repository in self._iter_pages(f"/orgs/{name}/repos", params, Repository):
            yield repository

    async def installation_repositories(self) -> AsyncIterator[Repository]:
        """The repositories that an App is installed in."""
        page = 1
        while True:
            params: Params = {"per_page": PAGE_SIZE, "page": page}
            answer = await self._get("/installation/repositories", params)
            repositories = _parse(list[Repository], answer.data.get("repositories", []))
            for repository in repositories:
                yield repository
            if answer.link("next") is None:
                return
            page += 1

    async def issues(
        self, name: str, since: datetime | None, page: int
    ) -> tuple[list[Issue], bool, datetime]:
        """Issues and pull requests by their change, oldest first; whether there are more, and GitHub's time."""
        params: Params = {
            "state": "all",
            "sort": "updated",
            "direction": "asc",
            "per_page": PAGE_SIZE,
            "page": page,
            "since": None if since is None else since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        answer = await self._get(f"/repos/{name}/issues", params)
        return _parse(list[Issue], answer.data), answer.link("next") is not None, server_time(answer)

    async def count_issues(self, name: str) -> int:
        """How many issues and pull requests there are: the number of the last page of one each."""
        params: Params = {"state": "all", "per_page": 1, "page": 1}
        answer = await self._get(f"/repos/{name}/issues", params)
        last = answer.link("last")
        if last is None:
            return len(answer.data)
        return int(httpx.URL(last).params.get("page", 0))

    async def issue(self, name: str, number: int) -> Issue:
        """One issue or pull request; Gone when it was deleted, another one when it was transferred."""
        return _parse(Issue, (await self._get(f"/repos/{name}/issues/{number}")).data)

    async def comments(self, name: str, number: int) -> list[Comment]:
        """What was written below an issue."""
        return await self._all_comments(f"/repos/{name}/issues/{number}/comments")

    async def reviews(self, name: str, number: int) -> list[Comment]:
        """Reviews of a pull request."""
        return await self._all_comments(f"/repos/{name}/pulls/{number}/reviews")

    async def line_comments(self, name: str, number: int) -> list[Comment]:
        """What was written at lines of a pull request."""
        return await self._all_comments(f"/repos/{name}/pulls/{number}/comments")

    async def collaborators(self, name: str) -> list[User]:
        """Everybody who has access, by themselves, a team or the organisation."""
        params: Params = {"affiliation": "all"}
        return [user async for user in self._iter_pages(f"/repos/{name}/collaborators", params, User)]

    async def user(self, login: str) -> User:
        """An account."""
        return _parse(User, (await self._get(f"/users/{login}")).data)

    async def branch_tree(self, name: str, branch: str) -> str:
        """The hash of a branch's tree; an empty repository has none, and is Gone."""
        answer = await self._get(f"/repos/{name}/git/trees/{quote(branch, safe='')}")
        return _parse(Tree, answer.data).sha

    async def tree(self, name: str, sha: str) -> list[TreeEntry]:
        """Every file of a tree, also of one that is too large for one answer."""
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
        return await self._http.text(f"/repos/{name}/git/blobs/{sha}", accept=_RAW, limit=limit)

    async def graphql(self, query: str, **variables: Any) -> Any:
        """The `data` of a GraphQL answer."""
        await self._renew_token()
        answer = await self._http.post(self._graphql, {"query": query, "variables": variables})
        self.server_now = server_time(answer)
        try:
            return answer.data["data"]
        except (KeyError, TypeError):
            raise Unreadable("GitHub's GraphQL refused the question.", code="connector_refused") from None

    # ── ways ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _all_comments(self, path: str) -> list[Comment]:
        return [comment async for comment in self._iter_pages(path, {}, Comment)]

    async def _iter_pages(self, path: str, params: Params, model: type[Model]) -> AsyncIterator[Model]:
        page = 1
        while True:
            answer = await self._get(path, {**params, "per_page": PAGE_SIZE, "page": page})
            for entry in _parse(list[model], answer.data):
                yield entry
            if answer.link("next") is None:
                return
            page += 1

    async def _get(self, path: str, params: Params | None = None) -> ApiResponse:
        await self._renew_token()
        return await self._http.get(path, params)

    async def _renew_token(self) -> None:
        """Have a token that lives long enough for a request."""
        if self._app is None or time.time() < self._token_expires_at - _RENEW_BEFORE:
            return
        self._http.set_header("Authorization", f"Bearer {self._app.jwt()}")
        path = f"/app/installations/{self._app.installation}/access_tokens"
        answer = await self._http.post(path, {})
        self._http.set_header("Authorization", f"Bearer {answer.data['token']}")
        self._token_expires_at = datetime.fromisoformat(
            answer.data["expires_at"].replace("Z", "+00:00")
        ).timestamp()


def default_headers() -> dict[str, str]:
    """What goes with every request."""
    return {"Accept": _JSON, "X-GitHub-Api-Version": VERSION}


def server_time(answer: ApiResponse) -> datetime:
    """The tool's own time, as its answer tells it."""
    try:
        return parsedate_to_datetime(answer.headers["Date"])
    except (KeyError, ValueError, TypeError):
        return datetime.now(UTC)


def _base64_json(claims: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()


def _parse(model: Any, data: Any) -> Any:
    try:
        return TypeAdapter(model).validate_python(data)
    except ValidationError as error:
        problems = ", ".join(str(problem["loc"]) for problem in error.errors()[:3])
        raise Unreadable(
            f"GitHub's answer is not as described: {problems}.", code="connector_refused"
        ) from None
