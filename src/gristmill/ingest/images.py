"""Make the images inside documents searchable: the job `analyse_assets`.

    when a version is published     known descriptions of equal images are part of it; a job is enqueued for the others
    the job                         one image after the other: describe, chunk and embed, then one fenced transaction
                                    publishes its chunks at the image's position and marks it as `described`
    after the last image            the events `AllAssetsAnalyzed` and `DocumentIngestionCompleted`, once per version

    the describer …                       is free             is paid
    can't be reached                      retry               retry: the request was not accepted
    was called when we were killed        retry               fail with `vision_uncertain`: it may have been charged
    reports an error                      fail                fail

While a budget is used up, no image is described; one that is being described is finished. A failed image is retried when its document is re-indexed, or on request. A newer version or a deletion ends the job: each
transaction checks the item first. Only a few images are described at once in a process, and bases take turns; jobs that wait
use no slot.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from gristmill import catalog, contents, faults, jobs, usage
from gristmill.catalog import Base
from gristmill.contents import NewAsset, WaitingAsset
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders, embed_each
from gristmill.errors import GristmillError, Permanent, Transient, WorkError
from gristmill.ingest.chunk import TextChunk, split, token_limit
from gristmill.ingest.image_describers import ImageDescriber
from gristmill.ingest.open import embedder_of
from gristmill.ingest.stages import Stages
from gristmill.ingest.task import EndOfContent, IndexTask, base_of
from gristmill.ingest.tokens import token_counter
from gristmill.jobs import Activity, Done, Job, Outcome, Snooze
from gristmill.operations.assets import announce_analysis_done
from gristmill.operations.source_factory import SourceFactory
from gristmill.search import Chunk, publish
from gristmill.search.publish import PreparedWrite, VersionChunks, text_hash
from gristmill.usage import BudgetUsedUp, ItemSpending, Spending, price_of_tokens, waits_for_budgets
from gristmill.work import AnalyseAssets

FREE_IMAGE = Spending("vision", 1)
_MAX_IMAGES = 500  # of one document; each costs seconds or money


async def images_with_descriptions(
    db: Database, task: IndexTask, end: EndOfContent, describer: ImageDescriber
) -> tuple[list[NewAsset], list[TextChunk]]:
    """The document's images, and the chunks of the descriptions that are known. The other images wait for the job."""
    images = [
        asset
        for asset in end.assets
        if asset.kind == "image" and not asset.inline and asset.hash not in end.inline
    ][:_MAX_IMAGES]
    async with db.connection() as tx:
        descriptions = await contents.reusable_descriptions(
            tx, task.item.id, describer.identity, [image.hash for image in images], task.base.asset_reuse
        )
    assets = [NewAsset(image.hash, describer.identity, descriptions.get(image.hash)) for image in images]
    known = [
        (descriptions[image.hash], image.start, image.page) for image in images if image.hash in descriptions
    ]
    limit = token_limit(task.embedder, task.chunking)
    return assets, await asyncio.to_thread(description_chunks, known, task.embedder, limit)


def description_chunks(
    descriptions: Sequence[tuple[str, int, int | None]], embedder: Embedder, limit: int
) -> list[TextChunk]:
    """Chunks of image descriptions, each with the position and page of its image. Blocks: run it in a thread."""
    return [
        TextChunk(number, chunk.text, start, start, (), page)
        for text, start, page in descriptions
        if text.strip()
        for number, chunk in enumerate(split(text, embedder.tokenizer, limit))
    ]


@dataclass(frozen=True)
class _EmbeddedDescription:
    """The chunks of a description with their vectors, and what the new ones cost."""

    chunks: Sequence[Chunk]
    spending: Spending


