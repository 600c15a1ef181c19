"""GitLab: issues, merge requests, wikis and documents of projects.

    stream                      documents                                          named by
    (project, issues)           issues with notes; internal notes by themselves    the issue's id
    (project, merge_requests)   the same for merge requests                        the merge request's id
    (project, wiki)             pages                                              the project's id and the slug
    (project, file)             files that match the globs, on the default branch  the project's id and the path

Who may see what (GitLab's own rules, by access level; members of the groups above count as members):

    a public project            everyone, unless the feature is for members only
    issues and wiki             members
    code and merge requests     members from reporter up
    confidential issues,        members from reporter up
    internal notes

Members are known by the email address that GitLab shows, or by the mappings that admins make. When GitLab does not return the
members, only admins see the project. Authors and assignees of confidential issues below reporter don't see them.
"""

from collections.abc import AsyncIterator, Collection, Sequence

from pydantic import Field, SecretStr

from gristmill.connectors.gitlab.api import WORK_KINDS, GitLabApi, Member, Project
from gristmill.connectors.gitlab.files import FILE, ProjectFiles
from gristmill.connectors.gitlab.wiki import WIKI, page_document
from gristmill.connectors.gitlab.works import WorkListing, internal_notes
from gristmill.connectors.listing import by_git_tree, by_updated_at
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
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
    ToolGroup,
    ToolUser,
)
from gristmill.connectors.streams import FollowedNames, errors_as_problems
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
_GUEST, _REPORTER = 10, 20
_LEVELS = {_GUEST: "members", _REPORTER: "reporters and up"}
# The access level that a member needs to see a feature of a project that isn't public.
_REQUIRED_LEVELS = {"issues": _GUEST, "wiki": _GUEST, "merge_requests": _REPORTER, "repository": _REPORTER}


class GitLabConfig(ConnectorForm):
    """What to follow on GitLab."""

    base_url: BaseUrl = Field(default="https://gitlab.com", description="The server.")
    projects: list[str] = Field(default=[], max_length=500, description="Projects, as paths or numbers.")
    groups: list[str] = Field(default=[], max_length=50, description="Groups, with all that is below them.")
    issues: bool = Field(default=True, description="Whether to follow issues.")
    merge_requests: bool = Field(default=True, description="Whether to follow merge requests.")
    wiki: bool = Field(default=True, description="Whether to follow wikis.")
    files: list[str] = Field(
        default=list(by_git_tree.DOCUMENT_GLOBS),
        max_length=50,
        description="Files to follow, as globs; empty for none.",
    )
    internal_is_public: bool = Field(
        default=False, description="Whether every user of Gristmill may see internal projects."
    )


class GitLabCredentials(ConnectorForm):
    """A token of a user, a group or a project, with the scope `read_api`."""

    token: SecretStr = Field(description="The token.")


