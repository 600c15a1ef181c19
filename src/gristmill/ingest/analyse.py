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

from gristmill import catalog, faults, jobs
from gristmill.catalog import Base, BaseId, NewAsset, WaitingAsset
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders, embed_each
from gristmill.errors import GristmillError, Invalid, Permanent, Transient, WorkError
from gristmill.ingest.assets import Analyst
from gristmill.ingest.chunk import Piece, limit_of, split
from gristmill.ingest.document import Document
from gristmill.jobs import Done, Job, Outcome, Snooze
from gristmill.operations.assets import announce_analysed
from gristmill.operations.originals import Originals
from gristmill.search import Chunk, publish
from gristmill.search.publish import Written, text_hash
from gristmill.work import AnalyseAssets

# Here, OCR has one turn at a time, and who waits for it would hold a child that documents could be read in; elsewhere, a
# model can take several.
AT_ONCE_HERE, AT_ONCE_ELSEWHERE = 1, 4
_PAUSE = timedelta(seconds=3)
_LONGEST_PAUSE = timedelta(minutes=1)
_MOST_IMAGES = 500  # of one document; each takes seconds, or money


async def recall(db: Database, document: Document, analyst: Analyst) -> list[Piece]:
    """What was said before of the document's images, as pieces behind its text; the others will wait."""
    images = [
        one
        for one in document.assets
        if one.kind == "image" and not one.inline and one.hash not in document.inline
    ][:_MOST_IMAGES]
    async with db.connection() as tx:
        said = await catalog.said_of(
            tx, document.item.id, analyst.identity, [one.hash for one in images], document.base.asset_reuse
        )
    document.images = [NewAsset(one.hash, analyst.identity, said.get(one.hash)) for one in images]
    limit = limit_of(document.embedder, document.base.chunking)
    pieces: list[Piece] = []
    for one in images:
        pieces += _placed(said.get(one.hash, ""), document.embedder, limit, one.start, one.page)
    return pieces


def _placed(text: str, embedder: Embedder, limit: int, start: int, page: int | None) -> list[Piece]:
    """What an image says, cut; all of it stands where the image does."""
    if not text.strip():
        return []
    return [
        Piece(number, piece.text, start, start, (), page)
        for number, piece in enumerate(split(text, embedder.tokenizer, limit))
    ]


class Analyser:
    """Has images described."""

    def __init__(self, db: Database, embedders: Embedders, originals: Originals, analyst: Analyst) -> None:
        self._db, self._embedders, self._originals, self._analyst = db, embedders, originals, analyst
        self._running = self._turned_away = 0

    async def analyse(self, job: Job) -> Outcome:
        """Describe what waits of the job's version, unless something newer answers."""
        most = AT_ONCE_ELSEWHERE if self._analyst.costs else AT_ONCE_HERE
        if self._running >= most:
            self._turned_away += 1
            return Snooze(min(_LONGEST_PAUSE, _PAUSE * (1 + self._turned_away // most)))
        self._running += 1
        try:
            while (found := await self._next(job)) is not None:
                base, asset = found
                await faults.point("assets.taken")
                await self._one(job, base, asset)
                await faults.point("assets.described")
            async with self._db.transaction() as tx:
                await self._finish(tx, job)
                await jobs.complete(tx, job)
        finally:
            self._running -= 1
            self._turned_away = 0
        return Done()

    async def failed(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: what it has not described is given up, in the same transaction."""
        work = AnalyseAssets.of(job)
        await catalog.share_turn(tx, _base_of(job))
        await catalog.give_up_assets(tx, work.item_id, work.version, error.code, error.message)
        await announce_analysed(tx, _base_of(job), work.item_id, work.version)

    async def _next(self, job: Job) -> tuple[Base, WaitingAsset] | None:
        work = AnalyseAssets.of(job)
        async with self._db.transaction() as tx:
            await catalog.share_turn(tx, _base_of(job))
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, _base_of(job))
            if base is None:
                return None
            if job.interrupted and base.on_restart == "park":
                raise Permanent(
                    "Analysing was interrupted, and this base does not resume by itself: re-index the item.",
                    code="interrupted",
                )
            found = await catalog.next_asset(tx, work.item_id, work.version, asking=self._analyst.costs)
        return None if found is None else (base, found)

    async def _one(self, job: Job, base: Base, asset: WaitingAsset) -> None:
        """One image, to its end; raises Transient when it has to wait."""
        work = AnalyseAssets.of(job)
        try:
            if asset.asking and self._analyst.costs:
                raise Permanent(
                    "It was being described when work was interrupted, which may have been charged for. Re-index the item to "
                    "ask again.",
                    code="vision_uncertain",
                )
            text = await self._described(asset)
            chunks = await self._chunks(base, asset, text)
        except Transient:
            async with self._db.transaction() as tx:
                await catalog.share_turn(tx, base.id)
                await jobs.fence(tx, job)
                await catalog.put_back(tx, work.item_id, work.version, asset.hash)
            raise
        except Permanent as error:
            async with self._db.transaction() as tx:
                await catalog.share_turn(tx, base.id)
                await jobs.fence(tx, job)
                await catalog.give_up_assets(
                    tx, work.item_id, work.version, error.code, error.message, asset.hash
                )
            return
        await self._write(job, base, asset, text, chunks)

    async def _described(self, asset: WaitingAsset) -> str:
        scratch = self._originals.scratch
        with tempfile.TemporaryDirectory(dir=scratch, prefix="gristmill-asset-") as folder:
            path = Path(folder) / "image"
            with path.open("wb") as file:
                async for part in self._originals.blobs.read(asset.blob):
                    await asyncio.to_thread(file.write, part)
            return await self._analyst.describe(path, asset.media_type, Path(folder))

    async def _chunks(self, base: Base, asset: WaitingAsset, text: str) -> list[Chunk]:
        """What the image says, cut and embedded; numbered when it is written."""
        embedder = self._embedder(base)
        await embedder.load()
        pieces = _placed(text, embedder, limit_of(embedder, base.chunking), asset.start, asset.page)
        hashes = [text_hash(piece.text) for piece in pieces]
        async with self._db.connection() as tx:
            known = await publish.vectors(tx, [base.id], hashes)
        new = [piece.text for piece, digest in zip(pieces, hashes, strict=True) if digest not in known]
        for fresh, vector in zip(new, await embed_each(embedder, new), strict=True):
            if isinstance(vector, WorkError):
                raise vector
            known[text_hash(fresh)] = vector
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
            await catalog.share_turn(tx, base.id)
            await jobs.fence(tx, job)
            first = await catalog.lock_answering(tx, work.item_id, work.version)
            if first is None:
                return
            placed = [
                Chunk(first + n, one.text, one.start, one.end, one.headings, one.embedding, one.page)
                for n, one in enumerate(chunks)
            ]
            if placed:
                written = Written(work.item_id, asset.title, work.version, placed)
                await publish.write(tx, base.id, publish.prepare([written]))
            await catalog.set_described(tx, work.item_id, work.version, asset.hash, text, len(placed))
            await jobs.progressed(tx, [job])
            await faults.point("assets.before_commit")

    async def _finish(self, tx: Tx, job: Job) -> None:
        work = AnalyseAssets.of(job)
        await catalog.share_turn(tx, _base_of(job))
        await jobs.fence(tx, job)
        await announce_analysed(tx, _base_of(job), work.item_id, work.version)


def _base_of(job: Job) -> BaseId:
    return BaseId(UUID(job.lane))
