"""Files of a repository that are documents: compared tree by tree, so that only what changed is fetched.

    position    {"tree"}                    the tree that is wholly read
                {"tree", "to", "after"}     on the way from it to another, past a path

A tree never changes, so the two are compared by their files' hashes, in the order of paths; after a kill the rest is fetched.
When the branch has moved on since, or the old tree is gone, the way begins anew. One listing names every file.
"""

import fnmatch
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import PurePosixPath

from gristmill.connectors.listing.details import fetch_all
from gristmill.connectors.port import (
    Audience,
    Batch,
    Checkpoint,
    Document,
    DocumentRef,
    Json,
    Stream,
)

# What people write for people.
DOCUMENT_GLOBS = ("*.md", "*.markdown", "*.mdx", "*.rst", "*.adoc", "*.asciidoc")
MAX_FILE_BYTES = 4 << 20  # bytes of one file
_BATCH_SIZE = 50

GitTree = Mapping[str, str]  # path → hash of the contents


def is_match(path: str, globs: Sequence[str]) -> bool:
    """Whether one of the globs takes a path: by its name, or by the whole of it where the glob has a slash."""
    name = PurePosixPath(path).name
    return any(fnmatch.fnmatchcase(path if "/" in glob else name, glob) for glob in globs)


async def read(
    stream: Stream,
    version: int,
    checkpoint: Checkpoint | None,
    *,
    head: str,
    fetch_tree: Callable[[str], Awaitable[GitTree | None]],
    ref_of: Callable[[str, str], DocumentRef],
    fetch_document: Callable[[str, str], Awaitable[Document]],
    audiences: Sequence[Audience],
) -> AsyncIterator[Batch]:
    """The batches of a repository's files at `head`, from where the mark says."""
    position: Json = {} if checkpoint is None else checkpoint.position
    new_tree = await fetch_tree(head) or {}
    base_sha = position.get("tree")
    old_tree: GitTree = (
        {} if base_sha is None else new_tree if base_sha == head else await fetch_tree(base_sha) or {}
    )
    changed = sorted((path, digest) for path, digest in new_tree.items() if old_tree.get(path) != digest)
    if position.get("to") == head:
        changed = [entry for entry in changed if entry[0] > position["after"]]

    async def fetch_documents(entry: tuple[str, str]) -> list[Document]:
        return [await fetch_document(*entry)]

    first = True
    for start in range(0, len(changed), _BATCH_SIZE):
        part = changed[start : start + _BATCH_SIZE]
        result = await fetch_all(part, lambda entry: ref_of(*entry), fetch_documents)
        if result.handled:
            after = part[result.handled - 1][0]
            yield Batch(
                stream,
                checkpoint=Checkpoint(version, {"tree": base_sha, "to": head, "after": after}),
                documents=result.documents,
                failures=result.failures,
                audiences=audiences if first else (),
            )
            first = False
        if result.stopped_by is not None:
            raise result.stopped_by
    yield Batch(
        stream,
        checkpoint=Checkpoint(version, {"tree": head}),
        audiences=audiences if first else (),
        present_ids=[ref_of(path, digest).source_id for path, digest in new_tree.items()],
        listing="single",
    )
