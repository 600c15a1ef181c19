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

from gristmill.connectors.gitlab.api import (
    GitLabApi,
    Member,
    Note,
    Project,
    WikiPage,
    WorkItem,
    WorkKind,
)
from gristmill.connectors.listing import by_git_tree, by_updated_at
from gristmill.connectors.listing.by_updated_at import UpdatedEntry, UpdatedPage
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Audience,
    BaseUrl,
    Batch,
    Checkpoint,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    Stream,
)
from gristmill.connectors.streams import errors_as_problems
from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
WIKI, FILE = "wiki", "file"
WORK_KINDS: tuple[WorkKind, ...] = ("issues", "merge_requests")
_GUEST, _REPORTER = 10, 20
# What a member must be to see a feature of a project that isn't public.
_REQUIRED_LEVELS = {"issues": _GUEST, "wiki": _GUEST, "merge_requests": _REPORTER, "repository": _REPORTER}


class GitLabConfig(ConnectorForm):
    """What of GitLab is followed."""

    base_url: BaseUrl = Field(default="https://gitlab.com", description="The server.")
    projects: list[str] = Field(default=[], max_length=500, description="Projects, as paths or numbers.")
    groups: list[str] = Field(default=[], max_length=50, description="Groups, with all that is below them.")
    issues: bool = Field(default=True, description="Whether issues are followed.")
    merge_requests: bool = Field(default=True, description="Whether merge requests are.")
    wiki: bool = Field(default=True, description="Whether wikis are.")
    files: list[str] = Field(
        default=list(by_git_tree.DOCUMENT_GLOBS),
        max_length=50,
        description="Files to follow, as globs; none when empty.",
    )
    internal_is_public: bool = Field(
        default=False, description="Whether everybody here may see an internal project."
    )


class GitLabCredentials(ConnectorForm):
    """A token: personal, of a group or of a project, with `read_api`."""

    token: SecretStr = Field(description="The token.")


