"""Making, changing, syncing, cancelling and deleting connectors.

    create, change      the configuration is checked by its kind; credentials are sealed before they are stored
    sync                one transaction: no other run is open → the job → the run, shown as running; else 409
    cancel              the run ends now, its job is told to stop; what it filed stays, and the next run goes on from there
    delete              purge: what it filed is hidden and removed like any deletion; detach: it stays, and is followed
                        no longer

A connector is of one organisation, and feeds bases of that one alone.

Each is one transaction in the turns of the bases that are concerned. Killed before the commit: nothing was asked; after it:
job, schedule, run and rows are there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, BaseId
from gristmill.catalog.access import parse_acl
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, NotFound
from gristmill.jobs import JobId, NewJob, Priority, Schedule
from gristmill.operations import connection
from gristmill.operations.connection import (
    ConnectorContainer,
    ConnectorId,
    ConnectorIdentity,
    ConnectorRow,
    ConnectorRun,
    Kinds,
    RunId,
)
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.invariants import queries
from gristmill.organisation import LOCAL_ORG, OrgId
from gristmill.vault import Vault
from gristmill.work import SyncAccess, SyncConnector

SCHEDULE = "0 */6 * * *"
ACL_SCHEDULE = "*/30 * * * *"

OnDelete = Literal["purge", "detach"]


@dataclass(frozen=True)
class NewConnector:
    """What is asked for."""

    name: str
    type: str
    config: dict[str, Any]
    credentials: dict[str, Any]
    schedule: str = SCHEDULE
    acl_schedule: str = ACL_SCHEDULE
    enabled: bool = True
    base_ids: Sequence[BaseId] = ()
    acl: Sequence[str] | None = None


@dataclass(frozen=True)
class ConnectorChanges:
    """What is to be changed; None stays as it is. `acl` counts when `acl_given`, for None means the tool's own."""

    name: str | None = None
    config: dict[str, Any] | None = None
    credentials: dict[str, Any] | None = None
    schedule: str | None = None
    acl_schedule: str | None = None
    enabled: bool | None = None
    base_ids: Sequence[BaseId] | None = None
    acl: Sequence[str] | None = None
    acl_given: bool = False
    on_detach: OnDelete = field(default="purge")


def credentials_purpose(connector_id: ConnectorId) -> str:
    """What its credentials are sealed for."""
    return f"connector:{connector_id}"


async def create(
    db: Database, vault: Vault, registry: Kinds, new: NewConnector, org: OrgId = LOCAL_ORG
) -> ConnectorRow:
    """A connector of `org` that runs by its schedule from now on."""
    config, credentials = registry.validate(new.type, new.config, new.credentials)
    _check_crons(new.schedule, new.acl_schedule)
    connector_id = ConnectorId(uuid4())
    now = datetime.now(UTC)
    row = ConnectorRow(
        connector_id, new.name, new.type, config, vault.seal(credentials or "", credentials_purpose(connector_id)), new.schedule,
        new.acl_schedule, new.enabled, None if new.acl is None else parse_acl(new.acl), None, None, None, None, None,
        None, now, now, sorted(set(new.base_ids)), org,
    )  # fmt: skip
    async with db.transaction() as tx:
        await _require_bases(tx, row.base_ids, org)
        created = await connection.insert_connector(tx, row)
        if created is None:
            raise _name_taken(new.name)
        await _put_schedules(tx, created)
        await faults.point("connector.before_commit")
    return created


async def change(
    db: Database,
    vault: Vault,
    registry: Kinds,
    connector_id: ConnectorId,
    changes: ConnectorChanges,
    precondition: Callable[[datetime], None] | None = None,
) -> ConnectorRow:
    """Change a connector. With another configuration, or other bases, the next run reads everything anew, and what is
    there already is skipped by its hash."""
    _check_crons(*filter(None, (changes.schedule, changes.acl_schedule)))
    wanted_bases = None if changes.base_ids is None else set(changes.base_ids)
    async with db.connection() as tx:
        old = await require_connector(tx, connector_id)
        await _require_bases(
            tx, wanted_bases or (), old.org_id
        )  # before the turn of another organisation's is waited for
    config, credentials = None, None
    if changes.config is not None or changes.credentials is not None:
        config, credentials = registry.validate(old.type, changes.config or old.config, changes.credentials)
    sealed_credentials = (
        None if credentials is None else vault.seal(credentials, credentials_purpose(connector_id))
    )
    try:
        async with db.transaction() as tx:
            locked_bases = await _lock_bases(tx, {*old.base_ids, *(wanted_bases or ())})
            await queries.values(tx, "lock_connector", id=connector_id)
            old = await require_connector(tx, connector_id)
            if precondition is not None:
                precondition(old.updated_at)
            if not await _update_row(tx, old, changes, config, sealed_credentials):
                raise _name_taken(changes.name)
            if wanted_bases is not None:
                await _set_bases(tx, old, wanted_bases, locked_bases, changes.on_detach)
            if config is not None and config != old.config:
                await queries.run(tx, "forget_marks", id=connector_id)
            if changes.acl_given:
                await queries.values(tx, "spread_list", connector=connector_id)
            updated = await require_connector(tx, connector_id)
            await _put_schedules(tx, updated)
            await faults.point("connector.before_commit")
    except psycopg.errors.UniqueViolation:  # another got the name at this moment
        raise _name_taken(changes.name) from None
    return updated


