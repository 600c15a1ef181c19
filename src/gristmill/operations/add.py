"""add: file new items in a base and ask for their indexing.

inputs          each is checked against its source first, outside the transaction: what can't be read now
                is refused by itself and told, the rest goes on
transaction     base locked and open → room in the queue → rows → one job a row; all of it or nothing
killed before the commit: nothing was added.  Killed after: every row has its job.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog, faults, jobs
from gristmill.catalog import BaseId, Item, NewItem
from gristmill.db import Database
from gristmill.errors import GristmillError, WorkError
from gristmill.jobs import Band, NewJob, QueueLimits
from gristmill.operations import guards
from gristmill.sources import Source
from gristmill.work import IndexDocument

# A handful of items was added by somebody who waits for them; more is an import.
FEW = 10


@dataclass(frozen=True)
class Entry:
    """One thing to add, and where it will be read from."""

    item: NewItem
    source: Source


@dataclass(frozen=True)
class Refused:
    """An entry that can't be added, by its place in the request."""

    index: int
    title: str
    error: GristmillError


@dataclass(frozen=True)
class Added:
    """What was filed, and what was not and why."""

    created: list[Item]
    failed: list[Refused]


async def add(db: Database, base_id: BaseId, entries: Sequence[Entry], limits: QueueLimits) -> Added:
    """File the entries whose sources can be read, and queue their indexing."""
    async with db.connection() as tx:
        await guards.base_exists(tx, base_id)
    accepted, failed = await _probe(entries)
    async with db.transaction() as tx:
        base = await guards.base_is_open(tx, base_id)
        await jobs.check_room(tx, base.lane, len(accepted), limits)
        created = await catalog.insert_items(tx, base.id, None, accepted) if accepted else []
        await faults.point("add.rows_inserted")
        band = Band.INTERACTIVE if len(created) <= FEW else Band.NORMAL
        await jobs.enqueue(
            tx,
            *(
                NewJob(
                    IndexDocument(item.id, item.wanted_version),
                    lane=base.lane,
                    workload=float(item.size_bytes or 0),
                    band=band,
                )
                for item in created
            ),
        )
        await faults.point("add.before_commit")
    return Added(created, failed)


async def _probe(entries: Sequence[Entry]) -> tuple[list[NewItem], list[Refused]]:
    accepted: list[NewItem] = []
    failed: list[Refused] = []
    for index, entry in enumerate(entries):
        try:
            size = await entry.source.probe()
        except WorkError as error:
            failed.append(Refused(index, entry.item.title, error))
        else:
            new = entry.item
            accepted.append(NewItem(new.type, new.title, new.source, new.body, size))
    return accepted, failed
