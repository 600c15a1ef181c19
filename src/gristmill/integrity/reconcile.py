"""The safety net: finds what should not exist, and repairs it. The job `reconcile`.

A state change and the job that follows from it commit together, so in a healthy system there is nothing to repair: whatever
this finds is damage, and is logged as such. Suspects are found without a lock. Each suspect base is then locked and looked at
again, so an item whose job is just being queued is never touched. A transaction repairs at most `BATCH_SIZE` of a kind, and
records in the event `Reconciled` what it did.

    found                                                      repair
    an active item, or an unlisted container, without a job    queue its job
    a container whose status is not that of its children       derive it
    images that wait to be described, without a job            queue the job
    something that is being deleted, without a job             queue the job
    a change of an embedder, without a job                     queue the job
    a base without active items that was not announced         announce it as ready
    a webhook with something to deliver, without a job         queue the job
    a run of a connector that no job makes                     end it as failed
    a connector that should run, without a schedule            restore its schedules
    chunks of versions that were never published, or without   delete them            (thorough passes)
      an item or a base
    counts of jobs that differ from the jobs                   correct them           (thorough passes)

It also deletes what bases no longer keep (`operations/retention.py`, in thorough passes), and collects garbage, which is no damage: files and bases that have expired, chunks of earlier embedders past their retention,
conversions that no job checks, blobs that nothing has used for half an hour,
events past their retention, and in thorough passes contents that nothing has used for an hour. A pass is thorough when none
was for an hour, or when someone asks for it. It also queues `sweep_index` for each base in a search engine, and suggests embedders
(`embedder_suggestions.py`).

Killed anywhere: each repair is committed or not, and the next pass finds the rest.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import UUID

from gristmill import catalog, contents, events, faults, jobs, search
from gristmill.catalog import Base, BaseId, ItemId
from gristmill.connectors import admin
from gristmill.db import Database, Tx
from gristmill.embedding import Embedders
from gristmill.errors import Invalid, SetupError
from gristmill.events import Reconciled, webhook_store
from gristmill.events.sequencer import enqueue_deliveries
from gristmill.identity import audit
from gristmill.integrity import store
from gristmill.integrity.embedder_suggestions import record_suggestions
from gristmill.jobs import Done, Job, JobId, NewJob, Outcome, Priority, Schedule
from gristmill.operations import uploads
from gristmill.operations.cancel import cancel_conversions
from gristmill.operations.files import remove_expired
from gristmill.operations.next_job import enqueue_next_jobs
from gristmill.operations.queue import find_stuck_items
from gristmill.operations.retention import apply_retention
from gristmill.operations.swap_embedder import remove_set
from gristmill.search import publish, removal
from gristmill.search.index import tasks
from gristmill.settings import Settings
from gristmill.sources.blobs import BlobStore
from gristmill.work import (
    AnalyseAssets,
    DeleteBase,
    DeleteSubtree,
    Reconcile,
    RemoveChunkSet,
    SwapEmbedder,
    SweepIndex,
)

log = logging.getLogger(__name__)

BATCH_SIZE = 500
LANE = "reconcile"
DAMAGE = ("items", "containers", "deletions", "versions", "announced", "webhooks", "connectors")
UNUSED = ("blobs", "contents", "conversions", "events")
_SUSPECTS = 10_000
_DELETIONS_AT_START = 100  # roots in one transaction

RepairCounts = Mapping[str, int]


def reconcile_schedule(cron: str) -> Schedule:
    """When passes are made."""
    try:
        jobs.next_time(cron, datetime.now(UTC))
    except Invalid as error:
        raise SetupError(f"reconcile_cron: {error.message}", code="bad_setting") from None
    return Schedule(LANE, cron, Reconcile(), lane=LANE)


async def enqueue_thorough_pass(db: Database) -> JobId:
    """Queue a thorough pass; its job, or the one that is queued already."""
    async with db.transaction() as tx:
        (job,) = await jobs.enqueue(tx, NewJob(Reconcile(thorough=True), lane=LANE))
    return job.id


async def recover_deletions(db: Database) -> int:
    """At start-up, queue the removal of everything that is marked as deleting and has no job; how many roots."""
    recovered = 0
    while True:
        async with db.transaction() as tx:
            unremoved = await store.find_unremoved_roots(tx, None, _DELETIONS_AT_START)
            roots: dict[BaseId, list[ItemId]] = {}
            for row in unremoved:
                roots.setdefault(row.base_id, []).append(row.id)
            bases = await store.find_unremoved_bases(tx, _DELETIONS_AT_START)
            await jobs.enqueue(
                tx,
                *(NewJob(DeleteSubtree(base, tuple(ids)), lane=str(base)) for base, ids in roots.items()),
                *(NewJob(DeleteBase(BaseId(base)), lane=str(base)) for base in bases),
            )
        recovered += len(unremoved) + len(bases)
        if len(unremoved) < _DELETIONS_AT_START and len(bases) < _DELETIONS_AT_START:
            return recovered


class Reconciler:
    """Makes passes."""

    def __init__(
        self,
        db: Database,
        blobs: BlobStore,
        event_retention: timedelta,
        swap_retention: timedelta = timedelta(days=7),
        question_retention: timedelta = timedelta(days=30),
        embedders: Embedders | None = None,
        audit_retention: timedelta = timedelta(days=90),
    ) -> None:
        self._db, self._blobs, self._retention = db, blobs, event_retention
        self._swap_retention, self._question_retention = swap_retention, question_retention
        self._embedders, self._audit_retention = embedders, audit_retention

    @classmethod
    def from_settings(cls, db: Database, blobs: BlobStore, settings: Settings, embedders: Embedders) -> Self:
        """One that keeps things for as long as the settings say, and suggests these embedders."""
        retentions = settings.event_retention, settings.swap_retention, settings.question_retention
        return cls(db, blobs, *retentions, embedders, settings.audit_retention)

    async def reconcile(self, job: Job) -> Outcome:
        """Make a pass; the job's result is the number of repairs by kind."""
        thorough = Reconcile.of(job).thorough
        if not thorough:
            async with self._db.connection() as tx:
                thorough = await store.is_thorough_pass_due(tx, Reconcile.kind)
        repairs = await self.run_pass(thorough=thorough)
        async with self._db.transaction() as tx:
            await jobs.save_result(tx, job, {"thorough": thorough, **repairs})
            await jobs.complete(tx, job)
        return Done()

    async def run_pass(self, *, thorough: bool = True) -> RepairCounts:
        """Make one pass; the number of repairs by kind."""
        repairs = Counter[str](dict.fromkeys((*DAMAGE, *UNUSED), 0))
        for base_id in await self._suspect_bases(thorough):
            repairs.update(await self._repair(base_id, thorough))
        if thorough:
            await self._drop_leftover_sets(repairs)
        await self._wake_webhooks(repairs)
        await self._repair_connectors(repairs)
        await self._collect_garbage(repairs, thorough)
        if thorough:
            await apply_retention(self._db)
            await self._sweep_audit()
            await self._queue_sweeps()
            await self._correct_counts()
        if self._embedders is not None:
            await record_suggestions(self._db, self._embedders, thorough=thorough)
        damage = {name: repairs[name] for name in DAMAGE if repairs[name]}
        if damage:
            log.error("the reconciler repaired damage: this is a defect, please report it", extra=damage)
        return dict(repairs)

    async def _sweep_audit(self) -> None:
        has_more = True
        while has_more:
            async with self._db.connection() as tx:
                has_more = bool(await audit.sweep_of_bases(tx, self._audit_retention))

    async def _suspect_bases(self, thorough: bool) -> list[BaseId]:
        async with self._db.connection() as tx:
            rows = [
                *await find_stuck_items(tx, None, _SUSPECTS),
                *await store.find_underived_containers(tx, None, _SUSPECTS),
                *await store.find_unremoved_roots(tx, None, _SUSPECTS),
                *await store.find_unanalysed_items(tx, None, _SUSPECTS),
                *await catalog.find_unswapped(tx, None, _SUSPECTS),
                *await catalog.find_unremoved_sets(tx, None, _SUSPECTS),
            ]
            bases = {row.base_id for row in rows}
            bases |= set(await store.find_unremoved_bases(tx, _SUSPECTS))
            bases |= set(await store.find_unannounced_bases(tx, _SUSPECTS))
            if thorough:
                bases |= set(await store.find_leftover_bases(tx, _SUSPECTS))
        return sorted(bases)

    async def _repair(self, base_id: BaseId, thorough: bool) -> Counter[str]:
        repairs = Counter[str]()
        has_more = True
        while has_more:
            async with self._db.transaction() as tx:
                base = await catalog.lock_base(tx, base_id)
                step = await (
                    _repair_deleting_base(tx, base_id) if base is None else _repair_base(tx, base, thorough)
                )
                if base is not None and step.total():
                    counts = {name: step[name] for name in DAMAGE if name not in ("webhooks", "connectors")}
                    await events.record(tx, Reconciled(base_id, **counts))
                await faults.point("reconcile.before_commit")
            repairs.update(step)
            has_more = any(
                step[name] >= BATCH_SIZE for name in ("items", "containers", "deletions", "versions")
            )
        return repairs

    async def _drop_leftover_sets(self, repairs: Counter[str]) -> None:
        """Delete the chunks of bases that are gone."""
        async with self._db.connection() as tx:
            sets = await store.find_leftover_sets(tx, _SUSPECTS)
        for set_id in sets:
            last: int | None = 0
            while last is not None:
                async with self._db.transaction() as tx:
                    dropped = await removal.drop_chunks(tx, set_id, last)
                repairs["versions"] += dropped.chunks
                last = dropped.last

    async def _wake_webhooks(self, repairs: Counter[str]) -> None:
        has_more = True
        while has_more:
            async with self._db.transaction() as tx:
                orphans = await webhook_store.lock_orphaned(tx, BATCH_SIZE)
                await enqueue_deliveries(tx, *orphans)
            repairs["webhooks"] += len(orphans)
            has_more = bool(orphans)

    async def _repair_connectors(self, repairs: Counter[str]) -> None:
        async with self._db.transaction() as tx:
            repairs["connectors"] += await admin.repair(tx, BATCH_SIZE)

    async def _correct_counts(self) -> None:
        async with self._db.transaction() as tx:
            corrected = await jobs.correct_counts(tx)
        if corrected:
            log.error(
                "the reconciler corrected counts of jobs: this is a defect, please report it",
                extra={"counts": corrected},
            )

    async def _queue_sweeps(self) -> None:
        """Queue the comparison of every base in a search engine with its tables, and drop bases that are gone once more."""
        after: UUID | None = UUID(int=0)
        while after is not None:
            async with self._db.transaction() as tx:
                bases = await tasks.bases_in_engine(tx, after, BATCH_SIZE)
                await jobs.enqueue(tx, *(NewJob(SweepIndex(base), lane=str(base)) for base in bases))
            after = bases[-1] if len(bases) == BATCH_SIZE else None
        async with self._db.transaction() as tx:
            gone = await tasks.drops(tx)
            await tasks.close(tx, [drop.id for drop in gone if drop.is_old])
            await jobs.enqueue(tx, *(NewJob(SweepIndex(drop.base_id), lane=LANE) for drop in gone))

    async def _expire_sets(self) -> None:
        """Queue the removal of chunks that have been kept for long enough."""
        async with self._db.connection() as tx:
            expired = await catalog.find_expired_sets(tx, self._swap_retention, BATCH_SIZE)
        for chunk_set in expired:
            async with self._db.transaction() as tx:
                if await catalog.lock_base(tx, chunk_set.base_id) is not None:
                    still_expired = await catalog.find_expired_sets(tx, self._swap_retention, BATCH_SIZE)
                    if chunk_set in still_expired:
                        await remove_set(tx, chunk_set.base_id, chunk_set.id)

    async def _collect_garbage(self, repairs: Counter[str], thorough: bool) -> None:
        async with self._db.connection() as tx:
            await catalog.drop_stale_progress(tx)
            await search.delete_old_questions(tx, self._question_retention)
            unused = await contents.find_unused_blobs(tx)
        repairs["blobs"] += len(unused)
        await self._expire_sets()
        async with self._db.transaction() as tx:
            orphans = await contents.orphan_conversions(tx, BATCH_SIZE)
            repairs["conversions"] += await cancel_conversions(tx, orphans)
        await remove_expired(self._db, self._blobs)
        await uploads.remove_unused(self._db, self._blobs, unused)
        await uploads.delete_marked(self._db, self._blobs)
        has_more = True
        while has_more:
            async with self._db.connection() as tx:
                has_more = bool(swept := await events.sweep(tx, self._retention))
            repairs["events"] += swept
        has_more = thorough
        while has_more:
            async with self._db.transaction() as tx:
                hashes = await store.find_unused_contents(tx, BATCH_SIZE)
                collected = await contents.collect_contents(tx, hashes)
            repairs["contents"] += collected
            has_more = collected == BATCH_SIZE