async def start_sync(
    db: Database,
    connector_id: ConnectorId,
    *,
    force: bool = False,
    dry_run: bool = False,
    allow_deletions: bool = False,
) -> tuple[JobId, ConnectorRun]:
    """Run a connector now; 409 while a run of it is open."""
    try:
        async with db.transaction() as tx:
            connector = await require_connector(tx, connector_id)
            if not connector.base_ids:
                raise Conflict(
                    "The connector feeds no knowledge base; give it one, then sync.",
                    code="connector_without_base",
                )
            job = NewJob(SyncConnector(connector_id), lane=connector.lane, priority=Priority.INTERACTIVE)
            (queued,) = await jobs.enqueue(tx, job)
            if not queued.created or await connection.find_open_run(tx, connector_id) is not None:
                raise _sync_running(connector)
            if force:
                await queries.run(tx, "forget_marks", id=connector_id)
            run = await connection.begin_run(
                tx,
                connector_id,
                queued.id,
                manual=True,
                force=force,
                dry_run=dry_run,
                allow_deletions=allow_deletions,
            )
            await faults.point("connector.before_commit")
    except psycopg.errors.UniqueViolation:
        raise Conflict("A sync of this connector just began.", code="sync_running") from None
    return queued.id, run


async def cancel_sync(db: Database, connector_id: ConnectorId) -> ConnectorRun:
    """End the open run. What it filed stays; what it did not read is read by the next one."""
    async with db.transaction() as tx:
        connector = await require_connector(tx, connector_id)
        await jobs.cancel_by_subject(tx, [connector_id])
        run = await connection.find_open_run(tx, connector_id)
        if run is None or not await connection.end_run(tx, run.id, "cancelled"):
            raise Conflict(f"No sync of {connector.name!r} is running.", code="sync_not_running")
        await connection.add_log_line(tx, run.id, "Cancelled.", "warning")
        ended = await connection.find_run(tx, run.id)
    assert ended is not None
    return ended


async def delete(db: Database, connector_id: ConnectorId, on_delete: OnDelete) -> None:
    """Forget a connector, its credentials and runs; with `purge`, what it filed is gone from every list and search."""
    async with db.connection() as tx:
        bases = (await require_connector(tx, connector_id)).base_ids
    async with db.transaction() as tx:
        locked_bases = await _lock_bases(tx, bases)
        connector = await require_connector(tx, connector_id)
        await jobs.cancel_by_subject(tx, [connector_id])
        if on_delete == "purge":
            await _purge(tx, locked_bases, await connection.find_containers(tx, connector_id))
        await jobs.remove_schedules(tx, _schedule_names(connector_id))
        await queries.run(tx, "delete_connector", id=connector_id)
        await jobs.clear_lane(tx, connector.lane)
        await faults.point("connector.before_commit")


async def map_identity(
    db: Database, connector_id: ConnectorId, user_id: str, email: str | None
) -> ConnectorIdentity:
    """Say which address an account has here; who sees what follows at once."""
    if email is not None:
        (entry,) = parse_acl([f"user_email:{email}"], field="email")
        email = entry.partition(":")[2]
    async with db.transaction() as tx:
        connector = await require_connector(tx, connector_id)
        await catalog.lock_bases_shared(tx, connector.base_ids)
        identity = await queries.one(
            tx, ConnectorIdentity, "map_identity", connector=connector_id, user=user_id, email=email
        )
        keys = await queries.values(tx, "audiences_of_user", connector=connector_id, user=user_id)
        await connection.apply_audiences(tx, connector_id, keys)
    return identity


