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

from gristmill.connectors import anchored, trees
from gristmill.connectors.anchored import Entry, Listed
from gristmill.connectors.connector import (
    Access,
    Account,
    Attachment,
    Audience,
    Batch,
    Document,
    Marks,
    Ref,
    Stream,
)
from gristmill.connectors.github_api import App, Comment, GitHubApi, Issue, Repository, headers
from gristmill.connectors.github_discussions import Discussions
from gristmill.connectors.github_wiki import WIKI, Wiki, web_of
from gristmill.connectors.kind import BaseUrl, Form, Kind, OpenConnector, Surroundings
from gristmill.connectors.reading import guarded
from gristmill.connectors.transport import Transport
from gristmill.errors import Gone, Unreadable

MARKS = 1
ISSUE, DISCUSSION, FILE = "issue", "discussion", "file"


class GitHubConfig(Form):
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
        default=list(trees.DOCS), max_length=50, description="Files to follow, as globs; none when empty."
    )
    internal_is_public: bool = Field(
        default=False, description="Whether everybody here may see an internal repository."
    )

    @model_validator(mode="after")
    def _something(self) -> "GitHubConfig":
        for name in self.repositories:
            owner, _, rest = name.partition("/")
            if not owner or not rest or "/" in rest:
                raise ValueError(f"{name!r} is not owner/name")
        return self


class GitHubCredentials(Form):
    """A token, or an App: its id, installation and private key."""

    token: SecretStr | None = Field(default=None, description="A personal access token.")
    app_id: str | None = Field(default=None, description="The App's id or client id.")
    installation_id: int | None = Field(default=None, description="Where the App is installed.")
    private_key: SecretStr | None = Field(default=None, description="The App's private key, as PEM.")

    @model_validator(mode="after")
    def _one(self) -> "GitHubCredentials":
        app = (self.app_id, self.installation_id, self.private_key)
        if (self.token is None) == (None in app) or (self.token is not None and any(app)):
            raise ValueError("give a token, or appId, installationId and privateKey")
        return self


