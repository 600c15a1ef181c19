"""Estimate what would be embedded, by reading and chunking as indexing does, without storing anything.

    add         notes, files and pages are read; folders and sitemaps are listed first (estimate_documents.py)
    stored      the stored contents are chunked: what a re-index of unchanged sources, or another embedder, would embed

Everything is read if that takes no longer than `TIME_LIMIT`: then the estimate is exact. Of more documents a sample is read, chosen
by type and size, until the sum is known to `PRECISION` or the time is over; the response says how uncertain the rest is
(estimate_sums.py). A text that is known, or occurs twice, costs nothing, as in indexing; so do files that are equal to others, also
if they are not read. Attachments are read like documents. Images are not described: their descriptions are estimated
(estimate_images.py).
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gristmill import catalog
from gristmill.catalog import Base, ItemId
from gristmill.db import Database
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError
from gristmill.ingest.chunk import token_limit, token_overlap
from gristmill.ingest.estimate_documents import DocumentFinder
from gristmill.ingest.estimate_images import ImageCosts, average_description, find_known_descriptions
from gristmill.ingest.estimate_sums import (
    DocumentTexts,
    EstimatedDocument,
    EstimateSums,
    MeasuredDocument,
    Totals,
    describe_limits,
    reading_order,
    sum_up,
)
from gristmill.ingest.images import description_chunks
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.open import recipe_of
from gristmill.ingest.tokens import token_counter
from gristmill.operations.add import ItemToAdd
from gristmill.operations.estimates import CostEstimate
from gristmill.operations.source_factory import SourceFactory
from gristmill.readers.pool import ReaderPool
from gristmill.search import publish
from gristmill.search.publish import text_hash
from gristmill.usage import list_stored_documents, price_of_tokens

TIME_LIMIT = 30.0  # seconds; a document that is being read then may take half as long again
MAX_READ = 20_000  # documents
PRECISION = 0.03
_CHECKS = frozenset((2_000, 4_000, 8_000, 16_000))  # documents read, when the precision may end the reading
_MAX_FINGERPRINTS = 20_000  # documents
_FINGERPRINT_SECONDS = 10.0
_AT_ONCE = 4
_REUSE_SETS = 16
_HASHES_PER_QUERY = 500


@dataclass(frozen=True)
class _EstimateRun:
    """An estimate in progress."""

    base: Base
    embedder: Embedder
    sets: Sequence[Any]
    order: Sequence[EstimatedDocument]
    state: EstimateSums
    deadline: float


class Estimator:
    """Makes estimates, with the readers of this process."""

    def __init__(
        self,
        db: Database,
        embedders: Embedders,
        sources: SourceFactory,
        readers: ReaderPool,
        images: ImageCosts,
        time_limit: float = TIME_LIMIT,
        max_read: int = MAX_READ,
    ) -> None:
        self._db, self._embedders, self._images = db, embedders, images
        self._finder = DocumentFinder(db, sources, readers)
        self._time_limit, self._max_read = time_limit, max_read
        self._offload = CpuOffload(max_subprocesses=1)

    def close(self) -> None:
        """Stop the threads."""
        self._offload.close()

    async def estimate_add(
        self, base: Base, embedder: Embedder, entries: Sequence[ItemToAdd]
    ) -> CostEstimate:
        """What adding these items would embed."""
        state = EstimateSums()
        documents: list[EstimatedDocument] = []
        for entry in entries:
            documents += await self._finder.find_documents(base, entry, state)
        return await self._measure(base, embedder, documents, state)

    async def estimate_stored(
        self, base: Base, embedder: Embedder, chunking: dict[str, Any], roots: Sequence[ItemId] | None
    ) -> CostEstimate:
        """What embedding the stored contents below these roots, or of the whole base, would take."""
        state = EstimateSums()
        async with self._db.connection() as tx:
            stored = await list_stored_documents(tx, base.id, roots)
        documents: list[EstimatedDocument] = []
        for row in stored:
            merged = {**chunking, **row.chunking}
            if row.recipe != recipe_of(embedder, merged):
                documents.append(self._finder.content_document(row, merged))
            if roots is not None:  # a re-index describes the images that have no description, or all
                state.images += row.images if base.asset_reuse == "force" else row.waiting_images
        unchanged = len(stored) - len(documents)
        if roots is not None:
            state.notes.append(
                "It rests on the contents as they were last read. Of a source that has changed since, the new texts are embedded too."
            )
        estimate = await self._measure(base, embedder, documents, state)
        return replace(
            estimate,
            documents=estimate.documents + unchanged,
            read_documents=estimate.read_documents + unchanged,
        )

    # ── measure ──────────────────────────────────────────────────────────────────────────────────────────

    async def _measure(
        self, base: Base, embedder: Embedder, documents: list[EstimatedDocument], state: EstimateSums
    ) -> CostEstimate:
        if documents:
            await embedder.load()
        async with self._db.connection() as tx:
            sets = await catalog.find_sets_by_embedder(
                tx, base.id, embedder.identity, _REUSE_SETS, base.org_id
            )
        if embedder.identity == base.embedder_identity:
            sets = [base.chunk_set, *sets]
        order = reading_order(documents)
        run = _EstimateRun(base, embedder, sets, order, state, time.monotonic() + self._time_limit)
        queue = iter(order)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(self._read_documents(run, queue))
        await _separate_copies(documents, state)
        return await self._sum_up(run, documents)

    async def _read_documents(self, run: _EstimateRun, queue: Iterator[EstimatedDocument]) -> None:
        state = run.state
        for document in queue:
            if self._is_enough(run):
                state.left.append(document)
                continue
            state.begun += 1
            try:
                async with asyncio.timeout_at(_loop_time(run.deadline + self._time_limit / 2)):
                    content = await document.read()
                    await self._count(run, document, content)
            except TimeoutError:
                state.left.append(document)
            except GristmillError:
                state.failed += 1

    def _is_enough(self, run: _EstimateRun) -> bool:
        """Whether to read no further document. Once it is, it stays so."""
        state = run.state
        if state.left or time.monotonic() > run.deadline or state.begun >= self._max_read:
            return True
        if state.begun not in _CHECKS:
            return False
        return sum_up(replace(state, left=list(run.order[state.begun :]))).uncertainty < PRECISION

    async def _count(self, run: _EstimateRun, document: EstimatedDocument, content: DocumentTexts) -> None:
        embedder, state = run.embedder, run.state
        limit, overlap = token_limit(embedder, document.chunking), token_overlap(embedder, document.chunking)
        known_images = await find_known_descriptions(self._db, run.base, self._images, content.images)
        described = [(text, 0, None) for text in (*content.descriptions, *known_images.values())]
        chunked = await self._offload.chunk_documents(embedder.tokenizer, limit, overlap, content.texts)
        chunks = [chunk.text for document_chunks in chunked for chunk in document_chunks]
        if described:
            images = await asyncio.to_thread(description_chunks, described, embedder, limit)
            chunks += [chunk.text for chunk in images]
        new = {text_hash(text): text for text in chunks}
        is_copy = bool(new) and state.seen.issuperset(new)
        new = {digest: text for digest, text in new.items() if digest not in state.seen}
        state.seen |= new.keys()
        async for known in self._find_known_hashes(run.sets, list(new)):
            new.pop(known, None)
        counts = await asyncio.to_thread(token_counter(embedder.tokenizer).counts, list(new.values()))
        state.failed += content.failed
        waiting = len(content.images) - len(known_images)
        state.measured.append(
            MeasuredDocument(document, len(chunks), len(new), sum(counts), waiting, is_copy)
        )

    async def _find_known_hashes(self, sets: Sequence[Any], hashes: list[bytes]) -> AsyncGenerator[bytes]:
        for start in range(0, len(hashes), _HASHES_PER_QUERY):
            async with self._db.connection() as tx:
                known = await publish.reusable_vectors(
                    tx, list(sets), hashes[start : start + _HASHES_PER_QUERY]
                )
            for digest in known:
                yield digest

    async def _sum_up(self, run: _EstimateRun, documents: Sequence[EstimatedDocument]) -> CostEstimate:
        state = run.state
        totals = sum_up(state)
        if totals.images:
            totals = await self._add_images(run, totals)
        price = self._embedders.price_of(run.embedder)
        cost = None if price is None else float(price_of_tokens(totals.tokens, price))
        if totals.images and self._images.price:
            cost = (cost or 0.0) + totals.images * self._images.price
        return CostEstimate(
            documents=len(documents),
            read_documents=len(state.measured),
            chunks=totals.chunks,
            texts=totals.texts,
            tokens=totals.tokens,
            cost=None if cost is None else round(cost, 6),
            images=totals.images,
            is_exact=not state.left
            and not state.copies
            and not state.failed
            and not totals.images
            and not state.notes,
            uncertainty=round(totals.uncertainty, 3),
            notes=tuple(describe_limits(documents, state, totals.images)),
        )

    async def _add_images(self, run: _EstimateRun, totals: Totals) -> Totals:
        """With the texts of the descriptions to come."""
        average = await average_description(self._db, run.base, run.embedder, self._images)
        texts, tokens = round(totals.images * average.texts), totals.images * average.tokens
        doubt = totals.uncertainty * totals.tokens + average.doubt * tokens
        together = totals.tokens + round(tokens)
        return replace(
            totals,
            chunks=totals.chunks + texts,
            texts=totals.texts + texts,
            tokens=together,
            uncertainty=min(1.0, doubt / together) if together else 0.0,
        )


async def _separate_copies(documents: Sequence[EstimatedDocument], state: EstimateSums) -> None:
    """Sort out the documents that were not read and are equal to others: their texts cost nothing."""
    by_size: dict[int, list[EstimatedDocument]] = defaultdict(list)
    for document in documents:
        if document.fingerprint is not None and document.size:
            by_size[document.size].append(document)
    left = set(map(id, state.left))
    deadline, count = time.monotonic() + _FINGERPRINT_SECONDS, 0
    copies: set[int] = set()
    for group in by_size.values():
        if len(group) < 2 or left.isdisjoint(map(id, group)):
            continue
        prints: set[bytes] = set()
        for document in sorted(
            group, key=lambda document: id(document) in left
        ):  # those that were read first
            if count >= _MAX_FINGERPRINTS or time.monotonic() > deadline:
                break
            count += 1
            fingerprint = await _fingerprint(document)
            if fingerprint in prints and id(document) in left:
                copies.add(id(document))
            prints.add(fingerprint)
    state.copies = [document for document in state.left if id(document) in copies]
    state.left = [document for document in state.left if id(document) not in copies]


async def _fingerprint(document: EstimatedDocument) -> bytes:
    assert document.fingerprint is not None
    try:
        return await document.fingerprint()
    except GristmillError:
        return str(id(document)).encode()  # equal to no other


def _loop_time(monotonic: float) -> float:
    """A time of the monotonic clock as the event loop counts."""
    return asyncio.get_running_loop().time() + monotonic - time.monotonic()
