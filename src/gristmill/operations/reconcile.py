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
from uuid import UUID

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, BaseId, ItemId, Unanalysed
from gristmill.catalog.sweep import collect_contents
from gristmill.db import Database, Tx
from gristmill.errors import Invalid, SetupError
from gristmill.events import Reconciled, webhook
from gristmill.events.order import wake
from gristmill.jobs import Band, Done, Job, JobId, NewJob, Outcome, Schedule
from gristmill.operations import connection, uploads
from gristmill.operations.connection import RunId
from gristmill.operations.connections import restore_schedule
from gristmill.operations.conversions import call_off
from gristmill.operations.health import queries
from gristmill.operations.schedule import schedule
from gristmill.sources.blobs import Blobs
from gristmill.work import AnalyseAssets, DeleteBase, DeleteSubtree, Reconcile

log = logging.getLogger(__name__)

AT_ONCE = 500
LANE = "reconcile"
DAMAGE = ("items", "containers", "deletions", "versions", "announced", "webhooks", "connectors")
UNUSED = ("blobs", "contents", "conversions", "events")
_SUSPECTS = 10_000

Found = Mapping[str, int]


@dataclass(frozen=True)
class _Suspect:
    id: ItemId
    base_id: BaseId


_KINDS: dict[str, type[_Suspect | Unanalysed]] = {"unanalysed": Unanalysed}


@dataclass(frozen=True)
class _Orphan:
    id: RunId
    connector_id: UUID


def timetable(cron: str) -> Schedule:
    """When a pass is made."""
    try:
        jobs.next_time(cron, datetime.now(UTC))
    except Invalid as error:
        raise SetupError(f"reconcile_cron: {error.message}", code="bad_setting") from None
    return Schedule(LANE, cron, Reconcile(), lane=LANE)


async def ask(db: Database) -> JobId:
    """Queue a thorough pass; the job that makes it, or one that is about to."""
    async with db.transaction() as tx:
        (job,) = await jobs.enqueue(tx, NewJob(Reconcile(thorough=True), lane=LANE))
    return job.id


