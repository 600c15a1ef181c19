"""A repository's wiki: a git repository of its own, which GitHub offers no other way to read.

    position    {"commit", "pages": {path: hash}}    which pages of which commit were read

Each run asks for the commit of HEAD. When it has changed, the whole wiki is fetched, and pages that differ become documents;
after a kill it is fetched again. Sidebars and footers are not pages. A wiki that was never started is empty. Credentials go
only to the web address that belongs to the API's address.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote, urlsplit

from gristmill.connectors import git_protocol as git
from gristmill.connectors.git_protocol import GitFile
from gristmill.connectors.github.api import GitHubApi, Repository
from gristmill.connectors.listing import by_git_tree
from gristmill.connectors.port import (
    Audience,
    Batch,
    Checkpoint,
    Document,
    DocumentRef,
    ListedDocument,
    Stream,
)
from gristmill.connectors.transport import CredentialsRejected, Transport
from gristmill.errors import SourceGone, Unreadable

WIKI = "wiki"
_PAGE_GLOBS = (*by_git_tree.DOCUMENT_GLOBS, "*.mediawiki", "*.textile", "*.org", "*.txt")
_BATCH_SIZE = 50


def web_url(base_url: str) -> str:
    """The web address of an API address: `https://api.HOST` or `https://HOST/api/v3`."""
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc.removeprefix('api.')}"


class GitHubWiki:
    """The wiki of one repository."""

    def __init__(self, api: GitHubApi, http: Transport, repository: Repository) -> None:
        self._api, self._http, self._repository = api, http, repository
        self._path = f"/{repository.full_name}.wiki.git"

    async def read(
        self, stream: Stream, version: int, checkpoint: Checkpoint | None, audiences: Sequence[Audience]
    ) -> AsyncIterator[Batch]:
        """The batches of the wiki, from its checkpoint."""
        position = {} if checkpoint is None else checkpoint.position
        known_hashes: dict[str, str] = position.get("pages", {})
        try:
            head = await self._fetch_head()
        except SourceGone:
            yield Batch(stream, checkpoint=Checkpoint(version, {}), audiences=audiences, listing="single")
            return
        if position.get("commit") != head.commit:
            pages = await self._fetch_pages(head)
            changed = sorted(path for path, page in pages.items() if known_hashes.get(path) != page.digest)
            for start in range(0, len(changed), _BATCH_SIZE):
                part = changed[start : start + _BATCH_SIZE]
                documents = [self._document(path, pages[path]) for path in part]
                yield Batch(stream, documents=documents, audiences=audiences)
                audiences = ()
            known_hashes = {path: page.digest for path, page in pages.items()}
        yield Batch(
            stream,
            checkpoint=Checkpoint(version, {"commit": head.commit, "pages": known_hashes}),
            audiences=audiences,
            present=[ListedDocument(self._ref(path)) for path in known_hashes],
            listing="single",
        )

    async def fetch(self, ref: DocumentRef) -> Document:
        """One page as it is now."""
        path = str(ref.locator["path"])
        pages = await self._fetch_pages(await self._fetch_head())
        if path not in pages:
            raise SourceGone(f"{path} is no longer there.")
        return self._document(path, pages[path])

    async def _fetch_head(self) -> git.GitHead:
        self._http.set_header("Authorization", git.basic_authorization(await self._api.token()))
        try:
            return await git.fetch_head(self._http, self._path)
        except CredentialsRejected:  # the API accepted the same token: only this wiki is closed
            raise Unreadable(
                f"These credentials can't read the wiki of {self._repository.full_name}.",
                code="connector_forbidden",
            ) from None

    async def _fetch_pages(self, head: git.GitHead) -> dict[str, GitFile]:
        files = await git.fetch_files(self._http, head, by_git_tree.MAX_FILE_BYTES)
        return {
            path: file
            for path, file in files.items()
            if by_git_tree.is_match(path, _PAGE_GLOBS) and not PurePosixPath(path).name.startswith("_")
        }

    def _ref(self, path: str) -> DocumentRef:
        stream = Stream(self._repository.scope, WIKI)
        locator = {"repository": self._repository.full_name, "path": path}
        return DocumentRef(f"wiki:{self._repository.id}:{path}", stream, locator)

    def _document(self, path: str, page: GitFile) -> Document:
        name = PurePosixPath(path).stem
        return Document(
            self._ref(path),
            title=name.replace("-", " "),
            body=page.data.decode("utf-8", "replace"),
            audience=self._repository.scope,
            url=f"{self._repository.html_url}/wiki/{quote(name)}",
            metadata={
                "tool": "github",
                "type": WIKI,
                "repository": self._repository.full_name,
                "path": path,
            },
        )
