"""Keeps segments few: the job `tidy_base`.

    small ones          are merged; each chunk is merged some log₂ times on its way into segments of 16,384
    words of another    lexer's recipe, or none: the chunks are lexed anew
    what is gone        is left out of whatever is merged; where it is much, or gone for an hour, its segments are rewritten

What is read can't change meanwhile. The new segment takes the place of the old ones in one fenced transaction, only if all
of them are still there: a search sees either. Killed anywhere before that, nothing happened.
"""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill import catalog, faults, jobs, memory
from gristmill.catalog import BaseId
from gristmill.db import Database
from gristmill.jobs import Done, Job, NewJob, Outcome
from gristmill.search import lexicon, segment, store, upkeep
from gristmill.search.lexer import RECIPE
from gristmill.search.lexicon import Indexed
from gristmill.search.segment import MOST, Arrays, Segment
from gristmill.search.store import SegmentRow
from gristmill.work import TidyBase

MANY = 24  # small segments that are worth a merge
SMALL = MOST // 2
FEW_GONE = 1000
PATIENCE = timedelta(hours=1)
_LEXED_AT_ONCE = 5000


async def ask(db: Database) -> int:
    """Queue the tidying of every base that needs it; how many. Cheap enough to be asked every few seconds."""
    async with db.transaction() as tx:
        untidy = await upkeep.untidy(
            tx, small=SMALL, many=MANY, recipe=RECIPE, few_gone=FEW_GONE, patience=PATIENCE
        )
        queued = await jobs.enqueue(tx, *(NewJob(TidyBase(BaseId(base)), lane=str(base)) for base in untidy))
    return sum(job.created for job in queued)


class Tidier:
    """Tidies bases."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def tidy(self, job: Job) -> Outcome:
        """Do all that is to be done for a base."""
        base_id = TidyBase.of(job).base_id
        while await self._step(job, base_id):
            await asyncio.to_thread(memory.trim)
            await faults.point("tidy.step")
        return Done()

    async def _step(self, job: Job, base_id: BaseId) -> bool:
        async with self._db.connection() as tx:
            if await catalog.find_base(tx, base_id) is None:
                return False
            rows = await store.segments(tx, base_id)
            stale = next((row for row in rows if row.recipe != RECIPE), None)
            chosen = [stale] if stale else plan(rows) or await self._worn(base_id, rows)
        if not chosen:
            return False
        made, lost = await (self._lexed(base_id, chosen[0]) if stale else self._merged(base_id, chosen))
        return await self._replace(job, base_id, chosen, made, lost)

    async def _worn(self, base_id: BaseId, rows: Sequence[SegmentRow]) -> list[SegmentRow]:
        """A segment with so much gone that it is worth to be rewritten by itself."""
        async with self._db.connection() as tx:
            gone = np.array(await upkeep.gone(tx, base_id), np.int64)
            if not len(gone):
                return []
            long = await upkeep.gone_for_long(tx, base_id, PATIENCE)
            for row in rows:
                (stored,) = await store.segment_arrays(tx, base_id, [row.id])
                worn = int(np.isin(np.frombuffer(stored.nos, ">i8"), gone).sum())
                if worn and (long or worn * 10 >= row.chunks):
                    return [row]
            if long:  # numbers that no segment holds
                await upkeep.forget_gone(tx, base_id, gone.tolist())
        return []

    async def _merged(self, base_id: BaseId, rows: Sequence[SegmentRow]) -> tuple[list[Segment], list[int]]:
        ids = [row.id for row in rows]
        async with self._db.connection(large=True) as tx:
            stored = await store.segment_arrays(tx, base_id, ids)
            words = await upkeep.words(tx, base_id, ids)
            gone = np.array(await upkeep.gone(tx, base_id), np.int64)
        parts = [
            (
                segment.load_form(one.nos, one.items, one.lengths, one.codes),
                Indexed.load(one.lexicon, *words[one.id]),
            )
            for one in stored
            if one.id in words
        ]
        languages = frozenset(language for row in rows for language in row.languages)
        made = await asyncio.to_thread(merge, parts, gone, languages)
        nos = np.concatenate([arrays.nos for arrays, _ in parts])
        return [made] if len(made.arrays.nos) else [], np.intersect1d(nos, gone).tolist()

    async def _lexed(self, base_id: BaseId, row: SegmentRow) -> tuple[list[Segment], list[int]]:
        made: list[Segment] = []
        async with self._db.connection() as tx:
            (stored,) = await store.segment_arrays(tx, base_id, [row.id])
            nos: list[int] = np.frombuffer(stored.nos, ">i8").tolist()
            left: list[int] = []
            for start in range(0, len(nos), _LEXED_AT_ONCE):
                words, vectors = await upkeep.to_lex(tx, base_id, nos[start : start + _LEXED_AT_ONCE])
                left += [chunk.no for chunk in words]
                if words:
                    codes = segment.codes_of(vectors)
                    made.append(await asyncio.to_thread(segment.build, words, codes))
        return made, sorted(set(nos) - set(left))

    async def _replace(
        self,
        job: Job,
        base_id: UUID,
        old: Sequence[SegmentRow],
        made: Sequence[Segment],
        lost: Sequence[int],
    ) -> bool:
        async with self._db.transaction(large=True) as tx:
            await jobs.fence(tx, job)
            if await upkeep.drop_segments(tx, base_id, [row.id for row in old]) != len(old):
                raise LookupError("a segment was replaced by somebody else")
            for one in made:
                await store.insert_segment(tx, base_id, one)
            await upkeep.forget_gone(tx, base_id, lost)
            await faults.point("tidy.before_commit")
        return True


def plan(rows: Sequence[SegmentRow]) -> list[SegmentRow]:
    """The segments to merge next: from the smallest up, as long as the next is no larger than all before it."""
    if sum(row.chunks <= SMALL for row in rows) < MANY:
        return []
    chosen: list[SegmentRow] = []
    total = 0
    for row in sorted(rows, key=lambda row: (row.chunks, row.id)):
        if total + row.chunks > MOST or (len(chosen) >= MANY // 2 and row.chunks > total):
            break
        chosen.append(row)
        total += row.chunks
    return chosen if len(chosen) > 1 else []


def merge(
    parts: Sequence[tuple[Arrays, Indexed]], gone: NDArray[np.int64], languages: frozenset[str]
) -> Segment:
    """One segment of what is left of several, one after the other."""
    nos = np.concatenate([arrays.nos for arrays, _ in parts])
    left = np.isin(nos, gone, invert=True)
    moved = np.where(left, np.cumsum(left) - 1, -1)
    starts = itertools.accumulate((len(arrays.nos) for arrays, _ in parts), initial=0)
    words = lexicon.merge(
        [
            (indexed, moved[start : start + len(arrays.nos)])
            for (arrays, indexed), start in zip(parts, starts, strict=False)
        ]
    )
    return Segment(
        Arrays(
            nos[left],
            np.concatenate([arrays.items for arrays, _ in parts])[left],
            np.concatenate([arrays.lengths for arrays, _ in parts])[left],
            np.ascontiguousarray(np.concatenate([arrays.codes for arrays, _ in parts], axis=1)[:, left]),
        ),
        languages,
        words,
    )
