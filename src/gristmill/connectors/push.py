"""Pushes: a tool calls when something changed in it, and a run starts at once. Runs by schedule stay the safety net.

A call proves that it comes from the tool: by a signature of its body (GitHub, Jira, Confluence), or by the secret itself, in a
header (GitLab) or in the address. The secret is made here, encrypted by the vault, and shown once.

    a push              marks the connector as due, and queues its job unless there is one: one transaction
    a run begins        the mark is removed: what was pushed before is part of this run
    a run ends          if the mark is set again, the next job is queued in the transaction that ends the run
    a run fails         the mark is removed: the schedule, or the next push, tries again
    a run is cancelled  likewise

So any number of pushes leads to one run after the one under way, and runs because of pushes begin at least `RUN_PAUSE` apart.

    killed before a push is committed    nothing happened; the tool got no answer, and calls again or leaves it to the schedule
    killed after it                      mark and job are there
    two pushes at once                   the second waits for the row that the first has locked, and finds its job
    a push while a run ends              the same row is locked by both: the end sees the mark, or the push sees no job and
                                         queues one

The row of `connector_push` is locked before every other row.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from gristmill import faults, jobs
from gristmill.connectors import store
from gristmill.connectors.model import ConnectorId, ConnectorRow
from gristmill.connectors.store import queries
from gristmill.db import Database, Tx
from gristmill.errors import NotFound
from gristmill.jobs import NewJob
from gristmill.vault import ResealedRows, SealedRow, Vault
from gristmill.work import SyncConnector

RUN_PAUSE = timedelta(seconds=10)
_SIGNATURE_HEADERS = ("x-hub-signature-256", "x-hub-signature")
_SIGNATURE_PREFIX = "sha256="
_TOKEN_HEADER = "x-gitlab-token"  # noqa: S105

# "started": a run begins now; "queued": one follows the run under way; "ignored": the connector is paused, or feeds no base.
PushResult = Literal["started", "queued", "ignored"]


@dataclass(frozen=True)
class ConnectorPush:
    """How a connector's tool may push."""

    connector_id: UUID
    secret: bytes
    due: bool
    created_at: datetime
    last_push_at: datetime | None


@dataclass(frozen=True)
class PushCall:
    """A call that says that something changed: its headers in lower case, its body, and the secret in its address."""

    headers: Mapping[str, str]
    body: bytes
    token: str | None = None

    def is_proven_by(self, secret: str) -> bool:
        """Whether the caller knows the secret. Takes as long for a wrong proof as for a right one."""
        digest = hmac.new(secret.encode(), self.body, hashlib.sha256).hexdigest()
        proofs = [(self.headers.get(name), _SIGNATURE_PREFIX + digest) for name in _SIGNATURE_HEADERS]
        proofs += [(self.headers.get(_TOKEN_HEADER), secret), (self.token, secret)]
        results = [
            hmac.compare_digest((proof or "").encode(), expected.encode()) for proof, expected in proofs
        ]
        return any(results)


async def create_secret(db: Database, vault: Vault, connector_id: ConnectorId) -> tuple[ConnectorPush, str]:
    """Let a connector's tool push, with a new secret; the old one is no longer accepted."""
    secret = secrets.token_urlsafe(32)
    async with db.transaction() as tx:
        await _require_connector(tx, connector_id)
        sealed = vault.seal(secret, _purpose(connector_id))
        push = await queries.one(tx, ConnectorPush, "save_push_secret", connector=connector_id, secret=sealed)
    return push, secret


async def remove_secret(db: Database, connector_id: ConnectorId) -> None:
    """Accept no pushes for a connector any more."""
    async with db.transaction() as tx:
        await queries.run(tx, "delete_push", connector=connector_id)


async def find_push(tx: Tx, connector_id: ConnectorId) -> ConnectorPush | None:
    """How a connector's tool may push; None if it may not."""
    return await queries.maybe(tx, ConnectorPush, "push", connector=connector_id)


