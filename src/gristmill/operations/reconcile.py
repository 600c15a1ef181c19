"""The safety net: looks for what should not be, and puts it right. The job `reconcile`.

A state change and the job that follows from it commit together, so a healthy system gives it nothing to do: what it
finds is damage, and told as such. Suspects are found without a lock. Each base is then looked at again in its turn,
where nobody files, wants or deletes: an item whose job is just being queued is never touched. A transaction repairs at
most `AT_ONCE` of a kind, and tells in the event `Reconciled` what it did.

    found                                                      put right by
    an active item, or an unlisted container, without a job    its job
    a container that is not as its children are                being derived
    images that wait to be described, without a job            its job
    something that is being deleted, without a job             its job
    a base at rest that was not announced as ready             being announced
    a webhook with something to deliver, without a job         its job
    a run of a connector that no job makes                     being ended as failed
    a connector that should run, without a schedule            its schedules
    chunks of versions that never came                         being removed      (thorough passes)

and what nobody uses any more, which is no damage: conversions that no job looks after, blobs half an hour old, events past their retention, and in thorough
passes contents an hour old. A pass is thorough when none was for an hour, or when it is asked for.

Killed anywhere: each repair is whole or was not done, and the next pass finds the rest.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, BaseId, ItemId, UnanalysedItem
from gristmill.catalog.sweep import collect_contents
from gristmill.connectors import admin
from gristmill.db import Database, Tx
from gristmill.errors import Invalid, SetupError
from gristmill.events import Reconciled, webhook_store
from gristmill.events.sequencer import enqueue_deliveries
from gristmill.jobs import Done, Job, JobId, NewJob, Outcome, Priority, Schedule
from gristmill.operations import uploads
from gristmill.operations.conversions import cancel_conversions
from gristmill.operations.invariants import queries
from gristmill.operations.next_job import enqueue_next_jobs
from gristmill.sources.blobs import BlobStore
from gristmill.work import AnalyseAssets, DeleteBase, DeleteSubtree, Reconcile

log = logging.getLogger(__name__)

BATCH_SIZE = 500
LANE = "reconcile"
DAMAGE = ("items", "containers", "deletions", "versions", "announced", "webhooks", "connectors")
UNUSED = ("blobs", "contents", "conversions", "events")
_SUSPECTS = 10_000

RepairCounts = Mapping[str, int]


@dataclass(frozen=True)
class _Suspect:
    id: ItemId
    base_id: BaseId


_ROW_TYPES: dict[str, type[_Suspect | UnanalysedItem]] = {"unanalysed": UnanalysedItem}


def reconcile_schedule(cron: str) -> Schedule:
    """When a pass is made."""
    try:
        jobs.next_time(cron, datetime.now(UTC))
    except Invalid as error:
        raise SetupError(f"reconcile_cron: {error.message}", code="bad_setting") from None
    return Schedule(LANE, cron, Reconcile(), lane=LANE)


async def enqueue_thorough_pass(db: Database) -> JobId:
    """Queue a thorough pass; the job that makes it, or one that is about to."""
    async with db.transaction() as tx:
        (job,) = await jobs.enqueue(tx, NewJob(Reconcile(thorough=True), lane=LANE))
    return job.id


class Reconciler:
    """Makes passes."""

    def __init__(self, db: Database, blobs: BlobStore, event_retention: timedelta) -> None:
        self._db, self._blobs, self._retention = db, blobs, event_retention

    async def reconcile(self, job: Job) -> Outcome:
        """Make a pass; the job's result is what it found."""
        thorough = Reconcile.of(job).thorough
        if not thorough:
            async with self._db.connection() as tx:
                (thorough,) = await queries.values(tx, "none_thorough", kind=Reconcile.kind)
        repairs = await self.run_pass(thorough=thorough)
        async with self._db.transaction() as tx:
            await jobs.save_result(tx, job, {"thorough": thorough, **repairs})
            await jobs.complete(tx, job)
        return Done()

    async def run_pass(self, *, thorough: bool = True) -> RepairCounts:
        """One pass; how much of each kind it put right."""
        repairs = Counter[str](dict.fromkeys((*DAMAGE, *UNUSED), 0))
        for base_id in await self._suspect_bases(thorough):
            repairs.update(await self._repair(base_id, thorough))
        await self._wake_webhooks(repairs)
        await self._repair_connectors(repairs)
        await self._collect_garbage(repairs, thorough)
        damage = {name: repairs[name] for name in DAMAGE if repairs[name]}
        if damage:
            log.error("the reconciler put right what should not have been", extra=damage)
        return dict(repairs)

    async def _suspect_bases(self, thorough: bool) -> list[BaseId]:
        bases: set[BaseId] = set()
        async with self._db.connection() as tx:
            for name in ("stuck", "unsettled", "unremoved", "unanalysed"):
                suspects = await queries.many(
                    tx, _ROW_TYPES.get(name, _Suspect), name, base=None, limit=_SUSPECTS
                )
                bases |= {suspect.base_id for suspect in suspects}
            for name in ("unremoved_bases", "unannounced", *(["leftover_bases"] if thorough else [])):
                bases |= set(await queries.values(tx, name, limit=_SUSPECTS))
        return sorted(bases)

    # ── one base ─────────────────────────────────────────────────────────────────────────────────────────

    async def _repair(self, base_id: BaseId, thorough: bool) -> Counter[str]:
        repairs = Counter[str]()
        has_more = True
        while has_more:
            async with self._db.transaction() as tx:
                base = await catalog.lock_base(tx, base_id)
                step = await (_repair_deleted(tx, base_id) if base is None else _repair(tx, base, thorough))
                if base is not None and step.total():
                    counts = {name: step[name] for name in DAMAGE if name not in ("webhooks", "connectors")}
                    await events.record(tx, Reconciled(base_id, **counts))
                await faults.point("reconcile.before_commit")
            repairs.update(step)
            has_more = any(
                step[name] >= BATCH_SIZE for name in ("items", "containers", "deletions", "versions")
            )
        return repairs

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

    async def _collect_garbage(self, repairs: Counter[str], thorough: bool) -> None:
        async with self._db.connection() as tx:
            await catalog.drop_stale_progress(tx)
            unused = await catalog.find_unused_blobs(tx)
        repairs["blobs"] += len(unused)
        async with self._db.transaction() as tx:
            repairs["conversions"] += await cancel_conversions(
                tx, await catalog.orphan_conversions(tx, BATCH_SIZE)
            )
        await uploads.remove_unused(self._db, self._blobs, unused)
        await uploads.remove_abandoned(self._db, self._blobs)
        has_more = True
        while has_more:
            async with self._db.connection() as tx:
                has_more = bool(swept := await events.sweep(tx, self._retention))
            repairs["events"] += swept
        has_more = thorough
        while has_more:
            async with self._db.transaction() as tx:
                hashes = await queries.values(tx, "unheld_contents", limit=BATCH_SIZE)
                collected = await collect_contents(tx, hashes)
            repairs["contents"] += collected
            has_more = collected == BATCH_SIZE


