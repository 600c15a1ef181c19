"""Images and tables of documents: stored with the content, described for the versions that have them.

    asset of a version:   waiting ── claim_next_asset ──▶ asking ── record_description ──▶ described
                             ▲                              │
                             ├───────── release_asset ──────┤
                             └── retry_failed_assets ── failed ◀── fail_assets

The caller of a function that writes holds the base's shared lock, and has checked the lease of its job.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog
from gristmill.catalog import AssetReuse, BaseId, ItemId
from gristmill.contents.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class ContentAsset:
    """An image or a table of a content. `inline`: it needs no description, because its text is part of the content or
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
    """An image of a version that is being published; without a text it waits to be described."""

    hash: bytes
    analyst: str
    text: str | None


@dataclass(frozen=True)
class WaitingAsset:
    """An image to describe, and the title of its item. `asking`: an earlier attempt sent it to the model."""

    hash: bytes
    media_type: str
    page: int | None
    start: int
    asking: bool
    blob: str
    title: str


@dataclass(frozen=True)
class LiveAsset(ContentAsset):
    """An image or a table of the live version, with its description."""

    state: str | None
    text: str | None
    error_code: str | None
    error_message: str | None


@dataclass(frozen=True)
class PlacedImage:
    """An image of the live version: where it is in the content, and its caption or description."""

    hash: bytes
    start: int
    page: int | None
    text: str


# ── of a content ─────────────────────────────────────────────────────────────────────────────────────────


async def insert_content_assets(tx: Tx, assets: Sequence[tuple[bytes, ContentAsset]]) -> None:
    """Store images and tables of contents; those that exist stay as they are."""
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
        await queries.run(tx, "insert_content_assets", assets=json.dumps(rows))


async def mark_assets_inline(tx: Tx, content: bytes, hashes: Sequence[bytes]) -> None:
    """Note that the texts of these images are part of the content."""
    if hashes:
        await queries.run(tx, "mark_assets_inline", content=content, hashes=list(hashes))


async def content_assets(tx: Tx, content: bytes) -> list[ContentAsset]:
    """The images and tables of a content, in order."""
    return await queries.many(tx, ContentAsset, "content_assets", content=content)


@dataclass(frozen=True)
class _Description:
    hash: bytes
    text: str


async def reusable_descriptions(
    tx: Tx, item_id: ItemId, analyst: str, hashes: Sequence[bytes], reuse: AssetReuse
) -> dict[bytes, str]:
    """The descriptions that this analyst gave before of images with these hashes: for any item, or for this one."""
    if reuse == "force" or not hashes:
        return {}
    descriptions = await queries.many(
        tx,
        _Description,
        "reusable_descriptions",
        analyst=analyst,
        hashes=list(hashes),
        item=item_id if reuse == "document" else None,
    )
    return {row.hash: row.text for row in descriptions}


async def sample_descriptions(tx: Tx, base_id: BaseId, analyst: str, limit: int) -> list[str]:
    """Descriptions that this analyst gave of images in a base, at most `limit`; some are empty."""
    return await queries.values(tx, "sample_descriptions", base=base_id, analyst=analyst, limit=limit)


# ── of a version ─────────────────────────────────────────────────────────────────────────────────────────


async def insert_version_assets(tx: Tx, assets: Sequence[tuple[ItemId, int, NewAsset]]) -> None:
    """Store the images of versions that are being published."""
    if assets:
        await queries.run(
            tx,
            "insert_version_assets",
            items=[item_id for item_id, _, _ in assets],
            versions=[version for _, version, _ in assets],
            hashes=[asset.hash for _, _, asset in assets],
            analysts=[asset.analyst for _, _, asset in assets],
            texts=[asset.text for _, _, asset in assets],
        )


async def claim_next_asset(
    tx: Tx, item_id: ItemId, version: int, *, mark_asking: bool
) -> WaitingAsset | None:
    """The next image to describe, None when the version is not live or no image waits. With `mark_asking` the attempt
    is recorded first, for models that charge for each request."""
    asset = await queries.maybe(tx, WaitingAsset, "next_waiting_asset", item=item_id, version=version)
    if asset is not None and mark_asking:
        await queries.run(tx, "mark_asset_asking", item=item_id, version=version, hash=asset.hash)
    return asset


async def release_asset(tx: Tx, item_id: ItemId, version: int, digest: bytes) -> None:
    """Let an image wait again: the model certainly did not get it."""
    await queries.run(tx, "release_asset", item=item_id, version=version, hash=digest)


async def record_description(
    tx: Tx, item_id: ItemId, version: int, digest: bytes, text: str, chunks: int
) -> None:
    """Store an image's description, which made the live version longer by `chunks`."""
    await queries.run(tx, "record_description", item=item_id, version=version, hash=digest, text=text)
    await catalog.add_chunk_count(tx, item_id, chunks)


async def fail_assets(
    tx: Tx, item_id: ItemId, version: int, code: str, message: str, digest: bytes | None = None
) -> int:
    """Give up describing one image of a version, or all that wait; how many."""
    return await queries.run(
        tx, "fail_assets", item=item_id, version=version, hash=digest, code=code, message=message
    )


@dataclass(frozen=True)
class AnalysisSummary:
    """How the description of a version's images ended."""

    assets: int
    failed: int
    warnings: list[str]


async def mark_analysed(tx: Tx, item_id: ItemId, version: int) -> AnalysisSummary | None:
    """Note that no image of a version waits any more; None when one does, or when it was noted before."""
    return await queries.maybe(tx, AnalysisSummary, "mark_analysed", item=item_id, version=version)


@dataclass(frozen=True)
class ItemToAnalyse:
    """An item with images to describe in its live version."""

    id: ItemId
    version: int


async def retry_failed_assets(tx: Tx, ids: Sequence[ItemId]) -> list[ItemToAnalyse]:
    """Let those images of the items' live versions wait again that failed; the items that have some."""
    return await queries.many(tx, ItemToAnalyse, "retry_failed_assets", ids=list(ids)) if ids else []


async def live_assets(
    tx: Tx, item_id: ItemId, *, limit: int = 1_000, after: int = 0, digest: bytes | None = None
) -> list[LiveAsset]:
    """The images and tables of the live version, in order; or the one of this hash."""
    return await queries.many(
        tx, LiveAsset, "live_assets", item=item_id, after=after, limit=limit, hash=digest
    )


async def live_images_between(
    tx: Tx, item_id: ItemId, first: int, last: int | None, types: Sequence[str], *, limit: int
) -> list[PlacedImage]:
    """The images of these media types between two characters of the live version; to its end without `last`."""
    return await queries.many(
        tx,
        PlacedImage,
        "live_images_between",
        item=item_id,
        first=first,
        last=last,
        types=list(types),
        limit=limit,
    )
