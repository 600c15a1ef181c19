"""Requests to GitLab's REST API (version 4), and the parts of its responses that we use.

Lists are read by their `Link` header, never by totals: beyond 10,000 rows GitLab returns none. Files of a repository are
listed by keyset.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Literal, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from gristmill.connectors.transport import Params, Transport, iter_pages, parse
from gristmill.errors import Unreadable

PAGE_SIZE = 100
_MAX_PAGES = 20_000
WorkKind = Literal["issues", "merge_requests"]
WORK_KINDS: tuple[WorkKind, ...] = ("issues", "merge_requests")
Model = TypeVar("Model")


class Project(BaseModel):
    """A project; its id never changes, wherever it is moved."""

    id: int
    path_with_namespace: str
    web_url: str
    visibility: str = "private"
    default_branch: str | None = None
    issues_access_level: str = "enabled"
    merge_requests_access_level: str = "enabled"
    wiki_access_level: str = "enabled"
    repository_access_level: str = "enabled"

    @property
    def scope(self) -> str:
        """Its scope."""
        return f"project:{self.id}"

    def access_level_of(self, feature: str) -> str:
        """Who has access to a feature: disabled, private or enabled."""
        return str(getattr(self, f"{feature}_access_level"))


class GitLabUser(BaseModel):
    """An account."""

    id: int
    username: str
    name: str = ""
    email: str | None = None
    public_email: str | None = None


class Member(GitLabUser):
    """A member of a project, directly or by a group above it."""

    access_level: int
    state: str = "active"


class WorkItem(BaseModel):
    """An issue or a merge request."""

    id: int
    iid: int
    title: str
    description: str | None = None
    state: str
    web_url: str
    author: GitLabUser | None = None
    labels: list[str] = []
    updated_at: datetime
    confidential: bool = False
    user_notes_count: int = 0


class Note(BaseModel):
    """A comment on an issue or merge request."""

    id: int
    body: str = ""
    author: GitLabUser | None = None
    created_at: datetime
    system: bool = False
    internal: bool = False
    confidential: bool | None = None

    @property
    def is_internal(self) -> bool:
        """Whether only members from reporter up see it; older servers call that confidential."""
        return self.internal or bool(self.confidential)


class WikiPage(BaseModel):
    """A page of a wiki."""

    slug: str
    title: str
    content: str = ""
    format: str = "markdown"


class TreeFile(BaseModel):
    """A file or folder of a tree; `id` is the hash of its contents."""

    id: str
    path: str
    type: str


class _Commit(BaseModel):
    id: str


class _Branch(BaseModel):
    commit: _Commit


class GitLabApi:
    """Requests to GitLab."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def whoami(self) -> GitLabUser:
        """The account that the token belongs to."""
        return _parse(GitLabUser, (await self.transport.get("/user")).data)

    async def project(self, name: str) -> Project:
        """A project by its path or number; GitLab redirects after a move."""
        return _parse(Project, (await self.transport.get(f"/projects/{quote(name, safe='')}")).data)

    async def group_projects(self, name: str) -> AsyncIterator[Project]:
        """The projects of a group and its subgroups."""
        params: Params = {"include_subgroups": True, "with_shared": False, "order_by": "id", "sort": "asc"}
        async for project in self._iter_pages(f"/groups/{quote(name, safe='')}/projects", params, Project):
            yield project

    async def works_since(
        self, project: int, work_kind: WorkKind, since: datetime | None, page: int
    ) -> tuple[list[WorkItem], bool, datetime]:
        """Issues or merge requests, oldest change first; whether there are more, and GitLab's time."""
        params: Params = {
            "scope": "all",
            "order_by": "updated_at",
            "sort": "asc",
            "per_page": PAGE_SIZE,
            "page": page,
            "updated_after": None if since is None else _iso(since),
        }
        response = await self.transport.get(f"/projects/{project}/{work_kind}", params)
        return _parse(list[WorkItem], response.data), response.has_next_page, response.server_time

    async def count(self, project: int, work_kind: WorkKind) -> int | None:
        """How many there are, if GitLab returns it."""
        params: Params = {"scope": "all", "per_page": 1}
        total = (await self.transport.get(f"/projects/{project}/{work_kind}", params)).headers.get(
            "x-total", ""
        )
        return int(total) if total.isdecimal() else None

    async def work(self, project: int, work_kind: WorkKind, iid: int) -> WorkItem:
        """One issue or merge request."""
        return _parse(WorkItem, (await self.transport.get(f"/projects/{project}/{work_kind}/{iid}")).data)

    async def notes(self, project: int, work_kind: WorkKind, iid: int) -> list[Note]:
        """The notes that people wrote on it."""
        params: Params = {"order_by": "created_at", "sort": "asc"}
        path = f"/projects/{project}/{work_kind}/{iid}/notes"
        return [note async for note in self._iter_pages(path, params, Note) if not note.system]

    async def members(self, project: int) -> list[Member]:
        """Members, with those of the groups above."""
        return [member async for member in self._iter_pages(f"/projects/{project}/members/all", {}, Member)]

    async def user(self, user: int) -> GitLabUser:
        """An account."""
        return _parse(GitLabUser, (await self.transport.get(f"/users/{user}")).data)

    async def wiki(self, project: int) -> list[WikiPage]:
        """All pages of a wiki, with their text."""
        response = await self.transport.get(f"/projects/{project}/wikis", {"with_content": True})
        return _parse(list[WikiPage], response.data)

    async def wiki_page(self, project: int, slug: str) -> WikiPage:
        """One page of a wiki."""
        return _parse(
            WikiPage, (await self.transport.get(f"/projects/{project}/wikis/{quote(slug, safe='')}")).data
        )

    async def head(self, project: int, branch: str) -> str:
        """The newest commit of a branch."""
        path = f"/projects/{project}/repository/branches/{quote(branch, safe='')}"
        return _parse(_Branch, (await self.transport.get(path)).data).commit.id

    async def files(self, project: int, commit: str) -> list[TreeFile]:
        """Every file at a commit."""
        files: list[TreeFile] = []
        params: Params = {"ref": commit, "recursive": True, "pagination": "keyset", "per_page": PAGE_SIZE}
        for _ in range(_MAX_PAGES):
            response = await self.transport.get(f"/projects/{project}/repository/tree", params)
            files += [file for file in _parse(list[TreeFile], response.data) if file.type == "blob"]
            next_link = response.link("next")
            if next_link is None:
                return files
            # Only what it asks for: behind a proxy, a server may have another address of itself, which gets no credentials.
            params = dict(httpx.URL(next_link).params)
        raise Unreadable("The list of a repository's files does not end.", code="connector_refused")

    async def blob(self, project: int, sha: str, limit: int) -> str:
        """The text of a file."""
        path = f"/projects/{project}/repository/blobs/{sha}/raw"
        return await self.transport.text(path, accept="*/*", limit=limit)

    async def _iter_pages(self, path: str, params: Params, model: type[Model]) -> AsyncIterator[Model]:
        async for response in iter_pages(self.transport.get, path, params, PAGE_SIZE):
            for entry in _parse(list[model], response.data):
                yield entry


def _iso(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parse(model: type[Model], data: object) -> Model:
    return parse(model, data, "GitLab")
