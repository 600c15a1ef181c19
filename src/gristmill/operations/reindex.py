"""reindex: want subtrees anew. An offline rebuild, never a way to cancel: active work must end first.

before          each root's source is probed, outside the transaction: what is gone or can't be reached is
                refused for that item, and nothing of it is touched
transaction     base's turn and open → outermost selected → every item of every subtree completed or failed
                → one job, one event. No state is written here: what fails to be queued was never begun

a subtree is active    reject: the request is refused, with what is in the way
                       skip: that root is left out
                       after: the job waits until the subtree is at rest
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import BaseId, Item, ItemId, UnfinishedItem
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, GristmillError, WorkError
from gristmill.events import ReindexAccepted
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.sources import Source
from gristmill.work import OnActive, ReindexSubtree

_MAX_PROBES = 16  # sources that one request asks at the same time


class SubtreeActive(Conflict):
    """Something selected is being worked on or deleted; `blocking` says what."""

    code = "subtree_active"

    def __init__(self, blocking: Sequence[UnfinishedItem]) -> None:
        first = blocking[0]
        more = f", and {len(blocking) - 1} more" if len(blocking) > 1 else ""
        super().__init__(
            f"{first.title!r} is {first.status}{more}. Wait until all is completed or failed, or ask with onActive."
        )
        self.blocking = list(blocking)


@dataclass(frozen=True)
class ReindexResult:
    """What will be rebuilt and by which job, and what was refused for its source."""

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
    """Queue the rebuilding of these subtrees; `sources` are those of the selected items that have one."""
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
    return ReindexResult(roots, job.id, refused)


async def _probe_sources(sources: Mapping[ItemId, Source]) -> dict[ItemId, GristmillError]:
    """Which of the sources can't be read now, and why; several are asked at once."""
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
    blocking = await catalog.unfinished_items(tx, roots) if roots else []
    if on_active == "after":
        # Waiting for work to end makes sense; a deletion does not end in something to rebuild.
        blocking = [item for item in blocking if item.status == "deleting"]
    if blocking and on_active != "skip":
        raise SubtreeActive(blocking)
    active = {item.root for item in blocking}
    return [root for root in roots if root not in active]


def _raise_source_unavailable(selected: Sequence[Item], refused: Mapping[ItemId, GristmillError]) -> None:
    """One item whose source is gone is told as that; of several, each in the answer."""
    if len(selected) == 1 and selected[0].id in refused:
        error = refused[selected[0].id]
        raise Conflict(
            f"Not re-indexed: {error.message} What is searchable stays so.", code="source_unavailable"
        )
