"""Create, change, sync, cancel and delete connectors: what the server and the reconciler use of this package.

    create, change      the registry validates configuration and credentials; credentials are encrypted before they are stored
    start_sync          one transaction: no other run is open → the job → the run, shown as running; else 409
    cancel_sync         the run ends at once and its job is cancelled; what it stored stays, and the next run continues
    delete              purge: what it stored is marked for deletion, like any deletion; detach: it stays and is no longer
                        updated, nor are the groups of the tool that its lists name

A connector belongs to one organisation and feeds bases of that organisation only.

Each of these is one transaction under the locks of the bases concerned. Killed before the commit, nothing happened; killed
after it, job, schedule, run and rows are there.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import uuid4

import psycopg

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, BaseId
from gristmill.catalog.access import parse_acl
from gristmill.connectors import audience_store, group_store, push, store
from gristmill.connectors.document_store import forget_records
from gristmill.connectors.group_store import find_groups
from gristmill.connectors.model import (
    ConnectorChanges,
    ConnectorContainer,
    ConnectorId,
    ConnectorIdentity,
    ConnectorRow,
    ConnectorRun,
    NewConnector,
    OnDelete,
    RunId,
)
from gristmill.connectors.registry import ConnectorRegistry, credentials_purpose
from gristmill.connectors.store import (
    find_connector,
    find_connectors,
    find_failures,
    find_identities,
    find_log_lines,
    find_run,
    find_runs,
)
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, NotFound
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.jobs import JobId, NewJob, Priority, Schedule
from gristmill.operations import guards
from gristmill.operations.delete import mark_for_deletion
from gristmill.vault import Vault
from gristmill.work import SyncAccess, SyncConnector

__all__ = [
    "cancel_sync",
    "change",
    "create",
    "delete",
    "find_connector",
    "find_connectors",
    "find_failures",
    "find_groups",
    "find_identities",
    "find_log_lines",
    "find_run",
    "find_runs",
    "forget_records",
    "map_identity",
    "repair",
    "require_connector",
    "require_run",
    "start_sync",
]


async def create(
    db: Database, vault: Vault, registry: ConnectorRegistry, new: NewConnector, org: OrgId = LOCAL_ORG
) -> ConnectorRow:
    """Create a connector of `org`; its schedules start at once."""
    config, credentials = registry.validate(new.type, new.config, new.credentials)
    _check_crons(new.schedule, new.acl_schedule)
    connector_id = ConnectorId(uuid4())
    now = datetime.now(UTC)
    row = ConnectorRow(
        id=connector_id,
        name=new.name,
        type=new.type,
        config=config,
        credentials=vault.seal(credentials or "", credentials_purpose(connector_id)),
        schedule=new.schedule,
        acl_schedule=new.acl_schedule,
        enabled=new.enabled,
        acl=None if new.acl is None else parse_acl(new.acl),
        last_sync_status=None,
        last_sync_at=None,
        last_sync_error_code=None,
        last_sync_error=None,
        rate_limited_until=None,
        acl_as_of=None,
        created_at=now,
        updated_at=now,
        base_ids=sorted(set(new.base_ids)),
        read_at=now,
        org_id=org,
    )
    async with db.transaction() as tx:
        await _require_bases(tx, row.base_ids, org)
        created = await store.insert_connector(tx, row)
        if created is None:
            raise _name_taken(new.name)
        await _put_schedules(tx, created)
        await faults.point("connector.before_commit")
    return created


async def change(
    db: Database,
    vault: Vault,
    registry: ConnectorRegistry,
    connector_id: ConnectorId,
    changes: ConnectorChanges,
    precondition: Callable[[datetime], None] | None = None,
) -> ConnectorRow:
    """Change a connector. After a change of its configuration or bases the next run reads everything again; documents
    that did not change are skipped by their hash."""
    _check_crons(*filter(None, (changes.schedule, changes.acl_schedule)))
    wanted_bases = None if changes.base_ids is None else set(changes.base_ids)
    async with db.connection() as tx:
        old = await require_connector(tx, connector_id)
        # Before any lock: a base of another organisation must not be waited for.
        await _require_bases(tx, wanted_bases or (), old.org_id)
    config, credentials = None, None
    if changes.config is not None or changes.credentials is not None:
        wanted_config = old.config if changes.config is None else changes.config
        config, credentials = registry.validate(old.type, wanted_config, changes.credentials)
    sealed = None if credentials is None else vault.seal(credentials, credentials_purpose(connector_id))
    try:
        async with db.transaction() as tx:
            locked_bases = await _lock_bases(tx, {*old.base_ids, *(wanted_bases or ())})
            if changes.acl_given and changes.acl is None and old.acl is not None:
                # The tool was not asked while the connector's own list counted.
                await jobs.enqueue(tx, NewJob(SyncAccess(connector_id), lane=old.lane))
            await store.lock_connector(tx, connector_id)
            old = await require_connector(tx, connector_id)
            if precondition is not None:
                precondition(old.updated_at)
            acl = None if changes.acl is None else parse_acl(changes.acl)
            if not await store.update_connector(tx, connector_id, changes, config, sealed, acl):
                raise _name_taken(changes.name)
            if wanted_bases is not None:
                await _set_bases(tx, old, wanted_bases, locked_bases, changes.on_detach)
            if config is not None and config != old.config:
                await store.forget_checkpoints(tx, connector_id)
            if changes.acl_given:
                await audience_store.apply_connector_acl(tx, connector_id)
            updated = await require_connector(tx, connector_id)
            await _put_schedules(tx, updated)
            await faults.point("connector.before_commit")
    except psycopg.errors.UniqueViolation:  # another connector got the name at this moment
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
                    "The connector feeds no knowledge base. Give it one, then sync.",
                    code="connector_without_base",
                )
            job = NewJob(SyncConnector(connector_id), lane=connector.lane, priority=Priority.INTERACTIVE)
            (queued,) = await jobs.enqueue(tx, job)
            if not queued.created or await store.find_open_run(tx, connector_id) is not None:
                raise _sync_running(connector)
            if force and not dry_run:
                await store.forget_checkpoints(tx, connector_id)
            run = await store.begin_run(
                tx,
                connector_id,
                queued.id,
                "manual",
                force=force,
                dry_run=dry_run,
                allow_deletions=allow_deletions,
            )
            await faults.point("connector.before_commit")
    except psycopg.errors.UniqueViolation:
        raise Conflict("A sync of this connector has just started.", code="sync_running") from None
    return queued.id, run


async def cancel_sync(db: Database, connector_id: ConnectorId) -> ConnectorRun:
    """End the open run. What it stored stays; the next run reads the rest."""
    async with db.transaction() as tx:
        await push.lock(tx, connector_id)
        connector = await require_connector(tx, connector_id)
        await push.forget(tx, connector_id)
        await jobs.cancel_by_subject(tx, [connector_id])
        run = await store.find_open_run(tx, connector_id)
        if run is None or not await store.end_run(tx, run.id, "cancelled"):
            raise Conflict(f"No sync of {connector.name!r} is running.", code="sync_not_running")
        await store.add_log_line(tx, run.id, "Cancelled.", "warning")
        ended = await find_run(tx, run.id)
    assert ended is not None
    return ended


async def delete(db: Database, connector_id: ConnectorId, on_delete: OnDelete) -> None:
    """Delete a connector with its credentials and runs; `purge` also removes what it stored from every list and search."""
    async with db.connection() as tx:
        bases = (await require_connector(tx, connector_id)).base_ids
    async with db.transaction() as tx:
        await push.lock(tx, connector_id)
        locked_bases = await _lock_bases(tx, bases)
        connector = await require_connector(tx, connector_id)
        await jobs.cancel_by_subject(tx, [connector_id])
        if on_delete == "purge":
            await _purge(tx, locked_bases, await store.find_containers(tx, connector_id))
        else:
            await group_store.keep_groups(tx, connector_id, connector.base_ids)
        await group_store.release_groups(tx, connector_id)
        await jobs.remove_schedules(tx, _schedule_names(connector_id))
        await store.delete_connector(tx, connector_id)
        await jobs.clear_lane(tx, connector.lane)
        await faults.point("connector.before_commit")


async def map_identity(
    db: Database, connector_id: ConnectorId, user_id: str, email: str | None
) -> ConnectorIdentity:
    """Map an account of the tool to an email address; access follows at once."""
    if email is not None:
        (entry,) = parse_acl([f"user_email:{email}"], field="email")
        email = entry.partition(":")[2]
    async with db.transaction() as tx:
        connector = await require_connector(tx, connector_id)
        await catalog.lock_bases_shared(tx, connector.base_ids)
        identity = await store.map_identity(tx, connector_id, user_id, email)
        keys = await audience_store.audiences_of_user(tx, connector_id, user_id)
        await audience_store.apply_audiences(tx, connector_id, keys)
    return identity


async def require_connector(tx: Tx, connector_id: ConnectorId) -> ConnectorRow:
    """The connector of this id, or NotFound."""
    connector = await find_connector(tx, connector_id)
    if connector is None:
        raise NotFound(f"There is no connector {connector_id}.", code="connector_not_found")
    return connector


async def require_run(tx: Tx, run_id: RunId) -> ConnectorRun:
    """The run of this id, or NotFound."""
    run = await find_run(tx, run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.", code="run_not_found")
    return run


async def repair(tx: Tx, limit: int) -> int:
    """For the reconciler: queue runs that are due, end runs whose job is gone, give connectors back their schedules, and delete
    groups that deleted connectors left and no base needs; how many of all."""
    due_count = await push.repair(tx, limit)
    orphans = await store.find_orphan_runs(tx, limit)
    for run_id in orphans:
        await store.add_log_line(tx, run_id, "The job of this run is gone.", "error")
        await store.end_run(tx, run_id, "failed", code="interrupted", message="The run was interrupted.")
    unscheduled = await store.find_unscheduled_connectors(tx, limit)
    for connector_id in unscheduled:
        connector = await find_connector(tx, connector_id)
        if connector is not None:
            await _put_schedules(tx, connector)
    return due_count + len(orphans) + len(unscheduled) + await group_store.delete_released_groups(tx, limit)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────


async def _set_bases(
    tx: Tx,
    old: ConnectorRow,
    base_ids: set[BaseId],
    locked_bases: dict[BaseId, Base],
    on_detach: OnDelete,
) -> None:
    """Feed exactly these bases from now on."""
    await _require_bases(tx, base_ids, old.org_id)
    detached = await store.detach_bases(tx, old.id, sorted(set(old.base_ids) - base_ids))
    if on_detach == "purge":
        await _purge(tx, locked_bases, detached)
    else:
        await group_store.keep_groups(tx, old.id, [container.base_id for container in detached])
    if await store.attach_bases(tx, old.id, sorted(base_ids)):
        await store.forget_checkpoints(tx, old.id)


async def _purge(tx: Tx, locked_bases: dict[BaseId, Base], containers: Sequence[ConnectorContainer]) -> None:
    for container in containers:
        base = locked_bases.get(container.base_id)
        if base is None or container.item_id is None:
            continue
        if await catalog.find_item(tx, container.item_id) is not None:
            await guards.refuse_held_items(tx, base, [container.item_id])
            job_id = await mark_for_deletion(tx, base, [container.item_id], reason="person")
            await events.announce_ready(tx, [base.id], cause=job_id)


async def _lock_bases(tx: Tx, bases: Sequence[BaseId] | set[BaseId]) -> dict[BaseId, Base]:
    """Lock bases in the order of their ids; those that are not being deleted."""
    locked: dict[BaseId, Base] = {}
    for base_id in sorted(bases):
        base = await catalog.lock_base(tx, base_id)
        if base is not None:
            locked[base_id] = base
    return locked


async def _put_schedules(tx: Tx, connector: ConnectorRow) -> None:
    """Schedule an enabled connector; remove the schedules of a paused one."""
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
        f"A sync of {connector.name!r} is queued or running. Wait for it, or cancel it.", code="sync_running"
    )
