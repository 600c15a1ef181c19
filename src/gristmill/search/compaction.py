"""Compacts the segments of a base: the job `tidy_base`.

    small segments                      are merged; a chunk is merged about log₂ times until its segment has 65,536
    segments of another lexer version   are built again from the chunks' texts
    deleted chunks                      are dropped in every merge; a segment is rewritten for them alone if a tenth of
                                        it is deleted, or chunks were deleted more than an hour ago

Segments don't change while they are read. The new segment replaces the old ones in one fenced transaction, and only if
all of them still exist: a search sees either the old or the new ones. If the job is killed before that, nothing changed.
"""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill import catalog, clock, faults, jobs
from gristmill.catalog import BaseId
from gristmill.db import Database, Tx
from gristmill.db.outage import Outage
from gristmill.errors import GristmillError
from gristmill.jobs import Done, Job, NewJob, Outcome
from gristmill.search import compaction_store, inverted_index, segment, segment_store, store
from gristmill.search.inverted_index import InvertedIndex
from gristmill.search.lexer import LEXER_VERSION
from gristmill.search.segment import MAX_CHUNKS, Segment, SegmentArrays
from gristmill.search.store import SegmentRow
from gristmill.telemetry import memory
from gristmill.work import CompactBase

log = logging.getLogger(__name__)

MIN_SMALL_SEGMENTS = 16  # fewer are not worth a merge
SMALL_SEGMENT_CHUNKS = MAX_CHUNKS // 2
MIN_DELETED_CHUNKS = 1000
MAX_DELETED_AGE = timedelta(hours=1)
BASES_PER_CHECK = 250
# How often bases are checked for segments to merge: searches slow down a little with the number of segments.
_CHECK_INTERVAL = timedelta(seconds=3)
_LEX_BATCH = 5000
_NO_LEXER = 2**31 - 1  # a version that no lexer has
_BEFORE_ALL = UUID(int=0)


class CompactionScheduler:
    """Finds the bases that need compaction. A check costs the same however many bases there are: it looks at those with
    segments that are new since the last check, and at the next few of all, in turn."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._newest_segment: int | None = None
        self._last_base = _BEFORE_ALL

    async def queue_due(self) -> int:
        """Queue the compaction of the bases that need it; returns how many. Cheap enough to run every few seconds."""
        async with self._db.transaction() as tx:
            newest, last_base, candidates = await self._candidates(tx)
            queued = await _queue_compactions(tx, candidates)
        self._newest_segment, self._last_base = newest, last_base
        return queued

    async def _candidates(self, tx: Tx) -> tuple[int, UUID, set[UUID]]:
        """The positions after this check, and the bases to look at. What a transaction wrote that committed after a later
        one is found in turn."""
        if self._newest_segment is None:
            newest, changed = await compaction_store.newest_segment(tx), []
        else:
            changed = await compaction_store.bases_with_new_segments(tx, self._newest_segment)
            newest = max((base.newest for base in changed), default=self._newest_segment)
        in_turn = await compaction_store.next_bases(tx, self._last_base, BASES_PER_CHECK)
        last_base = in_turn[-1] if len(in_turn) == BASES_PER_CHECK else _BEFORE_ALL
        return newest, last_base, {*in_turn, *(base.base_id for base in changed)}


async def _queue_compactions(tx: Tx, candidates: Collection[UUID]) -> int:
    base_ids = await compaction_store.bases_to_compact(
        tx,
        sorted(candidates),
        small=SMALL_SEGMENT_CHUNKS,
        min_small=MIN_SMALL_SEGMENTS,
        lexer_version=LEXER_VERSION,
        min_deleted=MIN_DELETED_CHUNKS,
        max_age=MAX_DELETED_AGE,
    )
    queued = await jobs.enqueue(
        tx, *(NewJob(CompactBase(BaseId(base)), lane=str(base)) for base in sorted(base_ids))
    )
    return sum(job.created for job in queued)


async def keep_compacting(db: Database) -> None:
    """Queue compactions until cancelled. Bases that a failed check missed are found by the next one, in any worker. The first
    check is not at once: a process that starts has other things to do."""
    outage, failures = Outage(log, "the database"), Outage(log, "the queueing of compactions")
    scheduler = CompactionScheduler(db)
    while True:
        await clock.pause(_CHECK_INTERVAL)
        try:
            await scheduler.queue_due()
            outage.clear()
            failures.clear()
        except GristmillError as error:
            await outage.wait(error.message)
        except Exception as error:  # a bug must not end the loop: segments would never be merged again
            await failures.wait_unexpected(error)


async def mark_for_rebuild(tx: Tx, set_id: UUID) -> None:
    """Have all segments of a set built again from the chunks' texts. They answer until then."""
    await compaction_store.set_lexer_version(tx, set_id, _NO_LEXER)


