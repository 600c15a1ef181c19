"""Documents among the files of a project's default branch, for `listing.by_git_tree`."""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.connectors.gitlab.api import GitLabApi, Project
from gristmill.connectors.listing.by_git_tree import MAX_FILE_BYTES, GitTree, is_match
from gristmill.connectors.port import Document, DocumentRef, Stream

FILE = "file"


@dataclass(frozen=True)
class ProjectFiles:
    """The files of a project that match the globs."""

    api: GitLabApi
    project: Project
    globs: Sequence[str]

    async def fetch_head(self) -> str:
        """The newest commit of the default branch."""
        return await self.api.head(self.project.id, self.project.default_branch or "")

    async def fetch_tree(self, tree_id: str) -> GitTree:
        """The files of a commit that match."""
        files = await self.api.files(self.project.id, tree_id)
        return {file.path: file.id for file in files if is_match(file.path, self.globs)}

    async def fetch_file(self, path: str, digest: str) -> Document:
        """The document of a file."""
        project = self.project
        return Document(
            self.ref(path),
            title=path,
            body=await self.api.blob(project.id, digest, MAX_FILE_BYTES),
            audience=f"{project.scope}:repository",
            url=f"{project.web_url}/-/blob/{project.default_branch}/{path}",
            metadata={"tool": "gitlab", "type": FILE, "project": project.path_with_namespace, "path": path},
        )

    def ref(self, path: str) -> DocumentRef:
        """What names a file's document."""
        return DocumentRef(f"file:{self.project.id}:{path}", Stream(self.project.scope, FILE), {"path": path})
