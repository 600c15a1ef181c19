"""analyse: what images inside documents say becomes searchable beside their text. The job `analyse_assets`.

    when a version is published     what was said before of equal images is a part of it; for the others there is a job
    the job                         one image after the other: describe, cut, embed; then one fenced transaction: its
                                    chunks answer, at the image's place in the document, and it is `described`
    the last one                    `AllAssetsAnalyzed` and `DocumentIngestionCompleted`, once a version

    the analyst …                   costs nothing              costs money
    can't be reached                tried again                tried again: it was not taken up
    was asked, and we were killed   asked again                failed, `vision_uncertain`: it may have been paid
    says that it can't              failed                     failed

A failed image is tried again when its document is indexed again, or by asking for it. A newer version, or a deletion, ends the
job: its writes look at the item first. Few of these jobs run at once in a process; others come back later, so that they hold no
slot.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from gristmill import catalog, contents, faults, jobs
from gristmill.catalog import Base, BaseId
from gristmill.contents import NewAsset, WaitingAsset
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders, embed_each
from gristmill.errors import GristmillError, Invalid, Permanent, Transient, WorkError
from gristmill.ingest.chunk import TextChunk, split, token_limit
from gristmill.ingest.document import Document
from gristmill.ingest.image_describers import ImageDescriber
from gristmill.jobs import Done, Job, Outcome, Snooze
from gristmill.operations.assets import announce_analysis_done
from gristmill.operations.source_factory import SourceFactory
from gristmill.search import Chunk, publish
from gristmill.search.publish import VersionChunks, text_hash
from gristmill.work import AnalyseAssets

# Here, OCR has one turn at a time, and who waits for it would hold a child that documents could be read in; elsewhere, a
# model can take several.
LOCAL_CONCURRENCY, REMOTE_CONCURRENCY = 1, 4
_PAUSE = timedelta(seconds=3)
_MAX_PAUSE = timedelta(minutes=1)
_MAX_IMAGES = 500  # of one document; each takes seconds, or money


async def known_image_chunks(db: Database, document: Document, analyst: ImageDescriber) -> list[TextChunk]:
    """What was said before of the document's images, as pieces behind its text; the others will wait."""
    images = [
        one
        for one in document.assets
        if one.kind == "image" and not one.inline and one.hash not in document.inline
    ][:_MAX_IMAGES]
    async with db.connection() as tx:
        descriptions = await contents.reusable_descriptions(
            tx, document.item.id, analyst.identity, [one.hash for one in images], document.base.asset_reuse
        )
    document.images = [NewAsset(one.hash, analyst.identity, descriptions.get(one.hash)) for one in images]
    limit = token_limit(document.embedder, document.base.chunking)
    pieces: list[TextChunk] = []
    for image in images:
        pieces += _description_chunks(
            descriptions.get(image.hash, ""), document.embedder, limit, image.start, image.page
        )
    return pieces


def _description_chunks(
    text: str, embedder: Embedder, limit: int, start: int, page: int | None
) -> list[TextChunk]:
    """What an image says, cut; all of it stands where the image does."""
    if not text.strip():
        return []
    return [
        TextChunk(number, piece.text, start, start, (), page)
        for number, piece in enumerate(split(text, embedder.tokenizer, limit))
    ]


