"""What was deleted, when, at whose request and why: with hashes, without contents. Written in the transaction that deletes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx
from gristmill.identity.organisation import OrgId

# A person or program, a source that no longer has it, a retention rule, the expiry of a base or file.
DeletionReason = Literal["person", "source", "retention", "expiry"]


@dataclass(frozen=True)
class DeletionRecord:
    """A version of an item that was deleted, or a container."""

    id: UUID
    base_id: BaseId
    base_name: str
    item_id: ItemId
    type: str
    title: str | None
    source: str | None
    version: int | None
    size_bytes: int | None
    content_hash: bytes | None
    original_hash: bytes | None
    reason: DeletionReason
    actor: str | None
    job_id: UUID | None
    requested_at: datetime
    removed_at: datetime


async def record_deleted_items(
    tx: Tx,
    ids: Sequence[ItemId],
    *,
    reason: str,
    actor: str | None,
    job_id: UUID | None,
) -> None:
    """Note that items are deleted by a job. Call it before they are."""
    await queries.run(
        tx,
        "record_deleted_items",
        ids=list(ids),
        reason=reason,
        actor=actor,
        job=job_id,
    )


async def list_deletions(
    tx: Tx,
    org: OrgId,
    *,
    base_id: BaseId | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: UUID | None = None,
    limit: int,
) -> list[DeletionRecord]:
    """What was deleted in an organisation, the oldest first."""
    return await queries.many(
        tx,
        DeletionRecord,
        "list_deletions",
        org=org,
        base=base_id,
        since=since,
        until=until,
        after=after,
        limit=limit,
    )
