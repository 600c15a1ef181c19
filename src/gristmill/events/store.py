"""The tables of events, one function per question or change, in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NewType
from uuid import UUID

from gristmill.db import Queries, Tx
from gristmill.identity import OrgId

queries = Queries(__package__ or "gristmill.events")

SEQUENCE_BATCH = 5_000  # events put in order by one transaction

WebhookId = NewType("WebhookId", UUID)


async def insert_events(tx: Tx, events: str) -> None:
    """Write events, given as a JSON list, and wake who waits for them."""
    await queries.run(tx, "insert", events=events)


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
    """Whether a base has just become ready; keeps others from asking until the transaction ends."""
    row = await queries.one(tx, _ReadyRow, "became_ready", base=base_id)
    return None if row.completed is None or row.failed is None else ReadyCounts(row.completed, row.failed)


async def sequence_batch(tx: Tx) -> int:
    """Put in order what is committed by now; how many, and -1 when another is at it. In a transaction of its own."""
    (count,) = await queries.values(tx, "sequence", limit=SEQUENCE_BATCH)
    return count


async def last_seq(tx: Tx) -> int:
    """The last number that was given, of all organisations."""
    return (await queries.values(tx, "head"))[0]


@dataclass(frozen=True)
class _LastPosition:
    org_id: OrgId
    position: int


async def last_positions(tx: Tx, upto: int) -> dict[OrgId, int]:
    """The last place of each organisation, up to a number."""
    return {row.org_id: row.position for row in await queries.many(tx, _LastPosition, "heads", upto=upto)}


async def oldest_position(tx: Tx, org: OrgId) -> int | None:
    """The first place of an organisation that is not swept yet."""
    return (await queries.values(tx, "oldest", org=org))[0]


async def mark_due_webhooks(tx: Tx, *, after: int, head: int) -> list[WebhookId]:
    """Webhooks that want one of the events in between, marked and locked."""
    return await queries.values(tx, "due_webhooks", after=after, head=head)


@dataclass(frozen=True)
class RecordedEvent:
    """An event as it is read. `place` is its number within its organisation, by which readers know it; `seq` is
    known to nobody outside."""

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
    """Events of all organisations after a number."""
    return await queries.many(tx, RecordedEvent, "news", after=after, limit=limit)


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
    """Events of an organisation after a place in its order; with `before`, those in between, newest first."""
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
    """How far events lag behind."""

    lag_seconds: float
    webhooks: int


async def backlog(tx: Tx) -> Backlog:
    """How old the oldest event without a place is, and how many webhooks have something to deliver."""
    return await queries.one(tx, Backlog, "backlog")


async def sweep(tx: Tx, retention: timedelta) -> int:
    """Forget events older than `retention`; how many, at most a batch."""
    return await queries.run(tx, "sweep", retention=retention)
