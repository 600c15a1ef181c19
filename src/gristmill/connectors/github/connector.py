"""GitHub: issues, pull requests with their reviews, discussions, wikis and documents of repositories.

    stream                      documents                                     named by
    (repository, issue)         issues and pull requests, with all comments   the issue's id
    (repository, discussion)    discussions with comments and replies         the discussion's id
    (repository, wiki)          pages of its wiki, over git                   the repository's id and the path
    (repository, file)          files that match the globs, on main branch    the repository's id and the path

A repository is identified by its number: after a rename or transfer it is the same scope. A public repository is visible to
everyone; any other to its collaborators, by their public email address or by the mappings that admins make. When GitHub does
not return the collaborators, only admins see it.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

from pydantic import Field, SecretStr, model_validator

from gristmill.connectors.github.api import GitHubApi, GitHubApp, Repository, default_headers
from gristmill.connectors.github.discussions import DISCUSSION, Discussions
from gristmill.connectors.github.files import FILE, RepositoryFiles
from gristmill.connectors.github.issues import ISSUE, IssueListing
from gristmill.connectors.github.wiki import WIKI, GitHubWiki, web_url
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
from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1


class GitHubConfig(ConnectorForm):
    """What to follow on GitHub."""

    base_url: BaseUrl = Field(
        default="https://api.github.com", description="The API: `https://HOST/api/v3` for GitHub Enterprise."
    )
    repositories: list[str] = Field(default=[], max_length=500, description="Repositories as `owner/name`.")
    organizations: list[str] = Field(
        default=[], max_length=50, description="Organisations, with all their repositories."
    )
    issues: bool = Field(default=True, description="Whether to follow issues.")
    pull_requests: bool = Field(default=True, description="Whether to follow pull requests.")
    discussions: bool = Field(
        default=True, description="Whether to follow discussions, where they are enabled."
    )
    wiki: bool = Field(default=True, description="Whether to follow wikis, where they are enabled.")
    files: list[str] = Field(
        default=list(by_git_tree.DOCUMENT_GLOBS),
        max_length=50,
        description="Files to follow, as globs; empty for none.",
    )
    internal_is_public: bool = Field(
        default=False, description="Whether every user of Gristmill may see internal repositories."
    )

    @model_validator(mode="after")
    def _check_names(self) -> "GitHubConfig":
        for name in self.repositories:
            owner, _, rest = name.partition("/")
            if not owner or not rest or "/" in rest:
                raise ValueError(f"{name!r} is not owner/name")
        return self


class GitHubCredentials(ConnectorForm):
    """A token, or a GitHub App: its id, installation and private key."""

    token: SecretStr | None = Field(default=None, description="A personal access token.")
    app_id: str | None = Field(default=None, description="The App's id or client id.")
    installation_id: int | None = Field(default=None, description="The id of the App's installation.")
    private_key: SecretStr | None = Field(default=None, description="The App's private key, as PEM.")

    @model_validator(mode="after")
    def _check_one_method(self) -> "GitHubCredentials":
        app = (self.app_id, self.installation_id, self.private_key)
        if (self.token is None) == (None in app) or (self.token is not None and any(app)):
            raise ValueError("give a token, or appId, installationId and privateKey")
        return self


class GitHubConnector(Connector):
    """One GitHub, with what is followed of it."""

    def __init__(self, config: GitHubConfig, api: GitHubApi, web: Transport, *, is_app: bool) -> None:
        super().__init__(api.transport, web)
        self._config, self._api, self._web = config, api, web
        self._follows_installation = is_app and not config.organizations and not config.repositories
        self._repositories: list[Repository] | None = None
        self._second_listing, self._is_listed_twice = asyncio.Lock(), False
        self._emails: dict[str, str | None] = {}
        self._names = FollowedNames("repository or organisation", "repositories or organizations")

    async def check(self) -> Account:
        """Who the credentials belong to, and how many repositories are followed."""
        account = await self._api.whoami()
        repositories = await self._find_repositories()
        return Account(account, f"{len(repositories)} repositories")

    async def find_problems(self) -> list[str]:
        """Repositories and organisations that GitHub does not show."""
        return self._names.problems(await self._find_repositories())

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """How many issues and pull requests there are, in the first run; later it isn't known how many changed."""
        if checkpoints:
            return None
        counts = [
            await self._api.count_issues(repository.full_name)
            for repository in await self._find_repositories()
        ]
        return sum(counts)

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each repository."""
        for repository in await self._find_repositories():
            streams = [stream for stream in self._streams(repository) if stream not in finished]
            audiences = [await self._audience(repository)] if streams else []
            for stream in streams:
                batches = self._read_stream(repository, stream, checkpoints.get(stream), audiences)
                async for batch in errors_as_problems(stream, batches):
                    yield batch
                audiences = []

    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now."""
        repository = await self._repository(ref)
        if ref.stream not in self._streams(repository):
            raise SourceGone(f"{ref.source_id} is no longer followed.")
        if ref.stream.kind == ISSUE:
            return await self._issues(repository).fetch(ref)
        if ref.stream.kind == DISCUSSION:
            return await Discussions(self._api, repository).fetch(ref)
        if ref.stream.kind == WIKI:
            return await GitHubWiki(self._api, self._web, repository).fetch(ref)
        return await by_git_tree.fetch(self._files(repository), ref)

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who sees each repository now."""
        for repository in await self._find_repositories():
            if repository.scope in audience_keys:
                yield AccessUpdate([await self._audience(repository)])

    # ── repositories ─────────────────────────────────────────────────────────────────────────────────────

    async def _find_repositories(self) -> list[Repository]:
        if self._repositories is None:
            repositories: dict[int, Repository] = {}
            for name in self._config.organizations:
                with self._names.looking_up(name):
                    async for repository in self._api.organisation_repositories(name):
                        repositories[repository.id] = repository
            for name in self._config.repositories:
                with self._names.looking_up(name):
                    repository = await self._api.repository(name)
                    repositories[repository.id] = repository
            self._names.require_any(repositories)
            if self._follows_installation:
                async for repository in self._api.installation_repositories():
                    repositories[repository.id] = repository
            self._repositories = sorted(repositories.values(), key=lambda repository: repository.id)
        return self._repositories

    async def _list_installation_again(self) -> None:
        """Add repositories of the installation that paging stepped over, once."""
        async with self._second_listing:  # documents are read several at a time
            if self._is_listed_twice:
                return
            repositories = {repository.id: repository for repository in await self._find_repositories()}
            async for repository in self._api.installation_repositories():
                repositories[repository.id] = repository
            self._repositories = sorted(repositories.values(), key=lambda repository: repository.id)
            self._is_listed_twice = True

    async def _repository(self, ref: DocumentRef) -> Repository:
        if (repository := await self._find_listed(ref.stream.scope)) is not None:
            return repository
        # Paging may have stepped over it. A name proves nothing for an installation: a public repository outside of it is shown, too.
        if self._follows_installation:
            await self._list_installation_again()
            if (repository := await self._find_listed(ref.stream.scope)) is not None:
                return repository
            raise SourceGone(f"{ref.stream.scope} is no longer followed.")
        candidate = await self._api.repository(ref.locator["repository"])
        owners = {name.lower() for name in self._config.organizations}
        names = {name.lower() for name in self._config.repositories}
        is_followed = candidate.owner.login.lower() in owners or candidate.full_name.lower() in names
        if candidate.scope != ref.stream.scope or not is_followed:
            raise SourceGone(f"{ref.stream.scope} is no longer followed.")
        return candidate

    async def _find_listed(self, scope: str) -> Repository | None:
        repositories = await self._find_repositories()
        return next((repository for repository in repositories if repository.scope == scope), None)

    def _streams(self, repository: Repository) -> list[Stream]:
        config = self._config
        kinds = {
            ISSUE: config.issues or config.pull_requests,
            DISCUSSION: config.discussions and repository.has_discussions,
            WIKI: config.wiki and repository.has_wiki,
            FILE: bool(config.files),
        }
        return [Stream(repository.scope, kind) for kind, is_followed in kinds.items() if is_followed]

    def _issues(self, repository: Repository) -> IssueListing:
        return IssueListing(
            self._api,
            repository,
            with_issues=self._config.issues,
            with_pull_requests=self._config.pull_requests,
        )

    def _files(self, repository: Repository) -> RepositoryFiles:
        return RepositoryFiles(self._api, repository, self._config.files)

    def _read_stream(
        self,
        repository: Repository,
        stream: Stream,
        checkpoint: Checkpoint | None,
        audiences: Sequence[Audience],
    ) -> AsyncIterator[Batch]:
        version = CHECKPOINT_VERSION
        if stream.kind == ISSUE:
            return by_updated_at.read(stream, version, checkpoint, self._issues(repository), audiences)
        if stream.kind == DISCUSSION:
            return Discussions(self._api, repository).read(stream, version, checkpoint, audiences)
        if stream.kind == WIKI:
            wiki = GitHubWiki(self._api, self._web, repository)
            return wiki.read(stream, version, checkpoint, audiences)
        return by_git_tree.read(stream, version, checkpoint, self._files(repository), audiences)

    # ── access ───────────────────────────────────────────────────────────────────────────────────────────

    async def _audience(self, repository: Repository) -> Audience:
        is_public = repository.visibility == "public"
        if repository.visibility is None:
            is_public = not repository.private
        elif repository.visibility == "internal":
            is_public = self._config.internal_is_public
        if is_public:
            return Audience(repository.scope, everybody=True)
        return Audience(repository.scope, tool_groups=[await self._collaborators(repository)])

    async def _collaborators(self, repository: Repository) -> ToolGroup:
        """Everyone with access, as one group: GitHub returns them without the teams by which they have it."""
        name = f"{repository.full_name} (collaborators)"
        try:
            collaborators = await self._api.collaborators(repository.full_name)
        except (SourceGone, Unreadable):
            return ToolGroup(repository.scope, name, complete=False)
        users = [ToolUser(str(user.id), user.login, await self._email(user.login)) for user in collaborators]
        return ToolGroup.of_users(repository.scope, name, users)

    async def _email(self, login: str) -> str | None:
        if login not in self._emails:
            try:
                self._emails[login] = (await self._api.user(login)).email
            except (SourceGone, Unreadable):
                self._emails[login] = None
        return self._emails[login]


def _open(config: GitHubConfig, credentials: GitHubCredentials, limits: ConnectorLimits) -> Connector:
    app = None
    headers = default_headers()
    if credentials.token is not None:
        headers["Authorization"] = f"Bearer {credentials.token.get_secret_value()}"
    elif credentials.app_id and credentials.installation_id and credentials.private_key:
        app = GitHubApp(
            credentials.app_id, credentials.installation_id, credentials.private_key.get_secret_value()
        )
    # GitHub Enterprise has REST at /api/v3 and GraphQL at /api/graphql.
    graphql = config.base_url.removesuffix("/v3") + "/graphql"
    api = GitHubApi(limits.transport(config.base_url, headers), graphql, app)
    web = limits.transport(web_url(config.base_url), {})
    return GitHubConnector(config, api, web, is_app=app is not None)


KIND = ConnectorKind("github", GitHubConfig, GitHubCredentials, _open, CHECKPOINT_VERSION, "GitHub")
