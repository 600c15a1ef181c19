"""What becomes of many documents at once, in one transaction: read, kept, published. One statement a step.

The caller shares the turn of every base that is concerned, and has proved the lease of every job.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.catalog.assets import NewAsset, insert_version_assets
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.store import queries
from gristmill.catalog.sweep import collect_contents, remove_unused_blobs_nowait
from gristmill.catalog.transitions import derive_statuses_above
from gristmill.db import Tx


@dataclass(frozen=True)
class DocumentToRead(Item):
    """A document that is to be read: its source, and what there is of its versions already.

    `live` is what answers, `begun` what an earlier attempt at the wanted version has kept.
    """

    body: str | None = field(default=None)
    blob_name: str | None = None
    live_content: bytes | None = None
    live_recipe: str | None = None
    begun_content: bytes | None = None
    begun_recipe: str | None = None
    live_validators: dict[str, str] | None = None  # what tells whether a page changed since
    attachments_content: bytes | None = None  # whose embedded documents are its children
    holds: bool = False  # whether it has children at all

    @property
    def depth(self) -> int:
        """How many documents it is inside of."""
        return int(self.source.get("depth", 0))


async def begin_reading(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> list[DocumentToRead]:
    """Those of the documents whose version is still wanted: they are being read from now on."""
    return await queries.many(
        tx,
        DocumentToRead,
        "begin_reading",
        ids=[item_id for item_id, _ in versions],
        versions=[version for _, version in versions],
    )


async def lock_wanted_versions(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> set[ItemId]:
    """Those of the documents whose version is still wanted, and stays so until the transaction ends."""
    return set(
        await queries.values(
            tx,
            "still_wanted",
            ids=[item_id for item_id, _ in versions],
            versions=[version for _, version in versions],
        )
    )


@dataclass(frozen=True)
class NewContentPart:
    """A part of a content, by its place in characters."""

    content: bytes
    start: int
    text: str
    page: int | None


@dataclass(frozen=True)
class NewVersion:
    """A version of an item, and what it is made from and by."""

    item_id: ItemId
    version: int
    content: bytes
    recipe: str
    original: bytes | None = None  # a page's bytes, as they were fetched
    validators: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class _ContentRow:
    hash: bytes
    characters: int | None


async def ensure_contents(tx: Tx, digests: Sequence[bytes]) -> set[bytes]:
    """Keep contents from now on; those that are whole already."""
    if not digests:
        return set()
    rows = await queries.many(tx, _ContentRow, "keep_contents", hashes=sorted(set(digests)))
    return {row.hash for row in rows if row.characters is not None}


async def insert_content_parts(tx: Tx, parts: Sequence[NewContentPart]) -> None:
    """Keep parts of contents; parts that are there stay as they are."""
    if parts:
        await queries.run(
            tx,
            "keep_parts",
            hashes=[part.content for part in parts],
            starts=[part.start for part in parts],
            texts=[part.text for part in parts],
            pages=[part.page for part in parts],
        )


async def mark_contents_complete(tx: Tx, contents: dict[bytes, tuple[int, Sequence[str]]]) -> None:
    """All parts of these contents are kept: how many characters, and what has to be told about them."""
    if contents:
        rows = [
            {"hash": digest.hex(), "characters": characters, "warnings": list(warnings)}
            for digest, (characters, warnings) in contents.items()
        ]
        await queries.run(tx, "complete_contents", contents=json.dumps(rows))


async def complete_content_warnings(tx: Tx, digest: bytes) -> list[str] | None:
    """What has to be told about a content, if all of it is kept."""
    rows = await queries.values(tx, "whole_content", hash=digest)
    return rows[0] if rows else None


@dataclass(frozen=True)
class ResumePoint:
    """A page that may be read only in part, and where it begins; all before it is kept."""

    page: int
    start: int


async def resume_point(tx: Tx, digest: bytes) -> ResumePoint | None:
    """Where the reading of a paged content can go on; None when it begins at the beginning."""
    return await queries.maybe(tx, ResumePoint, "resume_point", hash=digest)


async def content_parts(tx: Tx, digest: bytes, after: int) -> list["ContentPart"]:
    """Some parts of a content, from a place on where one begins."""
    return await queries.many(tx, ContentPart, "parts_of", hash=digest, after=after)


async def save_versions(tx: Tx, versions: Sequence[NewVersion]) -> None:
    """Say what versions are being made from, and by what."""
    if versions:
        await queries.run(
            tx,
            "keep_versions",
            items=[version.item_id for version in versions],
            versions=[version.version for version in versions],
            hashes=[version.content for version in versions],
            recipes=[version.recipe for version in versions],
            originals=[version.original for version in versions],
            validators=[json.dumps(dict(version.validators)) for version in versions],
        )


@dataclass(frozen=True)
class FinishedVersion:
    """A version all of whose chunks are written."""

    item_id: ItemId
    version: int
    chunks: int
    warnings: Sequence[str]
    size_bytes: int | None
    timeline: dict[str, Any]
    assets: Sequence[NewAsset] = ()

    @property
    def waiting_assets(self) -> int:
        """How many of its images have still to be described."""
        return sum(asset.text is None for asset in self.assets)


@dataclass(frozen=True)
class _RemovedVersion:
    item_id: ItemId
    content_hash: bytes
    original: bytes | None


async def publish(tx: Tx, finished: Sequence[FinishedVersion]) -> set[ItemId]:
    """Make versions the ones that answer, and forget those before them; the items that had others."""
    documents = [
        {
            "id": str(version.item_id),
            "version": version.version,
            "chunks": version.chunks,
            "warnings": list(version.warnings),
            "size_bytes": version.size_bytes,
            "timeline": version.timeline,
            "analysed": not version.waiting_assets,
        }
        for version in finished
    ]
    published = await queries.values(tx, "publish_items", documents=json.dumps(documents))
    await insert_version_assets(
        tx, [(version.item_id, version.version, asset) for version in finished for asset in version.assets]
    )
    removed = await queries.many(tx, _RemovedVersion, "forget_versions", ids=published)
    await collect_contents(tx, sorted({row.content_hash for row in removed}))
    await remove_unused_blobs_nowait(tx, [row.original for row in removed if row.original is not None])
    await derive_statuses_above(tx, published)
    return {row.item_id for row in removed}


async def finish_unchanged(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> None:
    """What answers is what was wanted: its source has not changed, and it would be cut and embedded alike."""
    ids = [item_id for item_id, _ in versions]
    await queries.values(tx, "finish_unchanged", ids=ids, versions=[version for _, version in versions])
    await derive_statuses_above(tx, ids)


# ── reading it back ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ContentPart:
    """A part of a canonical content, by its place in characters."""

    start: int
    text: str
    page: int | None


async def live_parts(tx: Tx, item_id: ItemId, *, after: int = 0, limit: int = 16) -> list[ContentPart]:
    """The content of the version that answers, from a place on where a part begins."""
    return await queries.many(tx, ContentPart, "live_parts", id=item_id, after=after, limit=limit)


async def live_original_name(tx: Tx, item_id: ItemId) -> str | None:
    """The name in the store of a page's bytes, as they were when the version that answers was fetched."""
    names = await queries.values(tx, "live_original", id=item_id)
    return names[0] if names else None


async def timeline(tx: Tx, item_id: ItemId) -> dict[str, Any]:
    """What the making of the version that answers took."""
    timelines = await queries.values(tx, "timeline", id=item_id)
    return timelines[0] if timelines else {}


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────────


async def record_progress(tx: Tx, documents: Sequence[dict[str, Any]]) -> None:
    """Tell how far documents are; only for those whose job is still the caller's."""
    await queries.run(tx, "show_progress", documents=json.dumps(documents))


async def drop_stale_progress(tx: Tx) -> int:
    """Forget the progress of what ended a while ago."""
    return await queries.run(tx, "drop_progress")