class ImageAnalyser:
    """Has images described."""

    def __init__(
        self, db: Database, embedders: Embedders, originals: SourceFactory, describer: ImageDescriber
    ) -> None:
        self._db, self._embedders, self._originals, self._describer = db, embedders, originals, describer
        self._running = self._postponed = 0

    async def analyse(self, job: Job) -> Outcome:
        """Describe what waits of the job's version, unless something newer answers."""
        limit = REMOTE_CONCURRENCY if self._describer.is_paid else LOCAL_CONCURRENCY
        if self._running >= limit:
            self._postponed += 1
            return Snooze(min(_MAX_PAUSE, _PAUSE * (1 + self._postponed // limit)))
        self._running += 1
        try:
            while (next_image := await self._take_next_image(job)) is not None:
                base, asset = next_image
                await faults.point("assets.taken")
                await self._analyse_image(job, base, asset)
                await faults.point("assets.described")
            async with self._db.transaction() as tx:
                await self._finish(tx, job)
                await jobs.complete(tx, job)
        finally:
            self._running -= 1
            self._postponed = 0
        return Done()

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: what it has not described is given up, in the same transaction."""
        work = AnalyseAssets.of(job)
        await catalog.lock_base_shared(tx, _base_of(job))
        await contents.fail_assets(tx, work.item_id, work.version, error.code, error.message)
        await announce_analysis_done(tx, _base_of(job), work.item_id, work.version)

    async def _take_next_image(self, job: Job) -> tuple[Base, WaitingAsset] | None:
        work = AnalyseAssets.of(job)
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, _base_of(job))
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, _base_of(job))
            if base is None:
                return None
            if job.interrupted and base.on_restart == "park":
                raise Permanent(
                    "Analysing was interrupted, and this base does not resume by itself: re-index the item.",
                    code="interrupted",
                )
            asset = await contents.claim_next_asset(
                tx, work.item_id, work.version, mark_asking=self._describer.is_paid
            )
        return None if asset is None else (base, asset)

    async def _analyse_image(self, job: Job, base: Base, asset: WaitingAsset) -> None:
        """One image, to its end; raises Transient when it has to wait."""
        work = AnalyseAssets.of(job)
        try:
            if asset.asking and self._describer.is_paid:
                raise Permanent(
                    "It was being described when work was interrupted, which may have been charged for. Re-index the item to "
                    "ask again.",
                    code="vision_uncertain",
                )
            text = await self._describe(asset)
            chunks = await self._embed_description(base, asset, text)
        except Transient:
            async with self._db.transaction() as tx:
                await catalog.lock_base_shared(tx, base.id)
                await jobs.fence(tx, job)
                await contents.release_asset(tx, work.item_id, work.version, asset.hash)
            raise
        except Permanent as error:
            async with self._db.transaction() as tx:
                await catalog.lock_base_shared(tx, base.id)
                await jobs.fence(tx, job)
                await contents.fail_assets(
                    tx, work.item_id, work.version, error.code, error.message, asset.hash
                )
            return
        await self._write(job, base, asset, text, chunks)

    async def _describe(self, asset: WaitingAsset) -> str:
        scratch = self._originals.scratch
        with tempfile.TemporaryDirectory(dir=scratch, prefix="gristmill-asset-") as folder:
            path = Path(folder) / "image"
            with path.open("wb") as file:
                async for part in self._originals.blobs.read(asset.blob):
                    await asyncio.to_thread(file.write, part)
            return await self._describer.describe(path, asset.media_type, Path(folder))

    async def _embed_description(self, base: Base, asset: WaitingAsset, text: str) -> list[Chunk]:
        """What the image says, cut and embedded; numbered when it is written."""
        embedder = self._embedder(base)
        await embedder.load()
        pieces = _description_chunks(
            text, embedder, token_limit(embedder, base.chunking), asset.start, asset.page
        )
        hashes = [text_hash(piece.text) for piece in pieces]
        async with self._db.connection() as tx:
            known = await publish.reusable_vectors(tx, [base.id], hashes)
        new = [piece.text for piece, digest in zip(pieces, hashes, strict=True) if digest not in known]
        for new_text, vector in zip(new, await embed_each(embedder, new), strict=True):
            if isinstance(vector, WorkError):
                raise vector
            known[text_hash(new_text)] = vector
        return [
            Chunk(piece.index, piece.text, piece.start, piece.end, (), known[digest], piece.page)
            for piece, digest in zip(pieces, hashes, strict=True)
        ]

    def _embedder(self, base: Base) -> Embedder:
        try:
            embedder = self._embedders.get(base.embedder)
        except Invalid as error:
            raise Permanent(error.message, code="embedder_changed") from error
        if embedder.identity != base.embedder_identity:
            raise Permanent(
                f"The embedder {base.embedder!r} is no longer the one that made this base's vectors.",
                code="embedder_changed",
            )
        return embedder

    async def _write(
        self, job: Job, base: Base, asset: WaitingAsset, text: str, chunks: Sequence[Chunk]
    ) -> None:
        """The image's chunks answer, if its version still does."""
        work = AnalyseAssets.of(job)
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, base.id)
            await jobs.fence(tx, job)
            first = await catalog.lock_live_version(tx, work.item_id, work.version)
            if first is None:
                return
            numbered = [
                Chunk(first + n, one.text, one.start, one.end, one.headings, one.embedding, one.page)
                for n, one in enumerate(chunks)
            ]
            if numbered:
                written = VersionChunks(work.item_id, asset.title, work.version, numbered)
                await publish.write(tx, base.id, publish.prepare_write([written]))
            await contents.record_description(tx, work.item_id, work.version, asset.hash, text, len(numbered))
            await jobs.reset_attempts(tx, [job])
            await faults.point("assets.before_commit")

    async def _finish(self, tx: Tx, job: Job) -> None:
        work = AnalyseAssets.of(job)
        await catalog.lock_base_shared(tx, _base_of(job))
        await jobs.fence(tx, job)
        await announce_analysis_done(tx, _base_of(job), work.item_id, work.version)


def _base_of(job: Job) -> BaseId:
    return BaseId(UUID(job.lane))
