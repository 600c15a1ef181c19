"""Documents among the files of a repository's main branch, for `listing.by_git_tree`."""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.connectors.github.api import GitHubApi, Repository
from gristmill.connectors.listing.by_git_tree import MAX_FILE_BYTES, GitTree, is_match
from gristmill.connectors.port import Document, DocumentRef, Stream
from gristmill.connectors.transport import RequestRefused
from gristmill.errors import SourceGone

FILE = "file"


@dataclass(frozen=True)
class RepositoryFiles:
    """The files of a repository that match the globs."""

    api: GitHubApi
    repository: Repository
    globs: Sequence[str]

    async def fetch_head(self) -> str:
        """The newest tree of the main branch."""
        try:
            return await self.api.branch_tree(self.repository.full_name, self.repository.default_branch)
        except RequestRefused as error:
            if error.status != 409:  # a repository without commits
                raise
            raise SourceGone(f"{self.repository.full_name} is empty.") from None

    async def fetch_tree(self, tree_id: str) -> GitTree:
        """The files of a tree that match and are not too large."""
        return {
            entry.path: entry.sha
            for entry in await self.api.tree(self.repository.full_name, tree_id)
            if is_match(entry.path, self.globs) and entry.size <= MAX_FILE_BYTES
        }

    async def fetch_file(self, path: str, digest: str) -> Document:
        """The document of a file."""
        repository = self.repository
        return Document(
            self.ref(path),
            title=path,
            body=await self.api.blob(repository.full_name, digest, MAX_FILE_BYTES),
            audience=repository.scope,
            url=f"{repository.html_url}/blob/{repository.default_branch}/{path}",
            metadata={"tool": "github", "type": FILE, "repository": repository.full_name, "path": path},
        )

    def ref(self, path: str) -> DocumentRef:
        """What names a file's document."""
        locator = {"repository": self.repository.full_name, "path": path}
        return DocumentRef(f"file:{self.repository.id}:{path}", Stream(self.repository.scope, FILE), locator)
