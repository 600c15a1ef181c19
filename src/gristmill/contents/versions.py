"""Versions of items: what each is made from and by, and the switch to a new one.

The caller of a function that writes holds the shared locks of all bases concerned, and has checked the leases of all jobs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gristmill import catalog
from gristmill.catalog import BaseId, ItemId
from gristmill.contents.assets import NewAsset, insert_version_assets
from gristmill.contents.blobs import remove_unused_blobs_nowait
from gristmill.contents.parts import ContentPart
from gristmill.contents.removal import collect_contents
from gristmill.contents.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class NewVersion:
    """A version of an item, its content, and the recipe that chunks and embeds it."""

    item_id: ItemId
    version: int
    content: bytes
    recipe: str
    original: bytes | None = None  # a page's bytes, as they were fetched
    validators: Mapping[str, str] = field(default_factory=dict[str, str])


async def save_versions(tx: Tx, versions: Sequence[NewVersion]) -> None:
    """Note what versions are being made from, and by which recipe."""
    if versions:
        await queries.run(
            tx,
            "save_versions",
            items=[version.item_id for version in versions],
            versions=[version.version for version in versions],
            hashes=[version.content for version in versions],
            recipes=[version.recipe for version in versions],
            originals=[version.original for version in versions],
            validators=[json.dumps(dict(version.validators)) for version in versions],
        )


async def set_recipe(tx: Tx, items: Sequence[ItemId], recipe: str) -> None:
    """Note how the chunks of the live versions of items are made by now."""
    await queries.run(tx, "set_recipe", items=list(items), recipe=recipe)


@dataclass(frozen=True)
class FinishedVersion:
    """A version all of whose chunks are written."""

    item_id: ItemId
    version: int
    chunks: int
    warnings: Sequence[str]
    size_bytes: int | None
    timeline: dict[str, Any]
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what it says of itself
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
    """Make versions the live ones, and delete those before them that are not to be kept; the items that had an earlier one. The
    caller derives the containers above them, last: whoever else finishes a document of theirs waits until the commit."""
    documents = [
        {
            "id": str(version.item_id),
            "version": version.version,
            "chunks": version.chunks,
            "warnings": list(version.warnings),
            "size_bytes": version.size_bytes,
            "timeline": version.timeline,
            "document": dict(version.document),
            "analysed": not version.waiting_assets,
        }
        for version in finished
    ]
    await queries.run(tx, "save_timelines", documents=json.dumps(documents))
    published = await catalog.publish_versions(tx, documents)
    await insert_version_assets(
        tx, [(version.item_id, version.version, asset) for version in finished for asset in version.assets]
    )
    removed = await queries.many(tx, _RemovedVersion, "delete_old_versions", ids=published)
    await collect_contents(tx, sorted({row.content_hash for row in removed}))
    await remove_unused_blobs_nowait(tx, [row.original for row in removed if row.original is not None])
    return {row.item_id for row in removed}


# ── versions that are kept ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ExpiredVersion:
    """A kept version whose time is over."""

    base_id: BaseId
    item_id: ItemId
    version: int


async def find_expired_versions(tx: Tx, base_id: BaseId | None, limit: int) -> list[ExpiredVersion]:
    """Kept versions, of one base or all, whose time is over and that no legal hold covers."""
    return await queries.many(tx, ExpiredVersion, "find_expired_versions", base=base_id, limit=limit)


async def delete_versions(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> None:
    """Delete kept versions, with everything that only they use."""
    removed = await queries.many(
        tx,
        _RemovedVersion,
        "delete_versions",
        items=[item for item, _ in versions],
        versions=[version for _, version in versions],
    )
    await collect_contents(tx, sorted({row.content_hash for row in removed}))
    await remove_unused_blobs_nowait(tx, [row.original for row in removed if row.original is not None])


@dataclass(frozen=True)
class KeptVersion:
    """A version that a newer one replaced."""

    version: int
    content_hash: bytes
    original: bytes | None
    created_at: datetime
    replaced_at: datetime
    characters: int | None


async def find_kept_versions(
    tx: Tx, item_id: ItemId, limit: int, before: int | None = None
) -> list[KeptVersion]:
    """The versions of an item that newer ones replaced and that are kept, the newest first; those before a version."""
    return await queries.many(tx, KeptVersion, "kept_versions", item=item_id, limit=limit, before=before)


async def version_parts(
    tx: Tx, item_id: ItemId, version: int, *, after: int = 0, limit: int = 16
) -> list[ContentPart]:
    """The content of a kept version, from an offset where a part begins."""
    return await queries.many(
        tx, ContentPart, "kept_version_parts", item=item_id, version=version, after=after, limit=limit
    )


# ── the live version ─────────────────────────────────────────────────────────────────────────────────────


async def live_parts(tx: Tx, item_id: ItemId, *, after: int = 0, limit: int = 16) -> list[ContentPart]:
    """The content of the live version, from an offset where a part begins."""
    return await queries.many(tx, ContentPart, "live_parts", id=item_id, after=after, limit=limit)


@dataclass(frozen=True)
class LiveContent:
    """The content of a live version: its hash and length, and when the version was begun."""

    content_hash: bytes
    characters: int | None
    created_at: datetime

    @property
    def revision(self) -> str:
        """Identifies what the live version was read from."""
        return self.content_hash.hex()[:32]


async def live_content(tx: Tx, item_id: ItemId) -> LiveContent | None:
    """The content of the live version; None if there is none."""
    return await queries.maybe(tx, LiveContent, "live_content", id=item_id)


@dataclass(frozen=True)
class PageOpening:
    """A page, slide or sheet of a content: where its text begins, and how."""

    page: int
    start: int
    opening: str


async def live_parts_between(
    tx: Tx, item_id: ItemId, first: int, last: int, *, limit: int
) -> list[ContentPart]:
    """Parts of the content of the live version: the one that holds the character at `first`, and those that begin before `last`."""
    return await queries.many(
        tx, ContentPart, "live_parts_between", id=item_id, first=first, last=last, limit=limit
    )


async def live_parts_with(tx: Tx, item_id: ItemId, wanted: str, *, limit: int) -> list[ContentPart]:
    """Parts of the content of the live version in which a text stands."""
    return await queries.many(tx, ContentPart, "live_parts_with", id=item_id, wanted=wanted, limit=limit)


async def live_pages(tx: Tx, item_id: ItemId, *, length: int, limit: int, page: int = 0) -> list[PageOpening]:
    """The pages of the live version's text from `page` on, in order, with so many of their first characters."""
    return await queries.many(
        tx, PageOpening, "live_pages", id=item_id, length=length, limit=limit, page=page
    )


async def live_original_name(tx: Tx, item_id: ItemId) -> str | None:
    """The name in the store of a page's bytes, as they were fetched for the live version."""
    names = await queries.values(tx, "live_original_name", id=item_id)
    return names[0] if names else None


async def timeline(tx: Tx, item_id: ItemId) -> dict[str, Any]:
    """How long each stage of the live version took."""
    timelines = await queries.values(tx, "timeline", id=item_id)
    return timelines[0] if timelines else {}