class GitHub(OpenConnector):
    """One GitHub, with what is followed of it."""

    def __init__(self, config: GitHubConfig, api: GitHubApi, web: Transport, *, app: bool) -> None:
        self._config, self._api, self._web, self._app = config, api, web, app
        self._repositories: list[Repository] | None = None
        self._emails: dict[str, str | None] = {}

    async def close(self) -> None:
        """Close its connections."""
        await self._api.close()
        await self._web.close()

    async def check(self) -> Account:
        """Who the credentials are, and that every repository that is named can be read."""
        account = await self._api.whoami()
        found = await self._followed()
        return Account(account, f"{len(found)} repositories")

    async def estimate(self, marks: Marks) -> int | None:
        """How many issues and pull requests there are, as long as none was read; later nobody knows how many changed."""
        if marks:
            return None
        return sum([await self._api.count_issues(one.full_name) for one in await self._followed()])

    async def sync(self, marks: Marks, done: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed in each repository."""
        for repository in await self._followed():
            wanted = [stream for stream in self._streams(repository) if stream not in done]
            audiences = [await self._audience(repository)] if wanted else []
            for stream in wanted:
                async for batch in guarded(stream, self._read(repository, stream, marks, audiences)):
                    yield batch
                audiences = []

    async def fetch(self, ref: Ref) -> Document:
        """One document as it is now."""
        repository = await self._repository(ref)
        if ref.stream not in self._streams(repository):
            raise Gone(f"{ref.source_id} is no longer followed.")
        match ref.stream.kind:
            case "issue":
                return await self._issue_by(repository, ref)
            case "discussion":
                return await Discussions(self._api, repository).fetch(ref)
            case "wiki":
                return await Wiki(self._api, self._web, repository).fetch(ref)
            case _:
                return await self._file_by(repository, ref)

    async def access(self, audiences: Sequence[str]) -> AsyncIterator[Access]:
        """Who sees each repository now."""
        for repository in await self._followed():
            if repository.scope in audiences:
                yield Access([await self._audience(repository)])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """GitHub's documents have none."""
        raise Gone(f"{attachment.name} is not there.")
        yield b""

    # ── scopes and eyes ──────────────────────────────────────────────────────────────────────────────────

    async def _followed(self) -> list[Repository]:
        if self._repositories is None:
            found: dict[int, Repository] = {}
            for name in self._config.organizations:
                async for repository in self._api.organisation(name):
                    found[repository.id] = repository
            for name in self._config.repositories:
                try:
                    repository = await self._api.repository(name)
                except Gone:
                    continue  # what it had is asked for once more, and pruned
                found[repository.id] = repository
            if self._app and not self._config.organizations and not self._config.repositories:
                async for repository in self._api.installed():
                    found[repository.id] = repository
            self._repositories = sorted(found.values(), key=lambda one: one.id)
        return self._repositories

    async def _repository(self, ref: Ref) -> Repository:
        for repository in await self._followed():
            if repository.scope == ref.stream.scope:
                return repository
        # A list by pages may have stepped over it.
        found = await self._api.repository(ref.locator["repository"])
        owners = {name.lower() for name in self._config.organizations}
        names = {name.lower() for name in self._config.repositories}
        followed = found.owner.login.lower() in owners or found.full_name.lower() in names
        if found.scope != ref.stream.scope or not followed:
            raise Gone(f"{ref.stream.scope} is no longer followed.")
        return found

    def _streams(self, repository: Repository) -> list[Stream]:
        config = self._config
        found: list[Stream] = []
        if config.issues or config.pull_requests:
            found.append(Stream(repository.scope, ISSUE))
        if config.discussions and repository.has_discussions:
            found.append(Stream(repository.scope, DISCUSSION))
        if config.wiki and repository.has_wiki:
            found.append(Stream(repository.scope, WIKI))
        if config.files:
            found.append(Stream(repository.scope, FILE))
        return found

    async def _audience(self, repository: Repository) -> Audience:
        open_ = repository.visibility == "public" or not repository.private
        if repository.visibility == "internal":
            open_ = self._config.internal_is_public
        if open_:
            return Audience(repository.scope, everybody=True)
        try:
            people = await self._api.collaborators(repository.full_name)
        except (Gone, Unreadable):
            return Audience(repository.scope, complete=False)
        emails = {person.login: await self._email(person.login) for person in people}
        return Audience(
            repository.scope,
            emails=frozenset(email for email in emails.values() if email),
            users={str(person.id): person.login for person in people if not emails[person.login]},
        )

    async def _email(self, login: str) -> str | None:
        if login not in self._emails:
            try:
                self._emails[login] = (await self._api.user(login)).email
            except (Gone, Unreadable):
                self._emails[login] = None
        return self._emails[login]

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    def _read(
        self, repository: Repository, stream: Stream, marks: Marks, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        mark = marks.get(stream)
        if stream.kind == ISSUE:
            listing = _Issues(self._api, self._config, repository)
            return anchored.read(stream, MARKS, mark, listing, audiences)
        if stream.kind == DISCUSSION:
            return Discussions(self._api, repository).read(stream, MARKS, mark, audiences)
        if stream.kind == WIKI:
            return Wiki(self._api, self._web, repository).read(stream, MARKS, mark, audiences)
        return self._files(repository, stream, marks, audiences)

    async def _files(
        self, repository: Repository, stream: Stream, marks: Marks, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        try:
            head = await self._api.branch_tree(repository.full_name, repository.default_branch)
        except Unreadable as error:
            if error.code != "connector_refused":  # 409: a repository without commits
                raise
            yield Batch(stream, audiences=audiences, listing="at_once")
            return
        except Gone:
            yield Batch(stream, audiences=audiences, listing="at_once")
            return
        steps = trees.read(
            stream,
            MARKS,
            marks.get(stream),
            head=head,
            tree_at=partial(self._tree, repository),
            ref=partial(_file_ref, repository),
            detail=partial(self._file, repository),
            audiences=audiences,
        )
        async for batch in steps:
            yield batch

    async def _tree(self, repository: Repository, sha: str) -> trees.Tree | None:
        try:
            entries = await self._api.tree(repository.full_name, sha)
        except Gone:
            return None
        return {
            entry.path: entry.sha
            for entry in entries
            if trees.matches(entry.path, self._config.files) and entry.size <= trees.LARGEST
        }

    async def _file(self, repository: Repository, path: str, sha: str) -> Document:
        text = await self._api.blob(repository.full_name, sha, trees.LARGEST)
        return Document(
            _file_ref(repository, path, sha),
            title=path,
            body=text,
            audience=repository.scope,
            url=f"{repository.html_url}/blob/{repository.default_branch}/{path}",
            metadata={"tool": "github", "type": FILE, "repository": repository.full_name, "path": path},
        )

    async def _file_by(self, repository: Repository, ref: Ref) -> Document:
        head = await self._api.branch_tree(repository.full_name, repository.default_branch)
        tree = await self._tree(repository, head) or {}
        path = str(ref.locator["path"])
        if path not in tree:
            raise Gone(f"{path} is not there.")
        return await self._file(repository, path, tree[path])

    async def _issue_by(self, repository: Repository, ref: Ref) -> Document:
        issue = await self._api.issue(repository.full_name, int(ref.locator["number"]))
        listing = _Issues(self._api, self._config, repository)
        # One that was transferred is answered with what it became elsewhere.
        if _issue_ref(repository, issue).source_id != ref.source_id or not listing.is_wanted(issue):
            raise Gone(f"{ref.source_id} is no longer there.")
        return await listing.document(issue)


@dataclass(frozen=True)
class _Issues:
    """Issues and pull requests of a repository: GitHub lists them together."""

    api: GitHubApi
    config: GitHubConfig
    repository: Repository

    def is_wanted(self, issue: Issue) -> bool:
        """Whether it is of a kind that is followed."""
        return self.config.issues if issue.pull_request is None else self.config.pull_requests

    async def page(self, since: datetime | None, page: int) -> Listed:
        """What changed since an instant."""
        issues, more, now = await self.api.issues(self.repository.full_name, since, page)
        return Listed([self._entry(issue) for issue in issues], more, now)

    def _entry(self, issue: Issue) -> Entry:
        ref = _issue_ref(self.repository, issue)
        return Entry(
            ref.source_id, issue.updated_at, ref, (ref.source_id,), issue, wanted=self.is_wanted(issue)
        )

    async def detail(self, entry: Entry) -> list[Document]:
        """An issue with all that was written below it."""
        return [await self.document(entry.data)]

    async def document(self, issue: Issue) -> Document:
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
            body=_body(issue, comments),
            audience=self.repository.scope,
            url=issue.html_url,
            updated_at=issue.updated_at,
            metadata=metadata,
        )


def _body(issue: Issue, comments: Sequence[Comment]) -> str:
    parts = [f"# {issue.title}", issue.body or ""]
    ordered = sorted(comments, key=lambda one: (_written(one), one.id))
    for comment in ordered:
        if not (comment.body or "").strip():
            continue
        who = comment.user.login if comment.user else "somebody"
        at = f" at `{comment.path}`" if comment.path else ""
        parts.append(f"## {who}, {_written(comment)[:10]}{at}\n\n{comment.body}")
    return "\n\n".join(part for part in parts if part).replace("\r\n", "\n")


def _written(comment: Comment) -> str:
    stamp = comment.created_at or comment.submitted_at
    return "" if stamp is None else stamp.isoformat()


def _issue_ref(repository: Repository, issue: Issue) -> Ref:
    stream = Stream(repository.scope, ISSUE)
    return Ref(f"issue:{issue.id}", stream, {"repository": repository.full_name, "number": issue.number})


def _file_ref(repository: Repository, path: str, sha: str) -> Ref:
    del sha  # a file is the same, whatever is in it
    stream = Stream(repository.scope, FILE)
    return Ref(f"file:{repository.id}:{path}", stream, {"repository": repository.full_name, "path": path})


def _open(config: GitHubConfig, credentials: GitHubCredentials, surroundings: Surroundings) -> OpenConnector:
    app = None
    told = headers()
    if credentials.token is not None:
        told["Authorization"] = f"Bearer {credentials.token.get_secret_value()}"
    elif credentials.app_id and credentials.installation_id and credentials.private_key:
        app = App(credentials.app_id, credentials.installation_id, credentials.private_key.get_secret_value())
    http = Transport(
        config.base_url, headers=told, private=surroundings.private, patience=surroundings.patience
    )
    # On GitHub Enterprise REST is below /api/v3, and GraphQL beside it.
    graphql = config.base_url.removesuffix("/v3") + "/graphql"
    web = Transport(
        web_of(config.base_url), headers={}, private=surroundings.private, patience=surroundings.patience
    )
    return GitHub(config, GitHubApi(http, graphql, app), web, app=app is not None)


KIND = Kind("github", GitHubConfig, GitHubCredentials, _open, mark_version=MARKS)
