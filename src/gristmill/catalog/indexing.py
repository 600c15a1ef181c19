"""What becomes of many documents at once, in one transaction: read, kept, published. One statement a step.

The caller shares the turn of every base that is concerned, and has proved the lease of every job.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.catalog.assets import NewAsset, add_assets
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.moves import settle_above
from gristmill.catalog.store import queries
from gristmill.catalog.sweep import collect_contents, doom_free_blobs
from gristmill.db import Tx


@dataclass(frozen=True)
class Opened(Item):
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
    filed_content: bytes | None = None  # whose embedded documents are its children
    holds: bool = False  # whether it has children at all

    @property
    def depth(self) -> int:
        """How many documents it is inside of."""
        return int(self.source.get("depth", 0))


async def begin_reading(tx: Tx, wanted: Sequence[tuple[ItemId, int]]) -> list[Opened]:
    """Those of the documents whose version is still wanted: they are being read from now on."""
    return await queries.many(
        tx,
        Opened,
        "begin_reading",
        ids=[item_id for item_id, _ in wanted],
        versions=[version for _, version in wanted],
    )


async def still_wanted(tx: Tx, wanted: Sequence[tuple[ItemId, int]]) -> set[ItemId]:
    """Those of the documents whose version is still wanted, and stays so until the transaction ends."""
    return set(
        await queries.values(
            tx,
            "still_wanted",
            ids=[item_id for item_id, _ in wanted],
            versions=[version for _, version in wanted],
        )
    )


@dataclass(frozen=True)
class NewPart:
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
class _Kept:
    hash: bytes
    characters: int | None


async def keep_contents(tx: Tx, digests: Sequence[bytes]) -> set[bytes]:
    """Keep contents from now on; those that are whole already."""
    if not digests:
        return set()
    kept = await queries.many(tx, _Kept, "keep_contents", hashes=sorted(set(digests)))
    return {row.hash for row in kept if row.characters is not None}


async def keep_parts(tx: Tx, parts: Sequence[NewPart]) -> None:
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


async def complete_contents(tx: Tx, contents: dict[bytes, tuple[int, Sequence[str]]]) -> None:
    """All parts of these contents are kept: how many characters, and what has to be told about them."""
    if contents:
        rows = [
            {"hash": digest.hex(), "characters": characters, "warnings": list(warnings)}
            for digest, (characters, warnings) in contents.items()
        ]
        await queries.run(tx, "complete_contents", contents=json.dumps(rows))


async def whole_content(tx: Tx, digest: bytes) -> list[str] | None:
    """What has to be told about a content, if all of it is kept."""
    found = await queries.values(tx, "whole_content", hash=digest)
    return found[0] if found else None


@dataclass(frozen=True)
class ResumePoint:
    """A page that may be read only in part, and where it begins; all before it is kept."""

    page: int
    start: int


async def resume_point(tx: Tx, digest: bytes) -> ResumePoint | None:
    """Where the reading of a paged content can go on; None when it begins at the beginning."""
    return await queries.maybe(tx, ResumePoint, "resume_point", hash=digest)


async def parts_of(tx: Tx, digest: bytes, after: int) -> list["ContentPart"]:
    """Some parts of a content, from a place on where one begins."""
    return await queries.many(tx, ContentPart, "parts_of", hash=digest, after=after)


async def keep_versions(tx: Tx, versions: Sequence[NewVersion]) -> None:
    """Say what versions are being made from, and by what."""
    if versions:
        await queries.run(
            tx,
            "keep_versions",
            items=[new.item_id for new in versions],
            versions=[new.version for new in versions],
            hashes=[new.content for new in versions],
            recipes=[new.recipe for new in versions],
            originals=[new.original for new in versions],
            validators=[json.dumps(dict(new.validators)) for new in versions],
        )


@dataclass(frozen=True)
class Whole:
    """A version all of whose chunks are written."""

    item_id: ItemId
    version: int
    chunks: int
    warnings: Sequence[str]
    size_bytes: int | None
    timeline: dict[str, Any]
    assets: Sequence[NewAsset] = ()

    @property
    def waiting(self) -> int:
        """How many of its images have still to be described."""
        return sum(one.text is None for one in self.assets)


@dataclass(frozen=True)
class _Forgotten:
    item_id: ItemId
    content_hash: bytes
    original: bytes | None


async def publish(tx: Tx, done: Sequence[Whole]) -> set[ItemId]:
    """Make versions the ones that answer, and forget those before them; the items that had others."""
    documents = [
        {
            "id": str(whole.item_id),
            "version": whole.version,
            "chunks": whole.chunks,
            "warnings": list(whole.warnings),
            "size_bytes": whole.size_bytes,
            "timeline": whole.timeline,
            "analysed": not whole.waiting,
        }
        for whole in done
    ]
    published = await queries.values(tx, "publish_items", documents=json.dumps(documents))
    await add_assets(tx, [(whole.item_id, whole.version, one) for whole in done for one in whole.assets])
    forgotten = await queries.many(tx, _Forgotten, "forget_versions", ids=published)
    await collect_contents(tx, sorted({row.content_hash for row in forgotten}))
    await doom_free_blobs(tx, [row.original for row in forgotten if row.original is not None])
    await settle_above(tx, published)
    return {row.item_id for row in forgotten}


async def finish_unchanged(tx: Tx, wanted: Sequence[tuple[ItemId, int]]) -> None:
    """What answers is what was wanted: its source has not changed, and it would be cut and embedded alike."""
    ids = [item_id for item_id, _ in wanted]
    await queries.values(tx, "finish_unchanged", ids=ids, versions=[version for _, version in wanted])
    await settle_above(tx, ids)


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


async def live_original(tx: Tx, item_id: ItemId) -> str | None:
    """The name in the store of a page's bytes, as they were when the version that answers was fetched."""
    found = await queries.values(tx, "live_original", id=item_id)
    return found[0] if found else None


async def timeline(tx: Tx, item_id: ItemId) -> dict[str, Any]:
    """What the making of the version that answers took."""
    found = await queries.values(tx, "timeline", id=item_id)
    return found[0] if found else {}


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────────


async def show_progress(tx: Tx, documents: Sequence[dict[str, Any]]) -> None:
    """Tell how far documents are; only for those whose job is still the caller's."""
    await queries.run(tx, "show_progress", documents=json.dumps(documents))


async def drop_progress(tx: Tx) -> int:
    """Forget the progress of what ended a while ago."""
    return await queries.run(tx, "drop_progress")
