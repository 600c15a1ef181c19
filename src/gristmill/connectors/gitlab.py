"""GitLab: issues, merge requests, wikis and documents of projects.

    stream                      documents                                          named by
    (project, issues)           issues with notes; internal notes by themselves    the issue's id
    (project, merge_requests)   the same of merge requests                         the merge request's id
    (project, wiki)             pages                                              the project's id and the slug
    (project, file)             files that the globs take, on the default branch   the project's id and the path

Who may see what (GitLab's own rules, by level of access; members count with those of the groups above):

    a public project            everybody, unless the feature is for members only
    issues and wiki             members
    code and merge requests     members from reporter on
    confidential issues,        members from reporter on
    internal notes

Members are known by the address that GitLab shows, or by the mapping that somebody made here. When GitLab does not tell the
members, nobody but admins sees the project. Authors and assignees of confidential issues who are below reporter don't.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pydantic import Field, SecretStr

from gristmill.connectors import anchored, trees
from gristmill.connectors.anchored import Entry, Listed
from gristmill.connectors.connector import (
    Access,
    Account,
    Attachment,
    Audience,
    Batch,
    Document,
    Mark,
    Marks,
    Ref,
    Stream,
)
from gristmill.connectors.gitlab_api import GitLabApi, Member, Note, Project, Thing, WikiPage, Work
from gristmill.connectors.kind import BaseUrl, Form, Kind, OpenConnector, Surroundings
from gristmill.connectors.reading import guarded
from gristmill.connectors.transport import Transport
from gristmill.errors import Gone, Unreadable

MARKS = 1
WIKI, FILE = "wiki", "file"
THINGS: tuple[Thing, ...] = ("issues", "merge_requests")
_GUEST, _REPORTER = 10, 20
# What a member must be to see a feature of a project that isn't public.
_NEEDED = {"issues": _GUEST, "wiki": _GUEST, "merge_requests": _REPORTER, "repository": _REPORTER}


class GitLabConfig(Form):
    """What of GitLab is followed."""

    base_url: BaseUrl = Field(default="https://gitlab.com", description="The server.")
    projects: list[str] = Field(default=[], max_length=500, description="Projects, as paths or numbers.")
    groups: list[str] = Field(default=[], max_length=50, description="Groups, with all that is below them.")
    issues: bool = Field(default=True, description="Whether issues are followed.")
    merge_requests: bool = Field(default=True, description="Whether merge requests are.")
    wiki: bool = Field(default=True, description="Whether wikis are.")
    files: list[str] = Field(
        default=list(trees.DOCS), max_length=50, description="Files to follow, as globs; none when empty."
    )
    internal_is_public: bool = Field(
        default=False, description="Whether everybody here may see an internal project."
    )


class GitLabCredentials(Form):
    """A token: personal, of a group or of a project, with `read_api`."""

    token: SecretStr = Field(description="The token.")


class GitLab(OpenConnector):
    """One GitLab, with what is followed of it."""

    def __init__(self, config: GitLabConfig, api: GitLabApi) -> None:
        self._config, self._api = config, api
        self._projects: list[Project] | None = None
        self._emails: dict[int, str | None] = {}

    async def close(self) -> None:
        """Close its connections."""
        await self._api.close()

    async def check(self) -> Account:
        """Who the token is, and how many projects are followed."""
        account = await self._api.whoami()
        return Account(account.username, f"{len(await self._followed())} projects")

    async def estimate(self, marks: Marks) -> int | None:
        """How many issues and merge requests there are, as long as none was read and GitLab tells."""
        if marks:
            return None
        total = 0
        for project in await self._followed():
            for thing in THINGS:
                if Stream(project.scope, thing) in self._streams(project):
                    counted = await self._api.count(project.id, thing)
                    if counted is None:
                        return None
                    total += counted
        return total

    async def sync(self, marks: Marks, done: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each project."""
        for project in await self._followed():
            wanted = [stream for stream in self._streams(project) if stream not in done]
            audiences = await self._audiences(project) if wanted else []
            for stream in wanted:
                async for batch in guarded(stream, self._read(project, stream, marks.get(stream), audiences)):
                    yield batch
                audiences = []

    async def fetch(self, ref: Ref) -> Document:
        """One document as it is now."""
        project = await self._project(ref)
        if ref.stream not in self._streams(project):
            raise Gone(f"{ref.source_id} is no longer followed.")
        if ref.stream.kind in THINGS:
            thing = ref.stream.kind
            work = await self._api.work(project.id, thing, int(ref.locator["iid"]))
            found = await _Works(self._api, project, thing).documents(work)
        elif ref.stream.kind == WIKI:
            found = [_page(project, await self._api.wiki_page(project.id, str(ref.locator["slug"])))]
        else:
            found = [await self._file_by(project, ref)]
        for document in found:
            if document.ref.source_id == ref.source_id:
                return document
        raise Gone(f"{ref.source_id} is no longer there.")

    async def access(self, audiences: Sequence[str]) -> AsyncIterator[Access]:
        """Who sees each project now; what became confidential is changed, and so is read by the next run."""
        for project in await self._followed():
            if any(key.startswith(f"{project.scope}:") for key in audiences):
                yield Access(await self._audiences(project))

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """GitLab's documents have none."""
        raise Gone(f"{attachment.name} is not there.")
        yield b""

    # ── scopes and eyes ──────────────────────────────────────────────────────────────────────────────────

    async def _followed(self) -> list[Project]:
        if self._projects is None:
            found: dict[int, Project] = {}
            for name in self._config.groups:
                async for project in self._api.group_projects(name):
                    found[project.id] = project
            for name in self._config.projects:
                try:
                    project = await self._api.project(name)
                except Gone:
                    continue  # what it had is asked for once more, and pruned
                found[project.id] = project
            self._projects = sorted(found.values(), key=lambda one: one.id)
        return self._projects

    async def _project(self, ref: Ref) -> Project:
        for project in await self._followed():
            if project.scope == ref.stream.scope:
                return project
        # A list by pages may have stepped over it.
        found = await self._api.project(ref.stream.scope.partition(":")[2])
        path = found.path_with_namespace.lower()
        if not any(path.startswith(f"{group.lower()}/") for group in self._config.groups):
            raise Gone(f"{ref.stream.scope} is no longer followed.")
        return found

    def _streams(self, project: Project) -> list[Stream]:
        config = self._config
        wanted = [
            thing for thing in THINGS if (config.issues if thing == "issues" else config.merge_requests)
        ]
        features = [*wanted, *([WIKI] if config.wiki else [])]
        kinds = [name for name in features if project.level(name) != "disabled"]
        if config.files and project.default_branch and project.level("repository") != "disabled":
            kinds.append(FILE)
        return [Stream(project.scope, kind) for kind in kinds]

    async def _audiences(self, project: Project) -> list[Audience]:
        """Who sees each feature, and what only members from reporter on see."""
        open_ = project.visibility == "public" or (
            project.visibility == "internal" and self._config.internal_is_public
        )
        try:
            members: list[Member] | None = await self._api.members(project.id)
        except (Gone, Unreadable):
            members = None
        found = [await self._members(f"{project.scope}:reporters", members, _REPORTER)]
        for feature, needed in _NEEDED.items():
            key = f"{project.scope}:{feature}"
            if open_ and project.level(feature) != "private":
                found.append(Audience(key, everybody=True))
            else:
                found.append(await self._members(key, members, needed))
        return found

    async def _members(self, key: str, members: list[Member] | None, needed: int) -> Audience:
        if members is None:
            return Audience(key, complete=False)
        let_in = [one for one in members if one.access_level >= needed and one.state == "active"]
        emails = {one.id: await self._email(one) for one in let_in}
        return Audience(
            key,
            emails=frozenset(email for email in emails.values() if email),
            users={str(one.id): one.username for one in let_in if not emails[one.id]},
        )

    async def _email(self, member: Member) -> str | None:
        if member.id not in self._emails:
            found = member.email or member.public_email
            if not found:
                try:
                    found = (await self._api.user(member.id)).public_email
                except (Gone, Unreadable):
                    found = None
            self._emails[member.id] = found or None
        return self._emails[member.id]

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    def _read(
        self, project: Project, stream: Stream, mark: Mark | None, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        if stream.kind in THINGS:
            works = _Works(self._api, project, stream.kind)
            return anchored.read(stream, MARKS, mark, works, audiences)
        if stream.kind == WIKI:
            return self._wiki(project, stream, audiences)
        return self._files(project, stream, mark, audiences)

    async def _wiki(
        self, project: Project, stream: Stream, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        pages = await self._api.wiki(project.id)
        yield Batch(
            stream,
            documents=[_page(project, page) for page in pages],
            audiences=audiences,
            listing="at_once",
        )

    async def _files(
        self, project: Project, stream: Stream, mark: Mark | None, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        try:
            head = await self._api.head(project.id, project.default_branch or "")
        except Gone:
            yield Batch(stream, audiences=audiences, listing="at_once")
            return
        steps = trees.read(
            stream,
            MARKS,
            mark,
            head=head,
            tree_at=partial(self._tree, project),
            ref=partial(_file_ref, project),
            detail=partial(self._file, project),
            audiences=audiences,
        )
        async for batch in steps:
            yield batch

    async def _tree(self, project: Project, commit: str) -> trees.Tree | None:
        try:
            files = await self._api.files(project.id, commit)
        except Gone:
            return None
        return {file.path: file.id for file in files if trees.matches(file.path, self._config.files)}

    async def _file(self, project: Project, path: str, sha: str) -> Document:
        return Document(
            _file_ref(project, path, sha),
            title=path,
            body=await self._api.blob(project.id, sha, trees.LARGEST),
            audience=f"{project.scope}:repository",
            url=f"{project.web_url}/-/blob/{project.default_branch}/{path}",
            metadata={"tool": "gitlab", "type": FILE, "project": project.path_with_namespace, "path": path},
        )

    async def _file_by(self, project: Project, ref: Ref) -> Document:
        tree = await self._tree(project, await self._api.head(project.id, project.default_branch or "")) or {}
        path = str(ref.locator["path"])
        if path not in tree:
            raise Gone(f"{path} is not there.")
        return await self._file(project, path, tree[path])


@dataclass(frozen=True)
class _Works:
    """Issues or merge requests of a project."""

    api: GitLabApi
    project: Project
    thing: Thing

    async def page(self, since: datetime | None, page: int) -> Listed:
        """What changed since an instant."""
        works, more, now = await self.api.changed(self.project.id, self.thing, since, page)
        return Listed([self._entry(work) for work in works], more, now)

    def _entry(self, work: Work) -> Entry:
        ref = self._ref(work)
        return Entry(ref.source_id, work.updated_at, ref, (ref.source_id, f"{ref.source_id}:internal"), work)

    def _ref(self, work: Work) -> Ref:
        name = "issue" if self.thing == "issues" else "merge_request"
        return Ref(f"{name}:{work.id}", Stream(self.project.scope, self.thing), {"iid": work.iid})

    async def detail(self, entry: Entry) -> list[Document]:
        """An issue or merge request with its notes."""
        return await self.documents(entry.data)

    async def documents(self, work: Work) -> list[Document]:
        """The same for one that is at hand; internal notes are a document of their own, for fewer eyes."""
        notes = await self.api.notes(self.project.id, self.thing, work.iid)
        reporters = f"{self.project.scope}:reporters"
        mark = "#" if self.thing == "issues" else "!"
        ref = self._ref(work)
        whole = Document(
            ref,
            title=f"{work.title} ({mark}{work.iid})",
            body=_body(work, [note for note in notes if not note.is_internal]),
            audience=reporters if work.confidential else f"{self.project.scope}:{self.thing}",
            url=work.web_url,
            updated_at=work.updated_at,
            metadata={
                "tool": "gitlab",
                "type": "issue" if self.thing == "issues" else "merge_request",
                "project": self.project.path_with_namespace,
                "number": work.iid,
                "state": work.state,
                "labels": work.labels,
                **({"author": work.author.username} if work.author else {}),
            },
        )
        internal = [note for note in notes if note.is_internal]
        if not internal:
            return [whole]
        among = replace(
            whole,
            ref=replace(ref, source_id=f"{ref.source_id}:internal"),
            title=f"Internal notes on {whole.title}",
            body="\n\n".join([f"# Internal notes on {work.title}", *map(_said, internal)]),
            audience=reporters,
        )
        return [whole, among]


def _body(work: Work, notes: Sequence[Note]) -> str:
    parts = [f"# {work.title}", work.description or "", *map(_said, notes)]
    return "\n\n".join(part for part in parts if part).replace("\r\n", "\n")


def _said(note: Note) -> str:
    who = note.author.username if note.author else "somebody"
    return f"## {who}, {note.created_at.date().isoformat()}\n\n{note.body}"


def _page(project: Project, page: WikiPage) -> Document:
    ref = Ref(f"wiki:{project.id}:{page.slug}", Stream(project.scope, WIKI), {"slug": page.slug})
    return Document(
        ref,
        title=page.title or page.slug,
        body=page.content,
        audience=f"{project.scope}:{WIKI}",
        url=f"{project.web_url}/-/wikis/{page.slug}",
        metadata={"tool": "gitlab", "type": WIKI, "project": project.path_with_namespace, "slug": page.slug},
    )


def _file_ref(project: Project, path: str, sha: str) -> Ref:
    del sha  # a file is the same, whatever is in it
    return Ref(f"file:{project.id}:{path}", Stream(project.scope, FILE), {"path": path})


def _open(config: GitLabConfig, credentials: GitLabCredentials, surroundings: Surroundings) -> OpenConnector:
    http = Transport(
        f"{config.base_url}/api/v4",
        headers={"Authorization": f"Bearer {credentials.token.get_secret_value()}"},
        private=surroundings.private,
        patience=surroundings.patience,
    )
    return GitLab(config, GitLabApi(http))


KIND = Kind("gitlab", GitLabConfig, GitLabCredentials, _open, mark_version=MARKS)