async def _repair_deleted(tx: Tx, base_id: BaseId) -> Counter[str]:
    """A base that is being deleted has its job."""
    if base_id not in await queries.values(tx, "unremoved_bases", limit=_SUSPECTS):
        return Counter()
    await jobs.enqueue(tx, NewJob(DeleteBase(base_id), lane=str(base_id)))
    return Counter(deletions=1)


async def _repair(tx: Tx, base: Base, thorough: bool) -> Counter[str]:
    """Put right what is wrong in a base, in its turn; containers first, for some only look stuck."""
    step = Counter[str]()
    underived = await queries.many(tx, _Suspect, "unsettled", base=base.id, limit=BATCH_SIZE)
    for container in underived:
        await catalog.derive_status(tx, container.id)
    step["containers"] = len(underived)
    stuck = await queries.values(tx, "stuck", base=base.id, limit=BATCH_SIZE)
    if stuck:
        await enqueue_next_jobs(tx, base, await catalog.find_items(tx, stuck), Priority.NORMAL)
    waiting = await queries.many(tx, UnanalysedItem, "unanalysed", base=base.id, limit=BATCH_SIZE)
    await jobs.enqueue(
        tx, *(NewJob(AnalyseAssets(item.id, item.version), lane=base.lane) for item in waiting)
    )
    step["items"] = len(stuck) + len(waiting)
    roots = await queries.values(tx, "unremoved", base=base.id, limit=BATCH_SIZE)
    if roots:
        await jobs.enqueue(tx, NewJob(DeleteSubtree(base.id, tuple(roots)), lane=base.lane))
    step["deletions"] = len(roots)
    if thorough:
        step["versions"] = len(await queries.values(tx, "drop_leftovers", base=base.id, limit=BATCH_SIZE))
    if not base.ingested:
        await events.announce_ready(tx, [base.id])
        current = await catalog.find_base(tx, base.id)
        step["announced"] = int(current is not None and current.ingested)
    return step
