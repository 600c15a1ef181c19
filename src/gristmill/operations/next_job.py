"""The next job of an item: the only place that decides it by the item's type.

container     prepare_root: lists its source, and each child gets its job here too
leaf          index_document
failed        none: it was filed with its error
"""

from collections.abc import Sequence
from datetime import timedelta

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, Item, ItemStatus
from gristmill.db import Tx
from gristmill.errors import Transient
from gristmill.events import ContainerAdded, DocumentUploadCompleted, Event, ItemFailed
from gristmill.jobs import NewJob, Priority, QueueLimits, Snooze
from gristmill.work import IndexDocument, PrepareRoot, ReindexSubtree

_FULL_QUEUE_PAUSE = timedelta(seconds=30)  # the same that the API asks for when the queue is full


async def enqueue_next_jobs(tx: Tx, base: Base, items: Sequence[Item], priority: Priority) -> None:
    """Queue the next job of each active item, in the transaction that made it active. Dead jobs of older versions end:
    they could not be retried any more."""
    await faults.point("schedule.before_enqueue")
    await jobs.dismiss_dead_by_subject(tx, [item.id for item in items if item.wanted_version > 1])
    active = [item for item in items if item.status is not ItemStatus.FAILED]
    await jobs.enqueue(tx, *(_next_job(base, item, priority) for item in active))
    if active:
        await catalog.mark_base_busy(tx, base.id)


async def record_filed_events(tx: Tx, items: Sequence[Item]) -> None:
    """Record the events of items that this transaction filed or replaced."""
    await events.record(tx, *map(_event_for, items))


def _event_for(item: Item) -> Event:
    version = item.wanted_version
    if item.status is ItemStatus.FAILED:
        code, message = item.error_code or "internal", item.error_message or ""
        return ItemFailed(item.base_id, item.id, version, code, message)
    if item.is_container:
        return ContainerAdded(item.base_id, item.id, item.title, item.type, version)
    return DocumentUploadCompleted(item.base_id, item.id, item.title, item.type, version)


async def has_room(tx: Tx, base: Base, limits: QueueLimits | None) -> bool:
    """Whether listings and re-indexes may queue more jobs. With a full queue they wait instead of failing, and do not count
    themselves, because they would wait for each other."""
    return limits is None or not await jobs.is_full(
        tx, base.lane, limits, excluded_kinds=(PrepareRoot.kind, ReindexSubtree.kind)
    )


def pause_until_room(what: str) -> Snooze:
    """The outcome of a job that finds the queue full; `what` continues later, and its item says so meanwhile."""
    reason = Transient(f"The queue is full. {what} when there is room.", code="queue_full")
    return Snooze(_FULL_QUEUE_PAUSE, reason)


def _next_job(base: Base, item: Item, priority: Priority) -> NewJob:
    kind = PrepareRoot if item.is_container else IndexDocument
    return NewJob(
        kind(item.id, item.wanted_version),
        lane=base.lane,
        workload=float(item.size_bytes or 0),
        priority=priority,
    )