class Reconciler:
    """Makes passes."""

    def __init__(self, db: Database, blobs: Blobs, event_retention: timedelta) -> None:
        self._db, self._blobs, self._retention = db, blobs, event_retention

    async def reconcile(self, job: Job) -> Outcome:
        """Make a pass; the job's result is what it found."""
        thorough = Reconcile.of(job).thorough
        if not thorough:
            async with self._db.connection() as tx:
                (thorough,) = await queries.values(tx, "none_thorough", kind=Reconcile.kind)
        found = await self.once(thorough=thorough)
        async with self._db.transaction() as tx:
            await jobs.save_result(tx, job, {"thorough": thorough, **found})
            await jobs.complete(tx, job)
        return Done()

    async def once(self, *, thorough: bool = True) -> Found:
        """One pass; how much of each kind it put right."""
        found = Counter[str](dict.fromkeys((*DAMAGE, *UNUSED), 0))
        for base_id in await self._suspected(thorough):
            found.update(await self._repair(base_id, thorough))
        await self._wake_webhooks(found)
        await self._repair_connectors(found)
        await self._collect(found, thorough)
        damage = {name: found[name] for name in DAMAGE if found[name]}
        if damage:
            log.error("the reconciler put right what should not have been", extra=damage)
        return dict(found)

    async def _suspected(self, thorough: bool) -> list[BaseId]:
        bases: set[BaseId] = set()
        async with self._db.connection() as tx:
            for name in ("stuck", "unsettled", "unremoved", "unanalysed"):
                found = await queries.many(tx, _KINDS.get(name, _Suspect), name, base=None, limit=_SUSPECTS)
                bases |= {suspect.base_id for suspect in found}
            for name in ("unremoved_bases", "unannounced", *(["leftover_bases"] if thorough else [])):
                bases |= set(await queries.values(tx, name, limit=_SUSPECTS))
        return sorted(bases)

    # ── one base ─────────────────────────────────────────────────────────────────────────────────────────

    async def _repair(self, base_id: BaseId, thorough: bool) -> Counter[str]:
        found = Counter[str]()
        more = True
        while more:
            async with self._db.transaction() as tx:
                base = await catalog.take_turn(tx, base_id)
                step = await (_repair_deleted(tx, base_id) if base is None else _repair(tx, base, thorough))
                if base is not None and step.total():
                    told = {name: step[name] for name in DAMAGE if name not in ("webhooks", "connectors")}
                    await events.record(tx, Reconciled(base_id, **told))
                await faults.point("reconcile.before_commit")
            found.update(step)
            more = any(step[name] >= AT_ONCE for name in ("items", "containers", "deletions", "versions"))
        return found

    async def _wake_webhooks(self, found: Counter[str]) -> None:
        more = True
        while more:
            async with self._db.transaction() as tx:
                forsaken = await webhook.forsaken(tx, AT_ONCE)
                await wake(tx, *forsaken)
            found["webhooks"] += len(forsaken)
            more = bool(forsaken)

    async def _repair_connectors(self, found: Counter[str]) -> None:
        async with self._db.transaction() as tx:
            orphans = await queries.many(tx, _Orphan, "orphan_runs", limit=AT_ONCE)
            for orphan in orphans:
                await connection.tell(tx, orphan.id, "No job makes this run any more.", "error")
                await connection.end_run(
                    tx, orphan.id, "failed", code="interrupted", message="The run was interrupted."
                )
            idle = await queries.values(tx, "unscheduled", limit=AT_ONCE)
            for connector_id in idle:
                await restore_schedule(tx, connector_id)
        found["connectors"] += len(orphans) + len(idle)

    async def _collect(self, found: Counter[str], thorough: bool) -> None:
        async with self._db.connection() as tx:
            await catalog.drop_progress(tx)
            unused = await catalog.unused_blobs(tx)
        found["blobs"] += len(unused)
        async with self._db.transaction() as tx:
            found["conversions"] += await call_off(tx, await catalog.forsaken_conversions(tx, AT_ONCE))
        await uploads.release(self._db, self._blobs, unused)
        await uploads.empty_store(self._db, self._blobs)
        more = True
        while more:
            async with self._db.connection() as tx:
                more = bool(swept := await events.sweep(tx, self._retention))
            found["events"] += swept
        more = thorough
        while more:
            async with self._db.transaction() as tx:
                hashes = await queries.values(tx, "unheld_contents", limit=AT_ONCE)
                collected = await collect_contents(tx, hashes)
            found["contents"] += collected
            more = collected == AT_ONCE


async def _repair_deleted(tx: Tx, base_id: BaseId) -> Counter[str]:
    """A base that is being deleted has its job."""
    if base_id not in await queries.values(tx, "unremoved_bases", limit=_SUSPECTS):
        return Counter()
    await jobs.enqueue(tx, NewJob(DeleteBase(base_id), lane=str(base_id)))
    return Counter(deletions=1)


async def _repair(tx: Tx, base: Base, thorough: bool) -> Counter[str]:
    """Put right what is wrong in a base, in its turn; containers first, for some only look stuck."""
    step = Counter[str]()
    unsettled = await queries.many(tx, _Suspect, "unsettled", base=base.id, limit=AT_ONCE)
    for container in unsettled:
        await catalog.settle(tx, container.id)
    step["containers"] = len(unsettled)
    stuck = await queries.values(tx, "stuck", base=base.id, limit=AT_ONCE)
    if stuck:
        await schedule(tx, base, await catalog.find_items(tx, stuck), Band.NORMAL)
    waiting = await queries.many(tx, Unanalysed, "unanalysed", base=base.id, limit=AT_ONCE)
    await jobs.enqueue(tx, *(NewJob(AnalyseAssets(one.id, one.version), lane=base.lane) for one in waiting))
    step["items"] = len(stuck) + len(waiting)
    roots = await queries.values(tx, "unremoved", base=base.id, limit=AT_ONCE)
    if roots:
        await jobs.enqueue(tx, NewJob(DeleteSubtree(base.id, tuple(roots)), lane=base.lane))
    step["deletions"] = len(roots)
    if thorough:
        step["versions"] = len(await queries.values(tx, "drop_leftovers", base=base.id, limit=AT_ONCE))
    if not base.ingested:
        await events.announce_ready(tx, [base.id])
        now = await catalog.find_base(tx, base.id)
        step["announced"] = int(now is not None and now.ingested)
    return step
