"""reindex: rebuild subtrees. Never a way to cancel: active work must end first.

before          each root's source is probed, outside the transaction: an item whose source can't be read is refused,
                and stays as it is
transaction     lock the base, which must be open → collapse the selection → every item of every subtree must be completed
                or failed → one job, one event. No status is written here, so a failed request has changed nothing

a subtree is active    reject: the request is refused with the list of active items
                       skip: that root is left out
                       after: the job waits until the subtree is completed or failed
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gristmill import catalog, events, faults, jobs, usage
from gristmill.catalog import BaseId, Item, ItemId, UnfinishedItem
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, GristmillError, WorkError
from gristmill.events import ReindexAccepted
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.sources import Source
from gristmill.work import OnActive, ReindexSubtree

_MAX_PROBES = 16  # sources that one request probes at the same time


class SubtreeActive(Conflict):
    """Something in the selection is active or being deleted; `blocking` lists it."""

    code = "subtree_active"

    def __init__(
        self,
        blocking: Sequence[UnfinishedItem],
        advice: str = "Wait until all items are completed or failed, or set onActive.",
    ) -> None:
        first = blocking[0]
        more = f", and {len(blocking) - 1} more" if len(blocking) > 1 else ""
        super().__init__(f"{first.title!r} is {first.status}{more}. {advice}")
        self.blocking = list(blocking)


@dataclass(frozen=True)
class ReindexResult:
    """The roots to rebuild and the job that does it, and the items refused because of their sources."""

    root_ids: list[ItemId]
    job_id: JobId | None
    refused: Mapping[ItemId, GristmillError]


async def reindex(
    db: Database,
    base_id: BaseId,
    item_ids: Sequence[ItemId],
    sources: Mapping[ItemId, Source],
    on_active: OnActive,
) -> ReindexResult:
    """Queue a re-index of these subtrees; `sources` has the selected items' sources that can be probed."""
    refused = await _probe_sources(sources)
    async with db.transaction() as tx:
        base = await guards.lock_open_base(tx, base_id)
        selected = await guards.outermost_selection(tx, base, item_ids)
        roots = await _reindexable_roots(tx, [item for item in selected if item.id not in refused], on_active)
        if not roots:
            _raise_source_unavailable(selected, refused)
            return ReindexResult([], None, refused)
        await faults.point("reindex.checked")
        work = ReindexSubtree(base.id, tuple(roots), on_active)
        (job,) = await jobs.enqueue(tx, NewJob(work, lane=base.lane))
        await events.record(tx, ReindexAccepted(base.id, tuple(roots)), cause=job.id)
        await usage.name_caller(tx, job.id)
    return ReindexResult(roots, job.id, refused)


async def _probe_sources(sources: Mapping[ItemId, Source]) -> dict[ItemId, GristmillError]:
    """The sources that can't be read now, and why; several are probed at the same time."""
    refused: dict[ItemId, GristmillError] = {}
    slots = asyncio.Semaphore(_MAX_PROBES)

    async def probe(item_id: ItemId, source: Source) -> None:
        async with slots:
            try:
                await source.probe()
            except WorkError as error:
                refused[item_id] = error

    async with asyncio.TaskGroup() as tasks:
        for item_id, source in sources.items():
            tasks.create_task(probe(item_id, source))
    return {item_id: refused[item_id] for item_id in sources if item_id in refused}


async def _reindexable_roots(tx: Tx, selected: Sequence[Item], on_active: OnActive) -> list[ItemId]:
    roots = [item.id for item in selected]
    blocking = await catalog.find_unfinished_items(tx, roots) if roots else []
    if on_active == "after":
        # Work ends with something to rebuild, and so does the deletion of something below; that of the root does not.
        blocking = [item for item in blocking if item.is_deleted_root]
    if blocking and on_active != "skip":
        raise SubtreeActive(blocking)
    active = {item.root for item in blocking}
    return [root for root in roots if root not in active]


def _raise_source_unavailable(selected: Sequence[Item], refused: Mapping[ItemId, GristmillError]) -> None:
    """Raise if the only selected item was refused because of its source; of several, each is in the result."""
    if len(selected) == 1 and selected[0].id in refused:
        error = refused[selected[0].id]
        raise Conflict(
            f"Not re-indexed: {error.message} The current version stays searchable.",
            code="source_unavailable",
        )
