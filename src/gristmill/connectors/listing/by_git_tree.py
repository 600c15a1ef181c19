"""Reads the documents among a repository's files by comparing git trees, so that only changed files are fetched.

    position    {"tree"}                    the tree that was read completely
                {"tree", "to", "after"}     on the way from that tree to another, past a path

A tree never changes, so two trees are compared by the hashes of their files, in the order of paths; after a kill the rest is
fetched. When the branch has moved on since, or the old tree is gone, the comparison starts over. One listing names every file. A
file that the tool does not return, though the tree names it, is a failure, and the next run requests it.
"""

import fnmatch
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Protocol

from gristmill.connectors.listing.details import fetch_all
from gristmill.connectors.port import (
    Audience,
    Batch,
    Checkpoint,
    Document,
    DocumentRef,
    Json,
    ListedDocument,
    Stream,
)
from gristmill.errors import SourceGone, Unreadable

# Formats that people write documents in.
DOCUMENT_GLOBS = ("*.md", "*.markdown", "*.mdx", "*.rst", "*.adoc", "*.asciidoc")
MAX_FILE_BYTES = 4 << 20
_BATCH_SIZE = 50

GitTree = Mapping[str, str]  # path → hash of the contents


class GitFiles(Protocol):
    """What a connector implements for the files of a repository."""

    async def fetch_head(self) -> str:
        """The id of the newest tree; SourceGone when the repository is empty."""
        ...

    async def fetch_tree(self, tree_id: str) -> GitTree:
        """The files of a tree that are followed; SourceGone when the tree no longer exists."""
        ...

    async def fetch_file(self, path: str, digest: str) -> Document:
        """The document of a file."""
        ...

    def ref(self, path: str) -> DocumentRef:
        """What names a file's document: its path, whatever it contains."""
        ...


def is_match(path: str, globs: Sequence[str]) -> bool:
    """Whether a path matches one of the globs: by its name, or as a whole where the glob has a slash."""
    full_path, name = f"/{path}", PurePosixPath(path).name
    return any(
        any(fnmatch.fnmatchcase(full_path, each) for each in _alternatives(f"/{glob}"))
        if "/" in glob
        else fnmatch.fnmatchcase(name, glob)
        for glob in globs
    )


@cache
def _alternatives(glob: str) -> tuple[str, ...]:
    """What a glob of paths means: `**/` is any number of folders, also none. A `*` matches slashes, too."""
    head, separator, rest = glob.partition("/**/")
    if not separator:
        return (glob,)
    return tuple(f"{head}{between}{each}" for each in _alternatives(f"/{rest}") for between in ("", "/*"))


async def read(
    stream: Stream,
    version: int,
    checkpoint: Checkpoint | None,
    files: GitFiles,
    audiences: Sequence[Audience],
) -> AsyncIterator[Batch]:
    """The batches of a repository's files, from the checkpoint to the newest tree."""
    try:
        head = await files.fetch_head()
    except SourceGone:
        yield Batch(stream, audiences=audiences, listing="single")
        return
    position: Json = {} if checkpoint is None else checkpoint.position
    new_tree = await files.fetch_tree(head)  # if it is gone by now, nothing of it counts as read
    base_id = position.get("tree")
    old_tree: GitTree = (
        {} if base_id is None else new_tree if base_id == head else await _tree_or_empty(files, base_id)
    )
    changed = sorted((path, digest) for path, digest in new_tree.items() if old_tree.get(path) != digest)
    if position.get("to") == head:
        changed = [entry for entry in changed if entry[0] > position["after"]]

    async def fetch_documents(entry: tuple[str, str]) -> list[Document]:
        try:
            return [await files.fetch_file(*entry)]
        except SourceGone as error:
            # The tree names it: it is not gone, and no later comparison of trees would find it.
            raise Unreadable(error.message, code="connector_refused") from error

    for start in range(0, len(changed), _BATCH_SIZE):
        part = changed[start : start + _BATCH_SIZE]
        result = await fetch_all(part, lambda entry: files.ref(entry[0]), fetch_documents)
        if result.handled:
            after = part[result.handled - 1][0]
            yield Batch(
                stream,
                checkpoint=Checkpoint(version, {"tree": base_id, "to": head, "after": after}),
                documents=result.documents,
                failures=result.failures,
                audiences=audiences,
            )
            audiences = ()
        if result.stopped_by is not None:
            raise result.stopped_by
    yield Batch(
        stream,
        checkpoint=Checkpoint(version, {"tree": head}),
        audiences=audiences,
        present=[ListedDocument(files.ref(path)) for path in new_tree],
        listing="single",
    )


async def fetch(files: GitFiles, ref: DocumentRef) -> Document:
    """The document of one file as it is now; SourceGone when the newest tree has no such file."""
    tree = await _tree_or_empty(files, await files.fetch_head())
    path = str(ref.locator["path"])
    if path not in tree:
        raise SourceGone(f"{path} is no longer there.")
    return await files.fetch_file(path, tree[path])


async def _tree_or_empty(files: GitFiles, tree_id: str) -> GitTree:
    try:
        return await files.fetch_tree(tree_id)
    except SourceGone:
        return {}
