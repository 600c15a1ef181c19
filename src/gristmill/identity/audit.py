"""The audit log: a row before each request is served, its status after.

So no change is without its row. A row without a status belongs to a process that ended before it responded: its request may or
may not have been carried out.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from gristmill.db import Tx
from gristmill.identity.organisation import OrgId
from gristmill.identity.store import queries

AuditAction = Literal["sign_in", "export", "read", "change"]


@dataclass(frozen=True)
class AuditEntry:
    """A row of `audit`."""

    id: UUID
    at: datetime
    actor: str
    key_id: UUID | None
    role: str
    method: str
    path: str
    client: str | None
    status: int | None
    took_ms: int | None
    action: AuditAction


async def begin(
    tx: Tx,
    org: OrgId,
    *,
    actor: str,
    key_id: UUID | None,
    role: str,
    method: str,
    path: str,
    client: str | None,
    retention: timedelta,
) -> UUID:
    """Log a request before it is served; also deletes some rows past their `retention`, of requests that name no base."""
    await queries.run(tx, "sweep_audit", retention=retention)
    ids = await queries.values(
        tx,
        "begin_audit",
        org=org,
        actor=actor,
        key=key_id,
        role=role,
        method=method,
        path=path,
        client=client,
    )
    return ids[0]


async def record(
    tx: Tx,
    org: OrgId,
    *,
    actor: str,
    role: str,
    method: str,
    path: str,
    status: int,
    key_id: UUID | None = None,
    client: str | None = None,
) -> None:
    """Log a request that is carried out by this transaction."""
    ids = await queries.values(
        tx,
        "begin_audit",
        org=org,
        actor=actor,
        key=key_id,
        role=role,
        method=method,
        path=path,
        client=client,
    )
    await end(tx, ids[0], status, 0)


async def record_sign_in(
    tx: Tx,
    org: OrgId,
    *,
    actor: str,
    role: str,
    status: int,
    path: str = "/api/sign-in",
    key_id: UUID | None = None,
    client: str | None = None,
) -> None:
    """Log that someone signed in, or tried to, in the transaction that opens the session. `path` says how: a path below
    `/api/sign-in`, or `/api/session` with an API key."""
    await record(
        tx, org, actor=actor, role=role, method="POST", path=path, status=status, key_id=key_id, client=client
    )


async def end(tx: Tx, entry: UUID, status: int, took_ms: int) -> None:
    """Log the status of the response."""
    await queries.run(tx, "end_audit", id=entry, status=status, took=took_ms)


async def sweep_of_bases(tx: Tx, retention: timedelta) -> int:
    """Delete rows of bases older than their base's retention, or without one older than `retention`; how many, at most a batch."""
    return await queries.run(tx, "sweep_audit_of_bases", retention=retention)


@dataclass(frozen=True)
class AuditFilter:
    """Which requests: those that match every field. `actor` and `path` are parts of theirs, in any case."""

    actor: str | None = None
    path: str | None = None
    method: str | None = None
    failed: bool = False
    since: datetime | None = None
    until: datetime | None = None
    action: AuditAction | None = None


EVERY_REQUEST = AuditFilter()


async def find_all(
    tx: Tx, org: OrgId, *, limit: int, before: UUID | None = None, chosen: AuditFilter = EVERY_REQUEST
) -> list[AuditEntry]:
    """The requests of an organisation, newest first."""
    return await queries.many(
        tx, AuditEntry, "list_audit", org=org, limit=limit, before=before, **vars(chosen)
    )
