"""Files of a repository that are documents: compared tree by tree, so that only what changed is fetched.

    position    {"tree"}                    the tree that is wholly read
                {"tree", "to", "after"}     on the way from it to another, past a path

A tree never changes, so the two are compared by their files' hashes, in the order of paths; after a kill the rest is fetched.
When the branch has moved on since, or the old tree is gone, the way begins anew. One listing names every file.
"""

import fnmatch
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import PurePosixPath

from gristmill.connectors.connector import Audience, Batch, Document, Json, Mark, Ref, Stream
from gristmill.connectors.details import in_order

# What people write for people.
DOCS = ("*.md", "*.markdown", "*.mdx", "*.rst", "*.adoc", "*.asciidoc")
LARGEST = 4 << 20  # bytes of one file
_AT_ONCE = 50

Tree = Mapping[str, str]  # path → hash of the contents


def matches(path: str, globs: Sequence[str]) -> bool:
    """Whether one of the globs takes a path: by its name, or by the whole of it where the glob has a slash."""
    name = PurePosixPath(path).name
    return any(fnmatch.fnmatchcase(path if "/" in glob else name, glob) for glob in globs)


async def read(
    stream: Stream,
    version: int,
    mark: Mark | None,
    *,
    head: str,
    tree_at: Callable[[str], Awaitable[Tree | None]],
    ref: Callable[[str, str], Ref],
    detail: Callable[[str, str], Awaitable[Document]],
    audiences: Sequence[Audience],
) -> AsyncIterator[Batch]:
    """The batches of a repository's files at `head`, from where the mark says."""
    position: Json = {} if mark is None else mark.position
    new = await tree_at(head) or {}
    base = position.get("tree")
    old: Tree = {} if base is None else new if base == head else await tree_at(base) or {}
    changed = sorted((path, digest) for path, digest in new.items() if old.get(path) != digest)
    if position.get("to") == head:
        changed = [entry for entry in changed if entry[0] > position["after"]]

    async def documents(entry: tuple[str, str]) -> list[Document]:
        return [await detail(*entry)]

    first = True
    for start in range(0, len(changed), _AT_ONCE):
        part = changed[start : start + _AT_ONCE]
        found = await in_order(part, lambda entry: ref(*entry), documents)
        if found.reached:
            after = part[found.reached - 1][0]
            yield Batch(
                stream,
                mark=Mark(version, {"tree": base, "to": head, "after": after}),
                documents=found.documents,
                failures=found.failures,
                audiences=audiences if first else (),
            )
            first = False
        if found.stopped is not None:
            raise found.stopped
    yield Batch(
        stream,
        mark=Mark(version, {"tree": head}),
        audiences=audiences if first else (),
        present=[ref(path, digest).source_id for path, digest in new.items()],
        listing="at_once",
    )
