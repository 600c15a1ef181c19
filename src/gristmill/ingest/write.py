"""write: chunks of many documents in one transaction, and the end of those that are whole with it.

    before        the chunks of a batch are lexed (crew.py), while the batch before is being written
    transaction   the bases' turns are shared → leases proved → versions still wanted → contents, versions and parts
                  kept → rows copied in → what is whole is published, with jobs and events → who became ready
    after         documents are told: written so far, done, no longer wanted, or lost to another worker

Killed before the commit: the rows of this transaction are embedded again, no others. Killed after: they are there, and
the next attempt passes over them. What makes a transaction fail is done again document by document, so that it fails
one of them alone.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from gristmill import catalog, events, faults, jobs, measures
from gristmill.catalog import BaseId, ContentAsset, EmbeddedDocument, NewPart, NewVersion, Whole
from gristmill.db import Database, Tx, Unavailable
from gristmill.errors import LeaseLost
from gristmill.events import DocumentContentExtracted
from gristmill.ingest.crew import Crew
from gristmill.ingest.document import Document
from gristmill.ingest.embed import Ready
from gristmill.ingest.stage import Stage
from gristmill.jobs import NewJob
from gristmill.search import Chunk, publish
from gristmill.search.publish import Prepared, Written
from gristmill.work import AnalyseAssets

BATCHES = 2  # in one transaction
DOCUMENTS = 64  # that are left as they are, in one transaction
Found = TypeVar("Found")


@dataclass(frozen=True)
class _Given:
    document: Document
    chunks: Sequence[Chunk]
    indexes: frozenset[int]
    parts: list[NewPart]
    embedded: Sequence[EmbeddedDocument]
    assets: Sequence[ContentAsset]
    whole: bool  # all of its parts are these, and those written before
    ends: bool


@dataclass(frozen=True)
class _Batch:
    ready: Sequence[Ready]
    prepared: Mapping[BaseId, Prepared]


class Writer:
    """Writes for all documents of a process, one transaction at a time."""

    def __init__(self, db: Database, crew: Crew) -> None:
        self._db, self._crew = db, crew
        self._writing: Stage[_Batch, None] = Stage(self._write, size=BATCHES)
        self._leaving: Stage[Document, None] = Stage(self._leave_unchanged, size=DOCUMENTS)

    async def write(self, ready: Sequence[Ready]) -> None:
        """Write these chunks; every document is told how it went."""
        if not ready:
            return
        try:
            await self._writing.put(_Batch(ready, await self._prepared(ready)))
        except Exception as error:
            if len(ready) == 1 or isinstance(error, Unavailable):
                for one in ready:
                    one.document.fail(error)
            else:
                for one in ready:
                    await self.write([one])

    async def leave_unchanged(self, document: Document) -> None:
        """End a document that would become what answers already."""
        try:
            await self._leaving.put(document)
        except Exception as error:
            document.fail(error)

    # ── one transaction ──────────────────────────────────────────────────────────────────────────────────

    async def _write(self, batches: Sequence[_Batch]) -> list[None]:
        started = time.monotonic()
        given = to_write([one for batch in batches for one in batch.ready])
        prepared = [entry for batch in batches for entry in batch.prepared.items()]
        async with self._db.transaction() as tx:
            live = await self._live(tx, [one.document for one in given])
            writing = [one for one in given if one.document in live]
            await faults.point("write.begun")
            if len(writing) < len(given):  # seldom: then it is done again for the others
                left = _by_base([Ready(one.document, [*one.chunks]) for one in writing])
                prepared = [(base_id, publish.prepare(chunks)) for base_id, chunks in left.items()]
            await self._keep(tx, writing)
            for base_id, chunks in sorted(prepared, key=itemgetter(0)):
                await publish.write(tx, base_id, chunks)
            await jobs.progressed(tx, [one.document.job for one in writing if one.chunks and not one.ends])
            await self._publish(tx, [one.document for one in writing if one.ends])
        took = time.monotonic() - started
        measures.batch("write", len(writing))
        for one in writing:
            _wrote(one, took)
        await faults.point("index.batch_written")
        return [None] * len(batches)

    async def _prepared(self, ready: Sequence[Ready]) -> dict[BaseId, Prepared]:
        return {
            base_id: Prepared(written, await self._crew.lex(*publish.to_lex(written)))
            for base_id, written in _by_base(ready).items()
        }

    async def _leave_unchanged(self, documents: Sequence[Document]) -> list[None]:
        async with self._db.transaction() as tx:
            live = await self._live(tx, documents)
            done = [(document.base.id, document.job, _whole(document)) for document in live]
            if done:
                await events.record(tx, *map(_extracted, live))
                await publish.unchanged(tx, done)
                lanes = {document.item.id: document.base.lane for document in live}
                for again in await catalog.reopen_assets(tx, [d.item.id for d in live if d.assets]):
                    work = AnalyseAssets(again.id, again.version)
                    await jobs.enqueue(tx, NewJob(work, lane=lanes[again.id]))
                await events.announce_ready(tx, [document.base.id for document in live])
        for document in live:
            document.end()
        return [None] * len(documents)

    async def _live(self, tx: Tx, documents: Sequence[Document]) -> dict[Document, None]:
        """Those of the documents that may be written for; the others are told why not."""
        await catalog.share_turns(tx, [document.base.id for document in documents])
        ours = await jobs.fence_all(tx, [document.job for document in documents])
        held = [document for document in documents if document.job.id in ours]
        wanted = await catalog.still_wanted(tx, [document.key for document in held])
        for document in documents:
            if document.job.id not in ours:
                document.fail(LeaseLost(f"job {document.job.id} is no longer ours"))
            elif document.item.id not in wanted:
                document.end()
        return dict.fromkeys(document for document in held if document.item.id in wanted)

    async def _keep(self, tx: Tx, writing: Sequence[_Given]) -> None:
        """Contents first, for versions refer to them; parts only of those that nobody has kept whole."""
        whole = await catalog.keep_contents(tx, [one.document.digest for one in writing])
        await catalog.keep_versions(
            tx,
            [
                NewVersion(
                    one.document.item.id,
                    one.document.version,
                    one.document.digest,
                    one.document.recipe,
                    one.document.original,
                    one.document.validators,
                )
                for one in writing
                if not one.document.kept
            ],
        )
        # Two equal documents in one transaction would bring the same part twice.
        parts = {(part.content, part.start): part for one in writing for part in one.parts}
        await catalog.keep_parts(tx, [part for part in parts.values() if part.content not in whole])
        await catalog.keep_embedded(
            tx, [(one.document.digest, found) for one in writing for found in one.embedded]
        )
        await catalog.keep_assets(
            tx, [(one.document.digest, found) for one in writing for found in one.assets]
        )
        read = [one.document for one in writing if one.whole and one.parts]
        await catalog.complete_contents(tx, _contents(read))

    async def _publish(self, tx: Tx, done: Sequence[Document]) -> None:
        if not done:
            return
        await catalog.complete_contents(tx, _contents(done))
        for document in done:
            await catalog.mark_inline(tx, document.digest, document.inline)
        await events.record(tx, *map(_extracted, done))
        await publish.publish(tx, [(document.base.id, document.job, _whole(document)) for document in done])
        await jobs.enqueue(tx, *map(_analysis, filter(_has_waiting, done)))
        await events.announce_ready(tx, [document.base.id for document in done])
        await faults.point("publish.before_commit")


def _by_base(ready: Sequence[Ready]) -> dict[BaseId, list[Written]]:
    """The chunks of each base, which will share a segment."""
    written: dict[BaseId, list[Written]] = {}
    for one in ready:
        if one.chunks:
            document = one.document
            written.setdefault(document.base.id, []).append(
                Written(document.item.id, document.item.title, document.version, one.chunks)
            )
    return written


def to_write(ready: Sequence[Ready]) -> list[_Given]:
    """What is to be written, and with what each document ends: two batches of one may do that together."""
    given: list[_Given] = []
    fresh: dict[Document, set[int]] = {}
    ended: set[Document] = set()
    for one in ready:
        document = one.document
        indexes = frozenset(chunk.index for chunk in one.chunks)
        parts = [NewPart(document.digest, start, part.text, part.page) for start, part in document.parts]
        new = fresh.setdefault(document, set())
        new |= indexes - document.written
        left = document.count - len(document.written) - len(new)
        ends = document.whole and not left and document not in ended
        if ends:
            ended.add(document)
        inside = tuple(document.unkept), tuple(document.unkept_assets)
        given.append(_Given(document, one.chunks, indexes, parts, *inside, document.whole, ends))
    return given


def _contents(documents: Sequence[Document]) -> dict[bytes, tuple[int, Sequence[str]]]:
    return {document.digest: (document.characters, document.warnings) for document in documents}


def _whole(document: Document) -> Whole:
    warnings = document.warnings
    if not document.count and not warnings and not document.embedded:
        warnings = ["empty"]
    return Whole(
        document.item.id,
        document.version,
        document.count,
        warnings,
        document.size or None,
        document.timeline(),
        tuple(document.images),
    )


def _has_waiting(document: Document) -> bool:
    return any(image.text is None for image in document.images)


def _analysis(document: Document) -> NewJob:
    work = AnalyseAssets(document.item.id, document.version)
    return NewJob(work, lane=document.base.lane, workload=float(sum(one.size for one in document.assets)))


def _extracted(document: Document) -> DocumentContentExtracted:
    return DocumentContentExtracted(document.base.id, document.item.id, document.version, document.characters)


def _wrote(one: _Given, took: float) -> None:
    document = one.document
    document.written |= one.indexes
    document.kept = True
    # By their places: another batch of the same document may have brought them in the same transaction.
    if one.parts:
        last = one.parts[-1].start
        document.parts = [part for part in document.parts if part[0] > last]
    document.unkept = _behind(document.unkept, one.embedded)
    document.unkept_assets = _behind(document.unkept_assets, one.assets)
    document.spent.write += took
    if one.ends:
        document.end()


def _behind(waiting: list[Found], written: Sequence[Found]) -> list[Found]:
    """What came after the last that was written; all, when that is gone from the list already."""
    if written and written[-1] in waiting:
        return waiting[waiting.index(written[-1]) + 1 :]
    return waiting
