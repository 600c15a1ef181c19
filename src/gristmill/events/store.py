"""Reads and writes the tables of events, in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NewType
from uuid import UUID

from gristmill.db import Queries, Tx, announce_after
from gristmill.identity import OrgId

queries = Queries(__package__ or "gristmill.events")

SEQUENCE_BATCH = 5_000  # events sequenced by one transaction

WebhookId = NewType("WebhookId", UUID)


async def insert_events(tx: Tx, events: str) -> None:
    """Insert events, given as a JSON list, and announce them to the processes that wait for them."""
    await queries.run(tx, "insert_events", events=events)
    announce_after(tx, "event")


@dataclass(frozen=True)
class ReadyCounts:
    """How many documents of a base that became ready are completed, and how many failed."""

    completed: int
    failed: int


@dataclass(frozen=True)
class _ReadyRow:
    completed: int | None
    failed: int | None


async def mark_ready_if_idle(tx: Tx, base_id: UUID) -> ReadyCounts | None:
    """Mark a base as ready if it just became so; its counts then. Serialised per base until the transaction ends."""
    row = await queries.one(tx, _ReadyRow, "mark_ready_if_idle", base=base_id)
    return None if row.completed is None or row.failed is None else ReadyCounts(row.completed, row.failed)


async def sequence_batch(tx: Tx) -> int:
    """Sequence a batch of committed events; how many, or -1 when another process is doing it."""
    (count,) = await queries.values(tx, "sequence_batch", limit=SEQUENCE_BATCH)
    return count


async def last_seq(tx: Tx) -> int:
    """The last `seq`, over all organisations."""
    return (await queries.values(tx, "last_seq"))[0]


@dataclass(frozen=True)
class _LastPosition:
    org_id: OrgId
    position: int


async def last_positions(tx: Tx, upto: int) -> dict[OrgId, int]:
    """The last position of each organisation, up to a `seq`."""
    return {
        row.org_id: row.position for row in await queries.many(tx, _LastPosition, "last_positions", upto=upto)
    }


async def oldest_position(tx: Tx, org: OrgId) -> int | None:
    """The first position of an organisation that is not swept yet."""
    return (await queries.values(tx, "oldest_position", org=org))[0]


async def mark_due_webhooks(tx: Tx, *, after: int, head: int) -> list[WebhookId]:
    """Webhooks that want one of the events in between; their rows are updated and so locked."""
    return await queries.values(tx, "mark_due_webhooks", after=after, head=head)


@dataclass(frozen=True)
class RecordedEvent:
    """An event as it is read. `position` is its number within its organisation, which readers see; `seq` stays internal."""

    seq: int
    org_id: OrgId
    position: int
    base_id: UUID | None
    type: str
    subject: UUID | None
    cause: UUID | None
    data: dict[str, Any]
    at: datetime


async def read_all(tx: Tx, *, after: int, limit: int) -> list[RecordedEvent]:
    """Events of all organisations after a `seq`."""
    return await queries.many(tx, RecordedEvent, "read_all", after=after, limit=limit)


async def read(
    tx: Tx,
    org: OrgId,
    *,
    after: int,
    limit: int,
    before: int | None = None,
    types: Sequence[str] | None = None,
    base_id: UUID | None = None,
) -> list[RecordedEvent]:
    """Events of an organisation after a position; with `before`, those in between, newest first."""
    return await queries.many(
        tx,
        RecordedEvent,
        "events" if before is None else "events_before",
        **({} if before is None else {"before": before}),
        org=org,
        after=after,
        limit=limit,
        types=None if types is None else list(types),
        base=base_id,
    )


@dataclass(frozen=True)
class Backlog:
    """How far sequencing and delivery lag behind."""

    lag_seconds: float
    webhooks: int


async def backlog(tx: Tx) -> Backlog:
    """The age of the oldest event that is not sequenced, and the number of webhooks with something to deliver."""
    return await queries.one(tx, Backlog, "backlog")


async def sweep(tx: Tx, retention: timedelta) -> int:
    """Delete events older than `retention`; how many, at most a batch."""
    return await queries.run(tx, "sweep", retention=retention)


async def sweep_base(tx: Tx, base_id: UUID, days: int) -> int:
    """Delete events of a base older than so many days; how many, at most a batch."""
    return await queries.run(tx, "sweep_base", base=base_id, days=days)