async def require_connector(tx: Tx, connector_id: ConnectorId) -> ConnectorRow:
    """The connector of this id, or NotFound."""
    connector = await connection.find_connector(tx, connector_id)
    if connector is None:
        raise NotFound(f"There is no connector {connector_id}.", code="connector_not_found")
    return connector


async def require_run(tx: Tx, run_id: RunId) -> ConnectorRun:
    """The run of this id, or NotFound."""
    run = await connection.find_run(tx, run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.", code="run_not_found")
    return run


async def restore_schedule(tx: Tx, connector_id: ConnectorId) -> None:
    """Give a connector its schedules back, for the reconciler."""
    connector = await connection.find_connector(tx, connector_id)
    if connector is not None:
        await _put_schedules(tx, connector)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────


async def _update_row(
    tx: Tx,
    old: ConnectorRow,
    changes: ConnectorChanges,
    config: dict[str, Any] | None,
    sealed_credentials: bytes | None,
) -> bool:
    return bool(
        await queries.values(
            tx,
            "change_connector",
            id=old.id,
            name=changes.name,
            config=None if config is None else Jsonb(config),
            credentials=sealed_credentials,
            schedule=changes.schedule,
            acl_schedule=changes.acl_schedule,
            enabled=changes.enabled,
            acl_given=changes.acl_given,
            acl=None if changes.acl is None else parse_acl(changes.acl),
        )
    )


async def _set_bases(
    tx: Tx, old: ConnectorRow, base_ids: set[BaseId], locked_bases: dict[BaseId, Base], on_detach: OnDelete
) -> None:
    """Feed exactly these bases from now on."""
    await _require_bases(tx, base_ids, old.org_id)
    detached = await connection.detach_bases(tx, old.id, sorted(set(old.base_ids) - base_ids))
    if on_detach == "purge":
        await _purge(tx, locked_bases, detached)
    if await connection.attach_bases(tx, old.id, sorted(base_ids)):
        await queries.run(tx, "forget_marks", id=old.id)


async def _purge(tx: Tx, locked_bases: dict[BaseId, Base], containers: Sequence[ConnectorContainer]) -> None:
    for container in containers:
        base = locked_bases.get(container.base_id)
        if base is None or container.id is None:
            continue
        if await catalog.find_item(tx, container.id) is not None:
            job_id = await mark_for_deletion(tx, base, [container.id])
            await events.announce_ready(tx, [base.id], cause=job_id)


async def _lock_bases(tx: Tx, bases: Sequence[BaseId] | set[BaseId]) -> dict[BaseId, Base]:
    """The turns of bases, in the order of their ids; those that are not being deleted."""
    locked: dict[BaseId, Base] = {}
    for base_id in sorted(bases):
        base = await catalog.lock_base(tx, base_id)
        if base is not None:
            locked[base_id] = base
    return locked


async def _put_schedules(tx: Tx, connector: ConnectorRow) -> None:
    """Have it run by its schedules while it is enabled, and not otherwise."""
    sync_name, acl_name = _schedule_names(connector.id)
    if not connector.enabled:
        await jobs.remove_schedules(tx, [sync_name, acl_name])
        return
    await jobs.put_schedules(
        tx,
        Schedule(sync_name, connector.schedule, SyncConnector(connector.id), lane=connector.lane),
        Schedule(acl_name, connector.acl_schedule, SyncAccess(connector.id), lane=connector.lane),
    )


def _schedule_names(connector_id: ConnectorId) -> tuple[str, str]:
    return f"connector:{connector_id}", f"connector:{connector_id}:access"


def _check_crons(*crons: str) -> None:
    for cron in crons:
        jobs.next_time(cron, datetime.now(UTC))


async def _require_bases(tx: Tx, bases: Sequence[BaseId] | set[BaseId], org: OrgId) -> None:
    existing = await catalog.find_bases(tx, list(bases))
    for base_id in bases:
        if base_id not in existing or existing[base_id].org_id != org:
            raise NotFound(f"There is no knowledge base {base_id}.", code="base_not_found")


def _name_taken(name: str | None) -> Conflict:
    return Conflict(f"A connector named {name!r} exists already.", code="connector_name_taken")


def _sync_running(connector: ConnectorRow) -> Conflict:
    return Conflict(
        f"A sync of {connector.name!r} is queued or running; wait for it, or cancel it.", code="sync_running"
    )
