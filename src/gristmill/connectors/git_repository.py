"""Files of any git repository that is served over HTTPS: Gitea, Forgejo, Bitbucket, cgit, git's own http-backend.

    position    {"commit", "files": {path: [hash, size]}}    which files the commit has that was listed last

Each run asks what the branch points to. When that has changed, the newest state is fetched as a pack, without history, and
kept in memory until the run is over. The mark of a file is git's hash of its contents, so a renamed file keeps its record.
The pack may have 64 MiB, and 128 MiB once unpacked; a server that supports filters leaves out files over the limit. Files
that Git LFS holds elsewhere are left out.
"""

from collections.abc import AsyncIterator, Collection
from urllib.parse import quote, urlsplit

from pydantic import Field, SecretStr

from gristmill.connectors import git_protocol as git
from gristmill.connectors.files import CHECKPOINT_VERSION, FileConnector, FileFilter, FilePage, RemoteFile
from gristmill.connectors.listing import by_mark
from gristmill.connectors.port import (
    Account,
    BaseUrl,
    Batch,
    Checkpoint,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Stream,
)
from gristmill.connectors.streams import errors_as_problems
from gristmill.connectors.transport import Transport
from gristmill.connectors.webdav import basic_authorization
from gristmill.errors import SourceGone

_MAX_FILE_BYTES = 16 << 20
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"


class GitConfig(FileFilter):
    """What to follow in a git repository."""

    url: BaseUrl = Field(description="The address that `git clone` takes, with https.")
    branch: str | None = Field(
        default=None, max_length=250, description="The branch; the repository's main branch if empty."
    )
    folder: str = Field(default="", max_length=1000, description="Only files below this folder.")
    file_url: str | None = Field(
        default=None,
        max_length=2000,
        pattern=r"^https?://.*\{path\}",
        description="Where a file is on the web, with `{path}`: `https://HOST/OWNER/NAME/src/branch/main/{path}`.",
    )


class GitCredentials(ConnectorForm):
    """A user and a password or token; nothing for a public repository."""

    username: str = Field(default="git", description="The user; many servers take any name with a token.")
    password: SecretStr | None = Field(default=None, description="A token that may read, or a password.")


class GitConnector(FileConnector):
    """One branch of a git repository."""

    def __init__(self, config: GitConfig, http: Transport, limits: ConnectorLimits) -> None:
        max_bytes = min(_MAX_FILE_BYTES, limits.attachment_limit)
        super().__init__("git", f"repository:{config.url}", config, max_bytes, http)
        self._config, self._http = config, http
        self._folder = f"{config.folder.strip('/')}/" if config.folder.strip("/") else ""
        self._files: dict[str, git.GitFile] | None = None
        self._head: git.GitHead | None = None

    async def check(self) -> Account:
        """Whether the branch can be read."""
        head = await self._fetch_head()
        return Account(urlsplit(self._config.url).path.strip("/"), f"commit {head.commit[:10]}")

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of the branch's files; without a pack if the branch has not moved."""
        if self._stream in finished:
            return
        checkpoint = checkpoints.get(self._stream)
        async for batch in errors_as_problems(self._stream, self._read(checkpoint)):
            yield batch

    async def _read(self, checkpoint: Checkpoint | None) -> AsyncIterator[Batch]:
        head = await self._fetch_head()
        position = {} if checkpoint is None else checkpoint.position
        if position.get("commit") == head.commit:
            files = [self._file(path, digest, size) for path, (digest, size) in position["files"].items()]
        else:
            files = list((await self.list_files(None)).files)
        page = self._page_with_marks(FilePage(files))
        sizes = {file.path: [file.mark, file.size] for file in files if self._rules.is_followed(file.path)}
        yield Batch(
            self._stream,
            checkpoint=Checkpoint(CHECKPOINT_VERSION, {"commit": head.commit, "files": sizes}),
            audiences=[by_mark.everybody()],
            present=page.entries,
            listing="single",
            note=page.note,
        )

    async def list_files(self, cursor: str | None) -> FilePage:
        """All files of the branch."""
        del cursor
        files = await self._fetch_files()
        return FilePage([self._file(path, file.digest, len(file.data)) for path, file in files.items()])

    async def find_file(self, path: str) -> RemoteFile:
        """One file of the branch as it is now."""
        file = await self._git_file(path)
        return self._file(path, file.digest, len(file.data))

    async def read_file(self, path: str) -> AsyncIterator[bytes]:
        """The contents of a file."""
        yield (await self._git_file(path)).data

    async def _git_file(self, path: str) -> git.GitFile:
        file = (await self._fetch_files()).get(path)
        if file is None:
            raise SourceGone(f"{path} is no longer there.")
        return file

    async def _fetch_head(self) -> git.GitHead:
        if self._head is None:
            self._head = await git.fetch_head(self._http, "", self._config.branch)
        return self._head

    async def _fetch_files(self) -> dict[str, git.GitFile]:
        """The files of the commit that the branch pointed to when this connector was opened."""
        if self._files is None:
            files = await git.fetch_files(self._http, await self._fetch_head(), self._max_bytes)
            self._files = {
                path: file
                for path, file in files.items()
                if path.startswith(self._folder) and not file.data.startswith(_LFS_POINTER)
            }
        return self._files

    def _file(self, path: str, digest: str, size: int) -> RemoteFile:
        template = self._config.file_url
        return RemoteFile(path, digest, size, url=template and template.replace("{path}", quote(path)))


def _open(config: GitConfig, credentials: GitCredentials, limits: ConnectorLimits) -> Connector:
    headers: dict[str, str] = {}
    if credentials.password is not None:
        headers["Authorization"] = basic_authorization(
            credentials.username, credentials.password.get_secret_value()
        )
    return GitConnector(config, limits.transport(config.url, headers), limits)


KIND = ConnectorKind(
    "git", GitConfig, GitCredentials, _open, CHECKPOINT_VERSION, "Git repository", has_permissions=False
)