class GitLabConnector(Connector):
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
        return Account(account.username, f"{len(await self._find_projects())} projects")

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """How many issues and merge requests there are, as long as none was read and GitLab tells."""
        if checkpoints:
            return None
        total = 0
        for project in await self._find_projects():
            for work_kind in WORK_KINDS:
                if Stream(project.scope, work_kind) in self._streams(project):
                    count = await self._api.count(project.id, work_kind)
                    if count is None:
                        return None
                    total += count
        return total

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each project."""
        for project in await self._find_projects():
            streams = [stream for stream in self._streams(project) if stream not in finished]
            audiences = await self._audiences(project) if streams else []
            for stream in streams:
                async for batch in errors_as_problems(
                    stream, self._read_stream(project, stream, checkpoints.get(stream), audiences)
                ):
                    yield batch
                audiences = []

    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now."""
        project = await self._project(ref)
        if ref.stream not in self._streams(project):
            raise SourceGone(f"{ref.source_id} is no longer followed.")
        if ref.stream.kind in WORK_KINDS:
            work_kind = ref.stream.kind
            work = await self._api.work(project.id, work_kind, int(ref.locator["iid"]))
            documents = await _WorkListing(self._api, project, work_kind).fetch_work_documents(work)
        elif ref.stream.kind == WIKI:
            documents = [
                _wiki_document(project, await self._api.wiki_page(project.id, str(ref.locator["slug"])))
            ]
        else:
            documents = [await self._fetch_file_by_ref(project, ref)]
        for document in documents:
            if document.ref.source_id == ref.source_id:
                return document
        raise SourceGone(f"{ref.source_id} is no longer there.")

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who sees each project now; what became confidential is changed, and so is read by the next run."""
        for project in await self._find_projects():
            if any(key.startswith(f"{project.scope}:") for key in audience_keys):
                yield AccessUpdate(await self._audiences(project))

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """GitLab's documents have none."""
        raise SourceGone(f"{attachment.name} is not there.")
        yield b""

    # ── scopes and eyes ──────────────────────────────────────────────────────────────────────────────────

    async def _find_projects(self) -> list[Project]:
        if self._projects is None:
            projects: dict[int, Project] = {}
            for name in self._config.groups:
                async for project in self._api.group_projects(name):
                    projects[project.id] = project
            for name in self._config.projects:
                try:
                    project = await self._api.project(name)
                except SourceGone:
                    continue  # what it had is asked for once more, and pruned
                projects[project.id] = project
            self._projects = sorted(projects.values(), key=lambda project: project.id)
        return self._projects

    async def _project(self, ref: DocumentRef) -> Project:
        for project in await self._find_projects():
            if project.scope == ref.stream.scope:
                return project
        # A list by pages may have stepped over it.
        candidate = await self._api.project(ref.stream.scope.partition(":")[2])
        path = candidate.path_with_namespace.lower()
        if not any(path.startswith(f"{group.lower()}/") for group in self._config.groups):
            raise SourceGone(f"{ref.stream.scope} is no longer followed.")
        return candidate

    def _streams(self, project: Project) -> list[Stream]:
        config = self._config
        work_kinds = [
            work_kind
            for work_kind in WORK_KINDS
            if (config.issues if work_kind == "issues" else config.merge_requests)
        ]
        features = [*work_kinds, *([WIKI] if config.wiki else [])]
        kinds = [name for name in features if project.access_level_of(name) != "disabled"]
        if config.files and project.default_branch and project.access_level_of("repository") != "disabled":
            kinds.append(FILE)
        return [Stream(project.scope, kind) for kind in kinds]

    async def _audiences(self, project: Project) -> list[Audience]:
        """Who sees each feature, and what only members from reporter on see."""
        is_public = project.visibility == "public" or (
            project.visibility == "internal" and self._config.internal_is_public
        )
        try:
            members: list[Member] | None = await self._api.members(project.id)
        except (SourceGone, Unreadable):
            members = None
        audiences = [await self._member_audience(f"{project.scope}:reporters", members, _REPORTER)]
        for feature, required_level in _REQUIRED_LEVELS.items():
            key = f"{project.scope}:{feature}"
            if is_public and project.access_level_of(feature) != "private":
                audiences.append(Audience(key, everybody=True))
            else:
                audiences.append(await self._member_audience(key, members, required_level))
        return audiences

    async def _member_audience(self, key: str, members: list[Member] | None, required_level: int) -> Audience:
        if members is None:
            return Audience(key, complete=False)
        allowed = [
            member for member in members if member.access_level >= required_level and member.state == "active"
        ]
        emails = {member.id: await self._email(member) for member in allowed}
        return Audience(
            key,
            emails=frozenset(email for email in emails.values() if email),
            users={str(member.id): member.username for member in allowed if not emails[member.id]},
        )

    async def _email(self, member: Member) -> str | None:
        if member.id not in self._emails:
            email = member.email or member.public_email
            if not email:
                try:
                    email = (await self._api.user(member.id)).public_email
                except (SourceGone, Unreadable):
                    email = None
            self._emails[member.id] = email or None
        return self._emails[member.id]

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    def _read_stream(
        self, project: Project, stream: Stream, checkpoint: Checkpoint | None, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        if stream.kind in WORK_KINDS:
            listing = _WorkListing(self._api, project, stream.kind)
            return by_updated_at.read(stream, CHECKPOINT_VERSION, checkpoint, listing, audiences)
        if stream.kind == WIKI:
            return self._read_wiki(project, stream, audiences)
        return self._read_files(project, stream, checkpoint, audiences)

    async def _read_wiki(
        self, project: Project, stream: Stream, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        pages = await self._api.wiki(project.id)
        yield Batch(
            stream,
            documents=[_wiki_document(project, page) for page in pages],
            audiences=audiences,
            listing="single",
        )

    async def _read_files(
        self, project: Project, stream: Stream, checkpoint: Checkpoint | None, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        try:
            head = await self._api.head(project.id, project.default_branch or "")
        except SourceGone:
            yield Batch(stream, audiences=audiences, listing="single")
            return
        batches = by_git_tree.read(
            stream,
            CHECKPOINT_VERSION,
            checkpoint,
            head=head,
            fetch_tree=partial(self._fetch_tree, project),
            ref_of=partial(_file_ref, project),
            fetch_document=partial(self._fetch_file, project),
            audiences=audiences,
        )
        async for batch in batches:
            yield batch

    async def _fetch_tree(self, project: Project, commit: str) -> by_git_tree.GitTree | None:
        try:
            files = await self._api.files(project.id, commit)
        except SourceGone:
            return None
        return {file.path: file.id for file in files if by_git_tree.is_match(file.path, self._config.files)}

    async def _fetch_file(self, project: Project, path: str, sha: str) -> Document:
        return Document(
            _file_ref(project, path, sha),
            title=path,
            body=await self._api.blob(project.id, sha, by_git_tree.MAX_FILE_BYTES),
            audience=f"{project.scope}:repository",
            url=f"{project.web_url}/-/blob/{project.default_branch}/{path}",
            metadata={"tool": "gitlab", "type": FILE, "project": project.path_with_namespace, "path": path},
        )

    async def _fetch_file_by_ref(self, project: Project, ref: DocumentRef) -> Document:
        tree = (
            await self._fetch_tree(project, await self._api.head(project.id, project.default_branch or ""))
            or {}
        )
        path = str(ref.locator["path"])
        if path not in tree:
            raise SourceGone(f"{path} is not there.")
        return await self._fetch_file(project, path, tree[path])


@dataclass(frozen=True)
class _WorkListing:
    """Issues or merge requests of a project."""

    api: GitLabApi
    project: Project
    work_kind: WorkKind

    async def fetch_page(self, since: datetime | None, page: int) -> UpdatedPage:
        """What changed since an instant."""
        works, more, now = await self.api.works_since(self.project.id, self.work_kind, since, page)
        return UpdatedPage([self._entry(work) for work in works], more, now)

    def _entry(self, work: WorkItem) -> UpdatedEntry:
        ref = self._ref(work)
        return UpdatedEntry(
            ref.source_id, work.updated_at, ref, (ref.source_id, f"{ref.source_id}:internal"), work
        )

    def _ref(self, work: WorkItem) -> DocumentRef:
        name = "issue" if self.work_kind == "issues" else "merge_request"
        return DocumentRef(f"{name}:{work.id}", Stream(self.project.scope, self.work_kind), {"iid": work.iid})

    async def fetch_documents(self, entry: UpdatedEntry) -> list[Document]:
        """An issue or merge request with its notes."""
        return await self.fetch_work_documents(entry.data)

    async def fetch_work_documents(self, work: WorkItem) -> list[Document]:
        """The same for one that is at hand; internal notes are a document of their own, for fewer eyes."""
        notes = await self.api.notes(self.project.id, self.work_kind, work.iid)
        reporters = f"{self.project.scope}:reporters"
        symbol = "#" if self.work_kind == "issues" else "!"
        ref = self._ref(work)
        document = Document(
            ref,
            title=f"{work.title} ({symbol}{work.iid})",
            body=_work_body(work, [note for note in notes if not note.is_internal]),
            audience=reporters if work.confidential else f"{self.project.scope}:{self.work_kind}",
            url=work.web_url,
            updated_at=work.updated_at,
            metadata={
                "tool": "gitlab",
                "type": "issue" if self.work_kind == "issues" else "merge_request",
                "project": self.project.path_with_namespace,
                "number": work.iid,
                "state": work.state,
                "labels": work.labels,
                **({"author": work.author.username} if work.author else {}),
            },
        )
        internal = [note for note in notes if note.is_internal]
        if not internal:
            return [document]
        internal_document = replace(
            document,
            ref=replace(ref, source_id=f"{ref.source_id}:internal"),
            title=f"Internal notes on {document.title}",
            body="\n\n".join([f"# Internal notes on {work.title}", *map(_note_section, internal)]),
            audience=reporters,
        )
        return [document, internal_document]


def _work_body(work: WorkItem, notes: Sequence[Note]) -> str:
    parts = [f"# {work.title}", work.description or "", *map(_note_section, notes)]
    return "\n\n".join(part for part in parts if part).replace("\r\n", "\n")


def _note_section(note: Note) -> str:
    author = note.author.username if note.author else "somebody"
    return f"## {author}, {note.created_at.date().isoformat()}\n\n{note.body}"


def _wiki_document(project: Project, page: WikiPage) -> Document:
    ref = DocumentRef(f"wiki:{project.id}:{page.slug}", Stream(project.scope, WIKI), {"slug": page.slug})
    return Document(
        ref,
        title=page.title or page.slug,
        body=page.content,
        audience=f"{project.scope}:{WIKI}",
        url=f"{project.web_url}/-/wikis/{page.slug}",
        metadata={"tool": "gitlab", "type": WIKI, "project": project.path_with_namespace, "slug": page.slug},
    )


def _file_ref(project: Project, path: str, sha: str) -> DocumentRef:
    del sha  # a file is the same, whatever is in it
    return DocumentRef(f"file:{project.id}:{path}", Stream(project.scope, FILE), {"path": path})


def _open(config: GitLabConfig, credentials: GitLabCredentials, limits: ConnectorLimits) -> Connector:
    http = Transport(
        f"{config.base_url}/api/v4",
        headers={"Authorization": f"Bearer {credentials.token.get_secret_value()}"},
        allow_private=limits.allow_private,
        max_wait=limits.max_wait,
    )
    return GitLabConnector(config, GitLabApi(http))


KIND = ConnectorKind("gitlab", GitLabConfig, GitLabCredentials, _open, checkpoint_version=CHECKPOINT_VERSION)