class ImageAnalyser:
    """Describes the images of documents."""

    def __init__(
        self,
        db: Database,
        embedders: Embedders,
        originals: SourceFactory,
        describer: ImageDescriber,
        stages: Stages | None = None,
        price_of_image: Spending = FREE_IMAGE,
    ) -> None:
        self._db, self._embedders, self._originals, self._describer = db, embedders, originals, describer
        self._price_of_image = price_of_image
        self._gate = (stages or Stages()).descriptions

    async def analyse(self, job: Job) -> Outcome:
        """Describe the waiting images of the job's version, unless a newer one is live."""
        try:
            while await self._analyse_next_image(job):
                await faults.point("assets.described")
        except BudgetUsedUp as wait:
            return Snooze(wait.retry_after or timedelta(0), wait)
        async with self._db.transaction() as tx:
            await self._finish(tx, job)
            await jobs.complete(tx, job)
        return Done()

    async def _analyse_next_image(self, job: Job) -> bool:
        """Describe one image when it is the base's turn. Returns whether there was one."""
        async with self._gate.place(jobs.requester(job)):
            next_image = await self._take_next_image(job)
            if next_image is not None:
                await faults.point("assets.taken")
                await self._analyse_image(job, *next_image)
        return next_image is not None

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """Mark the remaining images as failed, in the transaction that buries the job."""
        work = AnalyseAssets.of(job)
        await catalog.lock_base_shared(tx, base_of(job))
        await contents.fail_assets(tx, work.item_id, work.version, error.code, error.message)
        await announce_analysis_done(tx, base_of(job), work.item_id, work.version)

    async def _take_next_image(self, job: Job) -> tuple[Base, WaitingAsset] | None:
        work = AnalyseAssets.of(job)
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, base_of(job))
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, base_of(job))
            if base is None:
                return None
            if (wait := (await waits_for_budgets(tx, [(base.org_id, base.id)])).get(base.id)) is not None:
                raise wait
            if job.interrupted and base.on_restart == "park":
                raise Permanent(
                    "Describing images was interrupted, and this base does not resume automatically. Re-index the item to continue.",
                    code="interrupted",
                )
            asset = await contents.claim_next_asset(
                tx, work.item_id, work.version, mark_asking=self._describer.is_paid
            )
        return None if asset is None else (base, asset)

    async def _analyse_image(self, job: Job, base: Base, asset: WaitingAsset) -> None:
        """Describe one image, and publish or record the result. Raises Transient if it has to be retried later."""
        work = AnalyseAssets.of(job)
        try:
            if asset.asking and self._describer.is_paid:
                raise Permanent(
                    "Describing the image was interrupted, and may have been charged. Re-index the item to try again.",
                    code="vision_uncertain",
                )
            with job.during(Activity.AWAY):
                text = await self._describe(job, asset)
            described: _EmbeddedDescription | None = await self._embed_description(base, asset, text)
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
        while described is not None and not await self._write(job, base, asset, text, described):
            # Another embedder has taken over since: the description is known, and only its vectors are made again.
            async with self._db.connection() as tx:
                switched = await catalog.find_base(tx, base.id)
            base = switched or base
            described = None if switched is None else await self._embed_description(base, asset, text)

    async def _describe(self, job: Job, asset: WaitingAsset) -> str:
        scratch = self._originals.scratch
        with tempfile.TemporaryDirectory(dir=scratch, prefix="gristmill-asset-") as folder:
            path = Path(folder) / "image"
            with path.open("wb") as file:
                async for part in self._originals.blobs.read(asset.blob):
                    await asyncio.to_thread(file.write, part)
            return await self._describer.describe(path, asset.media_type, Path(folder), jobs.requester(job))

    async def _embed_description(self, base: Base, asset: WaitingAsset, text: str) -> "_EmbeddedDescription":
        """The chunks of the description, with vectors. Their indexes are assigned when they are written."""
        async with self._db.connection() as tx:
            embedder = await embedder_of(tx, base, self._embedders)
        await embedder.load()
        limit = token_limit(embedder, base.chunking)
        description = [(text, asset.start, asset.page)]
        chunks = await asyncio.to_thread(description_chunks, description, embedder, limit)
        hashes = [text_hash(chunk.text) for chunk in chunks]
        async with self._db.connection() as tx:
            known = await publish.reusable_vectors(tx, [base.chunk_set], hashes)
        new = [chunk.text for chunk, digest in zip(chunks, hashes, strict=True) if digest not in known]
        for new_text, vector in zip(new, await embed_each(embedder, new), strict=True):
            if isinstance(vector, WorkError):
                raise vector
            known[text_hash(new_text)] = vector
        tokens = sum(token_counter(embedder.tokenizer).counts(new))
        cost = price_of_tokens(tokens, self._embedders.price_of(embedder))
        embedded = [
            Chunk(chunk.index, chunk.text, chunk.start, chunk.end, (), known[digest], chunk.page)
            for chunk, digest in zip(chunks, hashes, strict=True)
        ]
        return _EmbeddedDescription(embedded, Spending(embedder.name, len(new), tokens, cost))

    async def _write(
        self, job: Job, base: Base, asset: WaitingAsset, text: str, described: "_EmbeddedDescription"
    ) -> bool:
        """Publish the image's chunks, if its version is still live. They are lexed before the transaction begins: a segment
        does not contain the indexes that the transaction assigns. False if the base has other vectors by now."""
        work, chunks = AnalyseAssets.of(job), described.chunks
        lexed = VersionChunks(work.item_id, asset.title, work.version, chunks)
        prepared = await asyncio.to_thread(publish.prepare_write, [lexed]) if chunks else None
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, base.id)
            await jobs.fence(tx, job)
            is_live = await catalog.lock_live_version(tx, work.item_id, work.version)
            current = await catalog.find_base(tx, base.id)  # it may be moving to another index since
            if not is_live or current is None:
                return True
            if current.chunk_set != base.chunk_set:
                return False
            first = await publish.next_chunk_index(tx, current.chunk_set, work.item_id, work.version)
            numbered = [replace(chunk, index=first + number) for number, chunk in enumerate(chunks)]
            if prepared is not None:
                written = PreparedWrite([replace(lexed, chunks=numbered)], prepared.segment)
                if current.is_in_engine:  # searches find them in the table until `update_index` has put them
                    await publish.write_unindexed(tx, current, written, with_segment=current.has_segments)
                else:
                    await publish.write(tx, current.chunk_set, written)
            await catalog.mark_missing(tx, [work.item_id])
            await contents.record_description(tx, work.item_id, work.version, asset.hash, text, len(numbered))
            await jobs.reset_attempts(tx, [job])
            spent = [ItemSpending(work.item_id, "image", described.spending)]
            if self._describer.is_paid:
                spent.append(ItemSpending(work.item_id, "vision", self._price_of_image))
            await usage.settle(tx, spent)
            await faults.point("assets.before_commit")
        return True

    async def _finish(self, tx: Tx, job: Job) -> None:
        work = AnalyseAssets.of(job)
        await catalog.lock_base_shared(tx, base_of(job))
        await jobs.fence(tx, job)
        await announce_analysis_done(tx, base_of(job), work.item_id, work.version)
