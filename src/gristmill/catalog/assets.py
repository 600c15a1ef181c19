"""Images and tables of documents: found with their contents, analysed for the versions that have them.

The caller of what writes shares the base's turn, and has proved the lease of its job.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.catalog.base import AssetReuse, BaseId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class ContentAsset:
    """An image or a table of a content. `inline`: nobody has to say what it shows, for its text stands in the content, or
    it is a decoration."""

    hash: bytes
    number: int
    kind: str
    media_type: str
    size: int
    page: int | None
    start: int
    end: int
    caption: str
    inline: bool
    blob_hash: bytes | None


@dataclass(frozen=True)
class NewAsset:
    """What becomes of an image in a version that is published: described by what was said before, or waiting."""

    hash: bytes
    analyst: str
    text: str | None


@dataclass(frozen=True)
class WaitingAsset:
    """An image that somebody has to describe, with the item that it is for. `asking`: somebody has begun to."""

    hash: bytes
    media_type: str
    page: int | None
    start: int
    asking: bool
    blob: str
    title: str


@dataclass(frozen=True)
class LiveAsset(ContentAsset):
    """An image or a table of the version that answers, and what was said of it."""

    state: str | None
    text: str | None
    error_code: str | None
    error_message: str | None


# ── with the content ─────────────────────────────────────────────────────────────────────────────────────


async def insert_content_assets(tx: Tx, assets: Sequence[tuple[bytes, ContentAsset]]) -> None:
    """Keep what was found inside contents; what is there stays as it is."""
    if assets:
        rows = [
            {
                "content": content.hex(),
                "hash": asset.hash.hex(),
                "blob": None if asset.blob_hash is None else asset.blob_hash.hex(),
                **{
                    name: getattr(asset, name)
                    for name in ("number", "kind", "media_type", "size", "page", "start", "end", "caption")
                },
                "inline": asset.inline,
            }
            for content, asset in assets
        ]
        await queries.run(tx, "keep_assets", assets=json.dumps(rows))


async def mark_assets_inline(tx: Tx, content: bytes, hashes: Sequence[bytes]) -> None:
    """The texts of these images turned out to be a part of the content."""
    if hashes:
        await queries.run(tx, "mark_inline", content=content, hashes=list(hashes))


async def content_assets(tx: Tx, content: bytes) -> list[ContentAsset]:
    """The images and tables that were found inside a content, in order."""
    return await queries.many(tx, ContentAsset, "assets_in", content=content)


@dataclass(frozen=True)
class _Description:
    hash: bytes
    text: str


async def reusable_descriptions(
    tx: Tx, item_id: ItemId, analyst: str, hashes: Sequence[bytes], reuse: AssetReuse
) -> dict[bytes, str]:
    """What this analyst said before of images with these bytes: for any item, or for this one."""
    if reuse == "force" or not hashes:
        return {}
    descriptions = await queries.many(
        tx,
        _Description,
        "said_of",
        analyst=analyst,
        hashes=list(hashes),
        item=item_id if reuse == "document" else None,
    )
    return {row.hash: row.text for row in descriptions}


# ── in a version ─────────────────────────────────────────────────────────────────────────────────────────


async def insert_version_assets(tx: Tx, assets: Sequence[tuple[ItemId, int, NewAsset]]) -> None:
    """The images of versions that are being published."""
    if assets:
        await queries.run(
            tx,
            "add_assets",
            items=[item_id for item_id, _, _ in assets],
            versions=[version for _, version, _ in assets],
            hashes=[asset.hash for _, _, asset in assets],
            analysts=[asset.analyst for _, _, asset in assets],
            texts=[asset.text for _, _, asset in assets],
        )


async def claim_next_asset(
    tx: Tx, item_id: ItemId, version: int, *, mark_asking: bool
) -> WaitingAsset | None:
    """The next image that waits, if the version still answers; from now on it is being asked about, if that is
    worth writing down."""
    asset = await queries.maybe(tx, WaitingAsset, "next_asset", item=item_id, version=version)
    if asset is not None and mark_asking:
        await queries.run(tx, "set_asking", item=item_id, version=version, hash=asset.hash)
    return asset


async def release_asset(tx: Tx, item_id: ItemId, version: int, digest: bytes) -> None:
    """asking → waiting: it was surely not taken up."""
    await queries.run(tx, "put_back", item=item_id, version=version, hash=digest)


async def lock_live_version(tx: Tx, item_id: ItemId, version: int) -> int | None:
    """The number of the next chunk of a version that answers, which is the caller's until the transaction ends; None
    when another one answers, or none."""
    chunk_counts = await queries.values(tx, "lock_answering", item=item_id, version=version)
    return chunk_counts[0] if chunk_counts else None


async def record_description(
    tx: Tx, item_id: ItemId, version: int, digest: bytes, text: str, chunks: int
) -> None:
    """waiting | asking → described, with so many chunks more that answer."""
    await queries.run(tx, "set_described", item=item_id, version=version, hash=digest, text=text)
    await queries.run(tx, "more_chunks", item=item_id, chunks=chunks)


async def fail_assets(
    tx: Tx, item_id: ItemId, version: int, code: str, message: str, digest: bytes | None = None
) -> int:
    """waiting | asking → failed, for one image or for all; how many."""
    return await queries.run(
        tx, "give_up_assets", item=item_id, version=version, hash=digest, code=code, message=message
    )


@dataclass(frozen=True)
class AnalysisSummary:
    """How the images of a version ended."""

    assets: int
    failed: int
    warnings: list[str]


async def mark_analysed(tx: Tx, item_id: ItemId, version: int) -> AnalysisSummary | None:
    """Note that no image of a version waits any more; None when one does, or when it was noted before."""
    return await queries.maybe(tx, AnalysisSummary, "set_analysed", item=item_id, version=version)


@dataclass(frozen=True)
class ItemToAnalyse:
    """An item whose images are to be analysed, in the version that answers."""

    id: ItemId
    version: int


async def retry_failed_assets(tx: Tx, ids: Sequence[ItemId]) -> list[ItemToAnalyse]:
    """failed → waiting, in the versions of these items that answer."""
    return await queries.many(tx, ItemToAnalyse, "reopen_assets", ids=list(ids)) if ids else []


@dataclass(frozen=True)
class UnanalysedItem:
    """An item some of whose images wait for a job that is not there."""

    id: ItemId
    base_id: BaseId
    version: int


async def live_assets(
    tx: Tx, item_id: ItemId, *, limit: int = 1_000, after: int = 0, digest: bytes | None = None
) -> list[LiveAsset]:
    """The images and tables of the version that answers, in order; or the one of this hash."""
    return await queries.many(
        tx, LiveAsset, "show_assets", item=item_id, after=after, limit=limit, hash=digest
    )


async def blob_name(tx: Tx, digest: bytes) -> str | None:
    """The name of a blob in the store."""
    names = await queries.values(tx, "blob_name", hash=digest)
    return names[0] if names else None