class Compactor:
    """Runs the compaction jobs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def compact(self, job: Job) -> Outcome:
        """Compact a base, one step at a time, until nothing is left to do."""
        base_id = CompactBase.of(job).base_id
        async with self._db.connection() as tx:
            sets = await compaction_store.sets_to_compact(tx, base_id)
        for set_id in sets:
            while await self._step(job, base_id, set_id):
                await asyncio.to_thread(memory.trim)
                await faults.point("tidy.step")
        return Done()

    async def _step(self, job: Job, base_id: BaseId, set_id: UUID) -> bool:
        async with self._db.connection() as tx:
            if await catalog.find_base(tx, base_id) is None:
                return False
            rows = await store.list_segments(tx, set_id)
            stale = next((row for row in rows if row.lexer_version != LEXER_VERSION), None)
            chosen = (
                [stale]
                if stale
                else segments_to_merge(rows) or await self._segment_with_deletions(set_id, rows)
            )
        if not chosen:
            return False
        new_segments, dropped_numbers = await (
            self._lex_again(set_id, chosen[0]) if stale else self._merge(set_id, chosen)
        )
        return await self._replace(job, set_id, chosen, new_segments, dropped_numbers)

    async def _segment_with_deletions(self, set_id: UUID, rows: Sequence[SegmentRow]) -> list[SegmentRow]:
        """A segment with enough deleted chunks to be rewritten by itself, in a list; empty if there is none."""
        async with self._db.connection() as tx:
            deleted = np.array(await compaction_store.list_deleted_numbers(tx, set_id), np.int64)
            if not len(deleted):
                return []
            is_overdue = await compaction_store.has_overdue_deletions(tx, set_id, MAX_DELETED_AGE)
            for row in rows:
                (stored,) = await segment_store.read_chunk_arrays(tx, set_id, [row.id])
                deleted_count = int(
                    np.isin(np.frombuffer(stored.nos, ">i8"), deleted, assume_unique=True).sum()
                )
                if deleted_count and (is_overdue or deleted_count * 10 >= row.chunks):
                    return [row]
            if is_overdue:  # no segment contains these numbers
                await compaction_store.forget_deleted(tx, set_id, deleted.tolist())
        return []

    async def _merge(self, set_id: UUID, rows: Sequence[SegmentRow]) -> tuple[list[Segment], list[int]]:
        ids = [row.id for row in rows]
        async with self._db.connection(large=True) as tx:
            stored = await store.read_segment_arrays(tx, set_id, ids)
            postings = await compaction_store.read_all_postings(tx, set_id, ids)
            deleted = np.array(await compaction_store.list_deleted_numbers(tx, set_id), np.int64)
        parts = [
            (
                segment.decode_arrays(stored_row.nos, stored_row.items, stored_row.lengths, stored_row.signs),
                InvertedIndex.load(stored_row.terms, *postings[stored_row.id]),
            )
            for stored_row in stored
            if stored_row.id in postings
        ]
        languages = frozenset(language for row in rows for language in row.languages)
        by_language: Counter[str] = Counter()
        for row in rows:
            by_language.update(row.chunks_by_language)
        merged = await asyncio.to_thread(merge_segments, parts, deleted, languages, by_language)
        nos = np.concatenate([arrays.nos for arrays, _ in parts])
        forgotten: list[int] = nos[np.isin(nos, deleted, assume_unique=True)].tolist()
        return [merged] if len(merged.arrays.nos) else [], forgotten

    async def _lex_again(self, set_id: UUID, row: SegmentRow) -> tuple[list[Segment], list[int]]:
        new_segments: list[Segment] = []
        async with self._db.connection() as tx:
            (stored,) = await segment_store.read_chunk_arrays(tx, set_id, [row.id])
            nos: list[int] = np.frombuffer(stored.nos, ">i8").tolist()
            lexed_numbers: list[int] = []
            for start in range(0, len(nos), _LEX_BATCH):
                texts, vectors = await compaction_store.read_chunks_to_lex(
                    tx, set_id, nos[start : start + _LEX_BATCH]
                )
                lexed_numbers += [chunk.no for chunk in texts]
                if texts:
                    signs = segment.pack_signs(vectors)
                    new_segments.append(await asyncio.to_thread(segment.build, texts, signs))
        return new_segments, sorted(set(nos) - set(lexed_numbers))

    async def _replace(
        self,
        job: Job,
        set_id: UUID,
        old: Sequence[SegmentRow],
        new_segments: Sequence[Segment],
        dropped_numbers: Sequence[int],
    ) -> bool:
        async with self._db.transaction(large=True) as tx:
            await jobs.fence(tx, job)
            if await compaction_store.drop_segments(tx, set_id, [row.id for row in old]) != len(old):
                raise LookupError("another worker replaced a segment")
            for new_segment in new_segments:
                await store.insert_segment(tx, set_id, new_segment)
            await compaction_store.forget_deleted(tx, set_id, dropped_numbers)
            await faults.point("tidy.before_commit")
        return True


def segments_to_merge(rows: Sequence[SegmentRow]) -> list[SegmentRow]:
    """The segments to merge next, from the smallest up, as long as the next one is no larger than all before it
    together."""
    if sum(row.chunks <= SMALL_SEGMENT_CHUNKS for row in rows) < MIN_SMALL_SEGMENTS:
        return []
    selected: list[SegmentRow] = []
    total = 0
    for row in sorted(rows, key=lambda row: (row.chunks, row.id)):
        if total + row.chunks > MAX_CHUNKS or (
            len(selected) >= MIN_SMALL_SEGMENTS // 2 and row.chunks > total
        ):
            break
        selected.append(row)
        total += row.chunks
    return selected if len(selected) > 1 else []


def merge_segments(
    parts: Sequence[tuple[SegmentArrays, InvertedIndex]],
    deleted: NDArray[np.int64],
    languages: frozenset[str],
    chunks_by_language: Mapping[str, int],
) -> Segment:
    """Merge segments into one, without deleted chunks; which languages those were in is not known, so they are taken from
    all languages alike."""
    nos = np.concatenate([arrays.nos for arrays, _ in parts])
    is_left = np.isin(nos, deleted, assume_unique=True, invert=True)
    new_ordinals = np.where(is_left, np.cumsum(is_left) - 1, -1)
    starts = itertools.accumulate((len(arrays.nos) for arrays, _ in parts), initial=0)
    index = inverted_index.merge_indexes(
        [
            (part_index, new_ordinals[start : start + len(arrays.nos)])
            for (arrays, part_index), start in zip(parts, starts, strict=False)
        ]
    )
    return Segment(
        SegmentArrays(
            nos[is_left],
            np.concatenate([arrays.items for arrays, _ in parts])[is_left],
            np.concatenate([arrays.lengths for arrays, _ in parts])[is_left],
            np.ascontiguousarray(np.concatenate([arrays.signs for arrays, _ in parts], axis=1)[:, is_left]),
        ),
        languages,
        index,
        scale_counts(chunks_by_language, int(is_left.sum())),
    )


def scale_counts(counts: Mapping[str, int], total: int) -> dict[str, int]:
    """The counts, scaled to about this sum; none that is left becomes zero unless all do."""
    before = sum(counts.values())
    return {name: max(1, round(count * total / before)) for name, count in counts.items() if total}