class GitLabConnector(Connector):
    """One GitLab, with what is followed of it."""

    def __init__(self, config: GitLabConfig, api: GitLabApi) -> None:
        super().__init__(api.transport)
        self._config, self._api = config, api
        self._projects: list[Project] | None = None
        self._emails: dict[int, str | None] = {}
        self._names = FollowedNames("project or group", "projects or groups")

    async def check(self) -> Account:
        """Who the token belongs to, and how many projects are followed."""
        account = await self._api.whoami()
        return Account(account.username, f"{len(await self._find_projects())} projects")

    async def find_problems(self) -> list[str]:
        """Projects and groups that GitLab does not show."""
        return self._names.problems(await self._find_projects())

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """How many issues and merge requests there are, in the first run and if GitLab returns totals."""
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
                batches = self._read_stream(project, stream, checkpoints.get(stream), audiences)
                async for batch in errors_as_problems(stream, batches):
                    yield batch
                audiences = []

    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now."""
        project = await self._project(ref)
        if ref.stream not in self._streams(project):
            raise SourceGone(f"{ref.source_id} is no longer followed.")
        if ref.stream.kind in WORK_KINDS:
            work = await self._api.work(project.id, ref.stream.kind, int(ref.locator["iid"]))
            documents = await WorkListing(self._api, project, ref.stream.kind).work_documents(work)
        elif ref.stream.kind == WIKI:
            page = await self._api.wiki_page(project.id, str(ref.locator["slug"]))
            documents = [page_document(project, page)]
        else:
            documents = [await by_git_tree.fetch(self._files(project), ref)]
        for document in documents:
            if document.ref.source_id == ref.source_id:
                return document
        raise SourceGone(f"{ref.source_id} is no longer there.")

    def companion_ids(self, ref: DocumentRef) -> tuple[str, ...]:
        """The internal notes of an issue or merge request."""
        return internal_notes(ref)

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who sees each project now. A work that became confidential has changed, so the next run reads it."""
        for project in await self._find_projects():
            if any(key.startswith(f"{project.scope}:") for key in audience_keys):
                yield AccessUpdate(await self._audiences(project))

    # ── projects ─────────────────────────────────────────────────────────────────────────────────────────

    async def _find_projects(self) -> list[Project]:
        if self._projects is None:
            projects: dict[int, Project] = {}
            for name in self._config.groups:
                with self._names.looking_up(name):
                    async for project in self._api.group_projects(name):
                        projects[project.id] = project
            for name in self._config.projects:
                with self._names.looking_up(name):
                    project = await self._api.project(name)
                    projects[project.id] = project
            self._names.require_any(projects)
            self._projects = sorted(projects.values(), key=lambda project: project.id)
        return self._projects

    async def _project(self, ref: DocumentRef) -> Project:
        for project in await self._find_projects():
            if project.scope == ref.stream.scope:
                return project
        # Paging may have stepped over it.
        candidate = await self._api.project(ref.stream.scope.partition(":")[2])
        path = candidate.path_with_namespace.lower()
        if not any(path.startswith(f"{group.lower()}/") for group in self._config.groups):
            raise SourceGone(f"{ref.stream.scope} is no longer followed.")
        return candidate

    def _streams(self, project: Project) -> list[Stream]:
        config = self._config
        features = {"issues": config.issues, "merge_requests": config.merge_requests, WIKI: config.wiki}
        kinds = [
            feature
            for feature, is_followed in features.items()
            if is_followed and project.access_level_of(feature) != "disabled"
        ]
        if config.files and project.default_branch and project.access_level_of("repository") != "disabled":
            kinds.append(FILE)
        return [Stream(project.scope, kind) for kind in kinds]

    def _files(self, project: Project) -> ProjectFiles:
        return ProjectFiles(self._api, project, self._config.files)

    def _read_stream(
        self, project: Project, stream: Stream, checkpoint: Checkpoint | None, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        version = CHECKPOINT_VERSION
        if stream.kind in WORK_KINDS:
            works = WorkListing(self._api, project, stream.kind)
            return by_updated_at.read(stream, version, checkpoint, works, audiences)
        if stream.kind == WIKI:
            return self._read_wiki(project, stream, audiences)
        return by_git_tree.read(stream, version, checkpoint, self._files(project), audiences)

    async def _read_wiki(
        self, project: Project, stream: Stream, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        pages = await self._api.wiki(project.id)
        documents = [page_document(project, page) for page in pages]
        yield Batch(stream, documents=documents, audiences=audiences, listing="single")

    # ── access ───────────────────────────────────────────────────────────────────────────────────────────

    async def _audiences(self, project: Project) -> list[Audience]:
        """Who sees each feature, and what only members from reporter up see."""
        is_public = project.visibility == "public" or (
            project.visibility == "internal" and self._config.internal_is_public
        )
        try:
            members: list[Member] | None = await self._api.members(project.id)
        except (SourceGone, Unreadable):
            members = None
        group_by_level = {
            level: await self._member_group(project, members, level, word) for level, word in _LEVELS.items()
        }
        audiences = [Audience(f"{project.scope}:reporters", tool_groups=[group_by_level[_REPORTER]])]
        for feature, required_level in _REQUIRED_LEVELS.items():
            key = f"{project.scope}:{feature}"
            if is_public and project.access_level_of(feature) != "private":
                audiences.append(Audience(key, everybody=True))
            else:
                audiences.append(Audience(key, tool_groups=[group_by_level[required_level]]))
        return audiences

    async def _member_group(
        self, project: Project, members: list[Member] | None, level: int, word: str
    ) -> ToolGroup:
        """The members of a project from a level up, those of the groups above included, as one group."""
        group_id, name = f"{project.scope}:{level}", f"{project.path_with_namespace} ({word})"
        if members is None:
            return ToolGroup(group_id, name, complete=False)
        users = [
            ToolUser(str(member.id), member.username, await self._email(member))
            for member in members
            if member.access_level >= level and member.state == "active"
        ]
        return ToolGroup.of_users(group_id, name, users)

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


def _open(config: GitLabConfig, credentials: GitLabCredentials, limits: ConnectorLimits) -> Connector:
    headers = {"Authorization": f"Bearer {credentials.token.get_secret_value()}"}
    return GitLabConnector(config, GitLabApi(limits.transport(f"{config.base_url}/api/v4", headers)))


KIND = ConnectorKind("gitlab", GitLabConfig, GitLabCredentials, _open, CHECKPOINT_VERSION, "GitLab")
