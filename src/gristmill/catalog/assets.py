"""Images and tables of documents: found with their contents, analysed for the versions that have them.

The caller of what writes shares the base's turn, and has proved the lease of its job.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.catalog.base import BaseId, Reuse
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
class ShownAsset(ContentAsset):
    """An image or a table of the version that answers, and what was said of it."""

    state: str | None
    text: str | None
    error_code: str | None
    error_message: str | None


# ── with the content ─────────────────────────────────────────────────────────────────────────────────────


async def keep_assets(tx: Tx, found: Sequence[tuple[bytes, ContentAsset]]) -> None:
    """Keep what was found inside contents; what is there stays as it is."""
    if found:
        rows = [
            {
                "content": content.hex(),
                "hash": one.hash.hex(),
                "blob": None if one.blob_hash is None else one.blob_hash.hex(),
                **{
                    name: getattr(one, name)
                    for name in ("number", "kind", "media_type", "size", "page", "start", "end", "caption")
                },
                "inline": one.inline,
            }
            for content, one in found
        ]
        await queries.run(tx, "keep_assets", assets=json.dumps(rows))


async def mark_inline(tx: Tx, content: bytes, hashes: Sequence[bytes]) -> None:
    """The texts of these images turned out to be a part of the content."""
    if hashes:
        await queries.run(tx, "mark_inline", content=content, hashes=list(hashes))


async def assets_in(tx: Tx, content: bytes) -> list[ContentAsset]:
    """The images and tables that were found inside a content, in order."""
    return await queries.many(tx, ContentAsset, "assets_in", content=content)


@dataclass(frozen=True)
class _Said:
    hash: bytes
    text: str


async def said_of(
    tx: Tx, item_id: ItemId, analyst: str, hashes: Sequence[bytes], reuse: Reuse
) -> dict[bytes, str]:
    """What this analyst said before of images with these bytes: for any item, or for this one."""
    if reuse == "force" or not hashes:
        return {}
    found = await queries.many(
        tx,
        _Said,
        "said_of",
        analyst=analyst,
        hashes=list(hashes),
        item=item_id if reuse == "document" else None,
    )
    return {row.hash: row.text for row in found}


# ── in a version ─────────────────────────────────────────────────────────────────────────────────────────


async def add_assets(tx: Tx, assets: Sequence[tuple[ItemId, int, NewAsset]]) -> None:
    """The images of versions that are being published."""
    if assets:
        await queries.run(
            tx,
            "add_assets",
            items=[item_id for item_id, _, _ in assets],
            versions=[version for _, version, _ in assets],
            hashes=[one.hash for _, _, one in assets],
            analysts=[one.analyst for _, _, one in assets],
            texts=[one.text for _, _, one in assets],
        )


async def next_asset(tx: Tx, item_id: ItemId, version: int, *, asking: bool) -> WaitingAsset | None:
    """The next image that waits, if the version still answers; from now on it is being asked about, if that is
    worth writing down."""
    found = await queries.maybe(tx, WaitingAsset, "next_asset", item=item_id, version=version)
    if found is not None and asking:
        await queries.run(tx, "set_asking", item=item_id, version=version, hash=found.hash)
    return found


async def put_back(tx: Tx, item_id: ItemId, version: int, digest: bytes) -> None:
    """asking → waiting: it was surely not taken up."""
    await queries.run(tx, "put_back", item=item_id, version=version, hash=digest)


async def lock_answering(tx: Tx, item_id: ItemId, version: int) -> int | None:
    """The number of the next chunk of a version that answers, which is the caller's until the transaction ends; None
    when another one answers, or none."""
    found = await queries.values(tx, "lock_answering", item=item_id, version=version)
    return found[0] if found else None


async def set_described(tx: Tx, item_id: ItemId, version: int, digest: bytes, text: str, chunks: int) -> None:
    """waiting | asking → described, with so many chunks more that answer."""
    await queries.run(tx, "set_described", item=item_id, version=version, hash=digest, text=text)
    await queries.run(tx, "more_chunks", item=item_id, chunks=chunks)


async def give_up_assets(
    tx: Tx, item_id: ItemId, version: int, code: str, message: str, digest: bytes | None = None
) -> int:
    """waiting | asking → failed, for one image or for all; how many."""
    return await queries.run(
        tx, "give_up_assets", item=item_id, version=version, hash=digest, code=code, message=message
    )


@dataclass(frozen=True)
class Analysed:
    """How the images of a version ended."""

    assets: int
    failed: int
    warnings: list[str]


async def set_analysed(tx: Tx, item_id: ItemId, version: int) -> Analysed | None:
    """Note that no image of a version waits any more; None when one does, or when it was noted before."""
    return await queries.maybe(tx, Analysed, "set_analysed", item=item_id, version=version)


@dataclass(frozen=True)
class Reopened:
    """An item whose images are to be analysed, in the version that answers."""

    id: ItemId
    version: int


async def reopen_assets(tx: Tx, ids: Sequence[ItemId]) -> list[Reopened]:
    """failed → waiting, in the versions of these items that answer."""
    return await queries.many(tx, Reopened, "reopen_assets", ids=list(ids)) if ids else []


@dataclass(frozen=True)
class Unanalysed:
    """An item some of whose images wait for a job that is not there."""

    id: ItemId
    base_id: BaseId
    version: int


async def show_assets(
    tx: Tx, item_id: ItemId, *, limit: int = 1_000, after: int = 0, digest: bytes | None = None
) -> list[ShownAsset]:
    """The images and tables of the version that answers, in order; or the one of this hash."""
    return await queries.many(
        tx, ShownAsset, "show_assets", item=item_id, after=after, limit=limit, hash=digest
    )


async def blob_name(tx: Tx, digest: bytes) -> str | None:
    """The name of a blob in the store."""
    found = await queries.values(tx, "blob_name", hash=digest)
    return found[0] if found else None
