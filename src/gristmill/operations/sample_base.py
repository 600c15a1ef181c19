"""sample_base: a base with a few documents of this package, in English and Chinese, to try out search.

    base        the one of this name that has the mark, if the caller sees it; else a new one, under the first free name
    documents   added like uploads; one that is there already is skipped

The mark is an entry of the base's metadata. Killed between both steps: the next request adds the documents. Of two requests at the
same moment one creates the base, and each document is added once. After that it is a base like any other.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from gristmill import catalog
from gristmill.catalog import Base, IndexKind, NewItem, Viewer
from gristmill.db import Database, without_commit_hook
from gristmill.embedding import Embedder
from gristmill.errors import Conflict
from gristmill.identity import OrgId
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases
from gristmill.operations.uploads import retry_lost_upload, store_upload
from gristmill.sources.blobs import BlobStore

LANGUAGES = ("en", "zh")
_NAME = "Sample"
_MARK = {"sample": True}
_MAX_NAMES = 20
# The files of the folder `sample_documents`, and the names that they are added under.
_DOCUMENTS = {
    "millstones.md": "Dressing the millstones.md",
    "wheel.md": "Repairing the water wheel.md",
    "safety.md": "Safety rules.md",
    "flour.csv": "Flour types.csv",
    "visiting.html": "Visiting the mill.html",
    "millstones-zh.md": "石磨的保养.md",
    "flour-zh.md": "面粉的种类.md",
    "visiting-zh.md": "参观须知.md",
}
_DESCRIPTION = (
    "Notes of a small water mill, in English and Chinese. Ask: why do millstones get hot? 石磨多久修一次？"
)


@dataclass(frozen=True)
class SampleBase:
    """The base, and blobs of documents that it had already."""

    base: Base
    unused_blobs: list[bytes]


async def ensure_sample_base(
    db: Database,
    blobs: BlobStore,
    embedder: Embedder,
    limits: QueueLimits,
    *,
    viewer: Viewer,
    acl: Sequence[str],
    owner: str | None,
    org: OrgId,
    index_kind: IndexKind,
) -> SampleBase:
    """Create the sample base, or complete the one that the viewer sees already."""

    async def create(name: str) -> Base:
        return await bases.create(
            db,
            name,
            embedder,
            {},
            acl=acl,
            owner=owner,
            org=org,
            index_kind=index_kind,
            description=_DESCRIPTION,
            metadata=_MARK,
        )

    with without_commit_hook():  # the request is done when the documents are added
        base = await _find_or_create(db, viewer, create)
    entries, added = await _add_documents(db, blobs, limits, base, org)
    unused_blobs = [entry.item.blob for entry in entries if entry.item.blob is not None]
    return SampleBase(base, [*added.released, *unused_blobs])


async def _add_documents(
    db: Database, blobs: BlobStore, limits: QueueLimits, base: Base, org: OrgId
) -> tuple[list[add.ItemToAdd], add.AddResult]:
    """Store and add the documents. Where the bytes of a deleted one were being removed at the same moment, store them again."""

    async def store_and_add() -> tuple[list[add.ItemToAdd], add.AddResult]:
        entries = [await _store_document(db, blobs, org, name, content) for name, content in _documents()]
        return entries, await add.add(db, base.id, entries, limits, on_conflict="skip")

    return await retry_lost_upload(store_and_add)


async def _find_or_create(db: Database, viewer: Viewer, create: Callable[[str], Awaitable[Base]]) -> Base:
    """The base with the mark. A base of the same name that has no mark, or that the viewer can't see, stays as it is."""
    for number in range(1, _MAX_NAMES + 1):
        name = _NAME if number == 1 else f"{_NAME} {number}"
        if (base := await _find(db, viewer, name)) is not None:
            return base
        try:
            return await create(name)
        except Conflict as error:
            if error.code != "base_name_taken":
                raise
        if (
            base := await _find(db, viewer, name)
        ) is not None:  # another request created it at the same moment
            return base
    raise Conflict(
        f"Bases named {_NAME} to {_NAME} {_MAX_NAMES} exist already. Delete or rename one of them.",
        code="base_name_taken",
    )


async def _find(db: Database, viewer: Viewer, name: str) -> Base | None:
    async with db.connection() as tx:
        base = await catalog.find_base_by_name(tx, name, viewer)
    return base if base is not None and base.metadata.items() >= _MARK.items() else None


def _documents() -> list[tuple[str, bytes]]:
    folder = resources.files("gristmill.operations") / "sample_documents"
    return [(name, (folder / file).read_bytes()) for file, name in _DOCUMENTS.items()]


async def _store_document(
    db: Database, blobs: BlobStore, org: OrgId, name: str, content: bytes
) -> add.ItemToAdd:
    async def read() -> AsyncGenerator[bytes]:
        yield content

    blob = await store_upload(db, blobs, read, org=org)
    item = NewItem("file", name, f"upload:{name}", source={"name": name})
    return add.ItemToAdd(replace(item, blob=blob.hash, size_bytes=blob.size), None)