async def _repair_deleting_base(tx: Tx, base_id: BaseId) -> Counter[str]:
    """Queue the removal of a base that is being deleted."""
    if base_id not in await store.find_unremoved_bases(tx, _SUSPECTS):
        return Counter()
    await jobs.enqueue(tx, NewJob(DeleteBase(base_id), lane=str(base_id)))
    return Counter(deletions=1)


async def _repair_base(tx: Tx, base: Base, thorough: bool) -> Counter[str]:
    """Repair a locked base; containers first, because some items only look stuck until theirs is derived."""
    step = Counter[str]()
    underived = await store.find_underived_containers(tx, base.id, BATCH_SIZE)
    for container in underived:
        await catalog.derive_status(tx, container.id)
    step["containers"] = len(underived)
    stuck = [row.id for row in await find_stuck_items(tx, base.id, BATCH_SIZE)]
    if stuck:
        await enqueue_next_jobs(tx, base, await catalog.find_items(tx, stuck), Priority.NORMAL)
    waiting = await store.find_unanalysed_items(tx, base.id, BATCH_SIZE)
    await jobs.enqueue(
        tx, *(NewJob(AnalyseAssets(item.id, item.version), lane=base.lane) for item in waiting)
    )
    swaps = await catalog.find_unswapped(tx, base.id, BATCH_SIZE)
    await jobs.enqueue(tx, *(NewJob(SwapEmbedder(base.id), lane=base.lane) for _ in swaps[:1]))
    step["items"] = len(stuck) + len(waiting) + len(swaps[:1])
    roots = [row.id for row in await store.find_unremoved_roots(tx, base.id, BATCH_SIZE)]
    if roots:
        await jobs.enqueue(tx, NewJob(DeleteSubtree(base.id, tuple(roots)), lane=base.lane))
    sets = await catalog.find_unremoved_sets(tx, base.id, BATCH_SIZE)
    await jobs.enqueue(
        tx, *(NewJob(RemoveChunkSet(base.id, chunk_set.id), lane=base.lane) for chunk_set in sets)
    )
    step["deletions"] = len(roots) + len(sets)
    if thorough:
        step["versions"] = await publish.discard_leftovers(tx, base.id, BATCH_SIZE)
    if not base.ingested:
        await events.announce_ready(tx, [base.id])
        current = await catalog.find_base(tx, base.id)
        step["announced"] = int(current is not None and current.ingested)
    return step
