"""GitHub: issues, pull requests with their reviews, discussions, wikis and documents of repositories.

    stream                      documents                                     named by
    (repository, issue)         issues and pull requests, with all comments   the issue's id
    (repository, discussion)    discussions with comments and replies         the discussion's id
    (repository, wiki)          pages of its wiki, over git                   the repository's id and the path
    (repository, file)          files that the globs take, on the main branch the repository's id and the path

A repository is its number: renamed or transferred, it is the same scope. Who may see a repository: everybody, when it is
public; else its collaborators, by their public address or by the mapping that somebody made here. When GitHub does not tell
the collaborators, nobody but admins.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pydantic import Field, SecretStr, model_validator

from gristmill.connectors.github.api import (
    Comment,
    GitHubApi,
    GitHubApp,
    Issue,
    Repository,
    default_headers,
)
from gristmill.connectors.github.discussions import Discussions
from gristmill.connectors.github.wiki import WIKI, GitHubWiki, web_url
from gristmill.connectors.listing import by_git_tree, by_updated_at
from gristmill.connectors.listing.by_updated_at import UpdatedEntry, UpdatedPage
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Audience,
    BaseUrl,
    Batch,
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
ISSUE, DISCUSSION, FILE = "issue", "discussion", "file"


class GitHubConfig(ConnectorForm):
    """What of GitHub is followed."""

    base_url: BaseUrl = Field(
        default="https://api.github.com", description="The API: `https://HOST/api/v3` for GitHub Enterprise."
    )
    repositories: list[str] = Field(default=[], max_length=500, description="Repositories as `owner/name`.")
    organizations: list[str] = Field(
        default=[], max_length=50, description="Organisations, with all repositories."
    )
    issues: bool = Field(default=True, description="Whether issues are followed.")
    pull_requests: bool = Field(default=True, description="Whether pull requests are.")
    discussions: bool = Field(default=True, description="Whether discussions are, where they are enabled.")
    wiki: bool = Field(default=True, description="Whether wikis are, where they are enabled.")
    files: list[str] = Field(
        default=list(by_git_tree.DOCUMENT_GLOBS),
        max_length=50,
        description="Files to follow, as globs; none when empty.",
    )
    internal_is_public: bool = Field(
        default=False, description="Whether everybody here may see an internal repository."
    )

    @model_validator(mode="after")
    def _check_names(self) -> "GitHubConfig":
        for name in self.repositories:
            owner, _, rest = name.partition("/")
            if not owner or not rest or "/" in rest:
                raise ValueError(f"{name!r} is not owner/name")
        return self


class GitHubCredentials(ConnectorForm):
    """A token, or an App: its id, installation and private key."""

    token: SecretStr | None = Field(default=None, description="A personal access token.")
    app_id: str | None = Field(default=None, description="The App's id or client id.")
    installation_id: int | None = Field(default=None, description="Where the App is installed.")
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
        self._config, self._api, self._web, self._is_app = config, api, web, is_app
        self._repositories: list[Repository] | None = None
        self._emails: dict[str, str | None] = {}

    async def close(self) -> None:
        """Close its connections."""
        await self._api.close()
        await self._web.close()

    async def check(self) -> Account:
        """Who the credentials are, and that every repository that is named can be read."""
        account = await self._api.whoami()
        repositories = await self._find_repositories()
        return Account(account, f"{len(repositories)} repositories")

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """How many issues and pull requests there are, as long as none was read; later nobody knows how many changed."""
        if checkpoints:
            return None
        return sum(
            [
                await self._api.count_issues(repository.full_name)
                for repository in await self._find_repositories()
            ]
        )

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each repository."""
        for repository in await self._find_repositories():
            streams = [stream for stream in self._streams(repository) if stream not in finished]
            audiences = [await self._audience(repository)] if streams else []
            for stream in streams:
                async for batch in errors_as_problems(
                    stream, self._read_stream(repository, stream, checkpoints, audiences)
                ):
                    yield batch
                audiences = []

    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now."""
        repository = await self._repository(ref)
        if ref.stream not in self._streams(repository):
            raise SourceGone(f"{ref.source_id} is no longer followed.")
        match ref.stream.kind:
            case "issue":
                return await self._fetch_issue_by_ref(repository, ref)
            case "discussion":
                return await Discussions(self._api, repository).fetch(ref)
            case "wiki":
                return await GitHubWiki(self._api, self._web, repository).fetch(ref)
            case _:
                return await self._fetch_file_by_ref(repository, ref)

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who sees each repository now."""
        for repository in await self._find_repositories():
            if repository.scope in audience_keys:
                yield AccessUpdate([await self._audience(repository)])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """GitHub's documents have none."""
        raise SourceGone(f"{attachment.name} is not there.")
        yield b""

    # ── scopes and eyes ──────────────────────────────────────────────────────────────────────────────────

    async def _find_repositories(self) -> list[Repository]:
        if self._repositories is None:
            repositories: dict[int, Repository] = {}
            for name in self._config.organizations:
                async for repository in self._api.organisation_repositories(name):
                    repositories[repository.id] = repository
            for name in self._config.repositories:
                try:
                    repository = await self._api.repository(name)
                except SourceGone:
                    continue  # what it had is asked for once more, and pruned
                repositories[repository.id] = repository
            if self._is_app and not self._config.organizations and not self._config.repositories:
                async for repository in self._api.installation_repositories():
                    repositories[repository.id] = repository
            self._repositories = sorted(repositories.values(), key=lambda repository: repository.id)
        return self._repositories

    async def _repository(self, ref: DocumentRef) -> Repository:
        for repository in await self._find_repositories():
            if repository.scope == ref.stream.scope:
                return repository
        # A list by pages may have stepped over it.
        candidate = await self._api.repository(ref.locator["repository"])
        owners = {name.lower() for name in self._config.organizations}
        names = {name.lower() for name in self._config.repositories}
        is_followed = candidate.owner.login.lower() in owners or candidate.full_name.lower() in names
        if candidate.scope != ref.stream.scope or not is_followed:
            raise SourceGone(f"{ref.stream.scope} is no longer followed.")
        return candidate

    def _streams(self, repository: Repository) -> list[Stream]:
        config = self._config
        streams: list[Stream] = []
        if config.issues or config.pull_requests:
            streams.append(Stream(repository.scope, ISSUE))
        if config.discussions and repository.has_discussions:
            streams.append(Stream(repository.scope, DISCUSSION))
        if config.wiki and repository.has_wiki:
            streams.append(Stream(repository.scope, WIKI))
        if config.files:
            streams.append(Stream(repository.scope, FILE))
        return streams

    async def _audience(self, repository: Repository) -> Audience:
        is_public = repository.visibility == "public" or not repository.private
        if repository.visibility == "internal":
            is_public = self._config.internal_is_public
        if is_public:
            return Audience(repository.scope, everybody=True)
        try:
            collaborators = await self._api.collaborators(repository.full_name)
        except (SourceGone, Unreadable):
            return Audience(repository.scope, complete=False)
        emails = {person.login: await self._email(person.login) for person in collaborators}
        return Audience(
            repository.scope,
            emails=frozenset(email for email in emails.values() if email),
            users={str(person.id): person.login for person in collaborators if not emails[person.login]},
        )

    async def _email(self, login: str) -> str | None:
        if login not in self._emails:
            try:
                self._emails[login] = (await self._api.user(login)).email
            except (SourceGone, Unreadable):
                self._emails[login] = None
        return self._emails[login]

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    def _read_stream(
        self, repository: Repository, stream: Stream, checkpoints: Checkpoints, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        checkpoint = checkpoints.get(stream)
        if stream.kind == ISSUE:
            listing = _IssueListing(self._api, self._config, repository)
            return by_updated_at.read(stream, CHECKPOINT_VERSION, checkpoint, listing, audiences)
        if stream.kind == DISCUSSION:
            return Discussions(self._api, repository).read(stream, CHECKPOINT_VERSION, checkpoint, audiences)
        if stream.kind == WIKI:
            return GitHubWiki(self._api, self._web, repository).read(
                stream, CHECKPOINT_VERSION, checkpoint, audiences
            )
        return self._read_files(repository, stream, checkpoints, audiences)

    async def _read_files(
        self, repository: Repository, stream: Stream, checkpoints: Checkpoints, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        try:
            head = await self._api.branch_tree(repository.full_name, repository.default_branch)
        except Unreadable as error:
            if error.code != "connector_refused":  # 409: a repository without commits
                raise
            yield Batch(stream, audiences=audiences, listing="single")
            return
        except SourceGone:
            yield Batch(stream, audiences=audiences, listing="single")
            return
        batches = by_git_tree.read(
            stream,
            CHECKPOINT_VERSION,
            checkpoints.get(stream),
            head=head,
            fetch_tree=partial(self._fetch_tree, repository),
            ref_of=partial(_file_ref, repository),
            fetch_document=partial(self._fetch_file, repository),
            audiences=audiences,
        )
        async for batch in batches:
            yield batch

    async def _fetch_tree(self, repository: Repository, sha: str) -> by_git_tree.GitTree | None:
        try:
            entries = await self._api.tree(repository.full_name, sha)
        except SourceGone:
            return None
        return {
            entry.path: entry.sha
            for entry in entries
            if by_git_tree.is_match(entry.path, self._config.files)
            and entry.size <= by_git_tree.MAX_FILE_BYTES
        }

    async def _fetch_file(self, repository: Repository, path: str, sha: str) -> Document:
        text = await self._api.blob(repository.full_name, sha, by_git_tree.MAX_FILE_BYTES)
        return Document(
            _file_ref(repository, path, sha),
            title=path,
            body=text,
            audience=repository.scope,
            url=f"{repository.html_url}/blob/{repository.default_branch}/{path}",
            metadata={"tool": "github", "type": FILE, "repository": repository.full_name, "path": path},
        )

    async def _fetch_file_by_ref(self, repository: Repository, ref: DocumentRef) -> Document:
        head = await self._api.branch_tree(repository.full_name, repository.default_branch)
        tree = await self._fetch_tree(repository, head) or {}
        path = str(ref.locator["path"])
        if path not in tree:
            raise SourceGone(f"{path} is not there.")
        return await self._fetch_file(repository, path, tree[path])

    async def _fetch_issue_by_ref(self, repository: Repository, ref: DocumentRef) -> Document:
        issue = await self._api.issue(repository.full_name, int(ref.locator["number"]))
        listing = _IssueListing(self._api, self._config, repository)
        # One that was transferred is answered with what it became elsewhere.
        if _issue_ref(repository, issue).source_id != ref.source_id or not listing.is_followed(issue):
            raise SourceGone(f"{ref.source_id} is no longer there.")
        return await listing.fetch_document(issue)


@dataclass(frozen=True)
class _IssueListing:
    """Issues and pull requests of a repository: GitHub lists them together."""

    api: GitHubApi
    config: GitHubConfig
    repository: Repository

    def is_followed(self, issue: Issue) -> bool:
        """Whether it is of a kind that is followed."""
        return self.config.issues if issue.pull_request is None else self.config.pull_requests

    async def fetch_page(self, since: datetime | None, page: int) -> UpdatedPage:
        """What changed since an instant."""
        issues, more, now = await self.api.issues(self.repository.full_name, since, page)
        return UpdatedPage([self._entry(issue) for issue in issues], more, now)

    def _entry(self, issue: Issue) -> UpdatedEntry:
        ref = _issue_ref(self.repository, issue)
        return UpdatedEntry(
            ref.source_id, issue.updated_at, ref, (ref.source_id,), issue, is_followed=self.is_followed(issue)
        )

    async def fetch_documents(self, entry: UpdatedEntry) -> list[Document]:
        """An issue with all that was written below it."""
        return [await self.fetch_document(entry.data)]

    async def fetch_document(self, issue: Issue) -> Document:
        """The same, for an issue that is at hand."""
        name, number = self.repository.full_name, issue.number
        comments = await self.api.comments(name, number) if issue.comments else []
        if issue.pull_request is not None:
            comments += await self.api.reviews(name, number)
            comments += await self.api.line_comments(name, number)
        is_pull = issue.pull_request is not None
        metadata = {
            "tool": "github",
            "type": "pull_request" if is_pull else ISSUE,
            "repository": name,
            "number": number,
            "state": "merged" if is_pull and (issue.pull_request or {}).get("merged_at") else issue.state,
            "labels": [label if isinstance(label, str) else label.name or "" for label in issue.labels],
            **({"author": issue.user.login} if issue.user else {}),
        }
        return Document(
            _issue_ref(self.repository, issue),
            title=f"{issue.title} (#{number})",
            body=_issue_body(issue, comments),
            audience=self.repository.scope,
            url=issue.html_url,
            updated_at=issue.updated_at,
            metadata=metadata,
        )


def _issue_body(issue: Issue, comments: Sequence[Comment]) -> str:
    parts = [f"# {issue.title}", issue.body or ""]
    ordered = sorted(comments, key=lambda comment: (_written_at(comment), comment.id))
    for comment in ordered:
        if not (comment.body or "").strip():
            continue
        author = comment.user.login if comment.user else "somebody"
        location = f" at `{comment.path}`" if comment.path else ""
        parts.append(f"## {author}, {_written_at(comment)[:10]}{location}\n\n{comment.body}")
    return "\n\n".join(part for part in parts if part).replace("\r\n", "\n")


def _written_at(comment: Comment) -> str:
    stamp = comment.created_at or comment.submitted_at
    return "" if stamp is None else stamp.isoformat()


def _issue_ref(repository: Repository, issue: Issue) -> DocumentRef:
    stream = Stream(repository.scope, ISSUE)
    return DocumentRef(
        f"issue:{issue.id}", stream, {"repository": repository.full_name, "number": issue.number}
    )


def _file_ref(repository: Repository, path: str, sha: str) -> DocumentRef:
    del sha  # a file is the same, whatever is in it
    stream = Stream(repository.scope, FILE)
    return DocumentRef(
        f"file:{repository.id}:{path}", stream, {"repository": repository.full_name, "path": path}
    )


def _open(config: GitHubConfig, credentials: GitHubCredentials, limits: ConnectorLimits) -> Connector:
    app = None
    request_headers = default_headers()
    if credentials.token is not None:
        request_headers["Authorization"] = f"Bearer {credentials.token.get_secret_value()}"
    elif credentials.app_id and credentials.installation_id and credentials.private_key:
        app = GitHubApp(
            credentials.app_id, credentials.installation_id, credentials.private_key.get_secret_value()
        )
    http = Transport(
        config.base_url, headers=request_headers, allow_private=limits.allow_private, max_wait=limits.max_wait
    )
    # On GitHub Enterprise REST is below /api/v3, and GraphQL beside it.
    graphql = config.base_url.removesuffix("/v3") + "/graphql"
    web = Transport(
        web_url(config.base_url), headers={}, allow_private=limits.allow_private, max_wait=limits.max_wait
    )
    return GitHubConnector(config, GitHubApi(http, graphql, app), web, is_app=app is not None)


KIND = ConnectorKind("github", GitHubConfig, GitHubCredentials, _open, checkpoint_version=CHECKPOINT_VERSION)