async def accept(
    db: Database,
    vault: Vault,
    connector_id: ConnectorId,
    call: PushCall,
    check_rate: Callable[[], None] = lambda: None,
) -> PushResult:
    """Have a run begin because of a call. An unknown connector, one without pushes and a wrong proof give the same error.
    `check_rate` is called for right proofs only, so that others can't use up what the tool may send."""
    async with db.connection() as tx:
        push = await find_push(tx, connector_id)
    if push is None:
        call.is_proven_by(secrets.token_urlsafe(32))
        raise _rejection()
    if not call.is_proven_by(vault.open(push.secret, _purpose(connector_id))):
        raise _rejection()
    check_rate()
    async with db.transaction() as tx:
        if await _lock(tx, connector_id) is None:
            raise _rejection()
        connector = await store.find_connector(tx, connector_id)
        if connector is None or not connector.enabled or not connector.base_ids:
            return "ignored"
        await queries.run(tx, "set_push_due", connector=connector_id, due=True)
        starts_now = await _enqueue(tx, connector)
        await faults.point("push.before_commit")
    return "started" if starts_now else "queued"


async def lock(tx: Tx, connector_id: ConnectorId) -> bool:
    """Keep pushes waiting until the transaction ends; whether a run is due. Call it before anything else is locked."""
    return bool(await _lock(tx, connector_id))


async def follow_up(tx: Tx, connector: ConnectorRow) -> None:
    """A run and its job have ended, in this transaction: queue the next one if something was pushed meanwhile."""
    if await _lock(tx, connector.id) and connector.enabled and connector.base_ids:
        await _enqueue(tx, connector)


async def forget(tx: Tx, connector_id: ConnectorId) -> None:
    """No run is due any more: it has begun, or is not wanted."""
    await queries.run(tx, "set_push_due", connector=connector_id, due=False)


async def repair(tx: Tx, limit: int) -> int:
    """For the reconciler: queue jobs that are due and missing; how many."""
    forgotten: list[UUID] = await queries.values(tx, "forgotten_pushes", limit=limit)
    for connector_id in forgotten:
        connector = await store.find_connector(tx, ConnectorId(connector_id))
        if connector is not None and connector.enabled and connector.base_ids:
            await _enqueue(tx, connector)
        else:
            await forget(tx, ConnectorId(connector_id))
    return len(forgotten)


async def reseal_push_secrets(tx: Tx, vault: Vault, after: UUID | None, limit: int) -> ResealedRows:
    """Seal the next secrets by the vault's current key that another one sealed."""
    rows = await queries.many(
        tx, SealedRow, "old_sealed_push_secrets", prefix=vault.prefix, after=after, limit=limit
    )
    unreadable = 0
    for row in rows:
        sealed = vault.reseal(row.sealed, _purpose(ConnectorId(row.id)))
        if sealed is None:
            unreadable += 1
        else:
            await queries.run(tx, "replace_sealed_push_secret", id=row.id, sealed=sealed)
    return ResealedRows(rows[-1].id if rows else None, len(rows), unreadable)


async def _lock(tx: Tx, connector_id: ConnectorId) -> bool | None:
    """Lock the row; whether a run is due, or None if the tool may not push."""
    due: list[bool] = await queries.values(tx, "lock_push", connector=connector_id)
    return due[0] if due else None


async def _enqueue(tx: Tx, connector: ConnectorRow) -> bool:
    """Queue the job of the next run, unless there is one; whether a run starts now."""
    (pause,) = await queries.values(tx, "pause_before_push_run", connector=connector.id, pause=RUN_PAUSE)
    delay = pause if pause else None
    (queued,) = await jobs.enqueue(tx, NewJob(SyncConnector(connector.id), lane=connector.lane, delay=delay))
    return queued.created and delay is None


async def _require_connector(tx: Tx, connector_id: ConnectorId) -> None:
    if await store.find_connector(tx, connector_id) is None:
        raise NotFound(f"There is no connector {connector_id}.", code="connector_not_found")


def _purpose(connector_id: ConnectorId) -> str:
    return f"push:{connector_id}"


def _rejection() -> NotFound:
    return NotFound(
        "The push was rejected: its signature or token does not belong to this connector. Set the secret of the webhook in the"
        " tool to the one that Gristmill showed, or create another.",
        code="push_rejected",
    )
