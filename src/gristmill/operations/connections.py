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
from gristmill.catalog.access import checked
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, NotFound
from gristmill.jobs import Band, JobId, NewJob, Schedule
from gristmill.operations import connection
from gristmill.operations.connection import Connector, ConnectorId, Container, Identity, Kinds, Run, RunId
from gristmill.operations.delete import hide
from gristmill.operations.health import queries
from gristmill.organisation import LOCAL, OrgId
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
class Changes:
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


def about(connector_id: ConnectorId) -> str:
    """What its credentials are sealed for."""
    return f"connector:{connector_id}"


async def create(
    db: Database, vault: Vault, kinds: Kinds, new: NewConnector, org: OrgId = LOCAL
) -> Connector:
    """A connector of `org` that runs by its schedule from now on."""
    config, credentials = kinds.checked(new.type, new.config, new.credentials)
    _check_crons(new.schedule, new.acl_schedule)
    connector_id = ConnectorId(uuid4())
    now = datetime.now(UTC)
    row = Connector(
        connector_id, new.name, new.type, config, vault.seal(credentials or "", about(connector_id)), new.schedule,
        new.acl_schedule, new.enabled, None if new.acl is None else checked(new.acl), None, None, None, None, None,
        None, now, now, sorted(set(new.base_ids)), org,
    )  # fmt: skip
    async with db.transaction() as tx:
        await _bases_exist(tx, row.base_ids, org)
        made = await connection.insert(tx, row)
        if made is None:
            raise _taken(new.name)
        await _schedule(tx, made)
        await faults.point("connector.before_commit")
    return made


async def change(
    db: Database,
    vault: Vault,
    kinds: Kinds,
    connector_id: ConnectorId,
    changes: Changes,
    check: Callable[[datetime], None] | None = None,
) -> Connector:
    """Change a connector. With another configuration, or other bases, the next run reads everything anew, and what is
    there already is skipped by its hash."""
    _check_crons(*filter(None, (changes.schedule, changes.acl_schedule)))
    wanted = None if changes.base_ids is None else set(changes.base_ids)
    async with db.connection() as tx:
        old = await known(tx, connector_id)
        await _bases_exist(
            tx, wanted or (), old.org_id
        )  # before the turn of another organisation's is waited for
    config, credentials = None, None
    if changes.config is not None or changes.credentials is not None:
        config, credentials = kinds.checked(old.type, changes.config or old.config, changes.credentials)
    sealed = None if credentials is None else vault.seal(credentials, about(connector_id))
    try:
        async with db.transaction() as tx:
            turns = await _turns(tx, {*old.base_ids, *(wanted or ())})
            await queries.values(tx, "lock_connector", id=connector_id)
            old = await known(tx, connector_id)
            if check is not None:
                check(old.updated_at)
            if not await _write(tx, old, changes, config, sealed):
                raise _taken(changes.name)
            if wanted is not None:
                await _feed(tx, old, wanted, turns, changes.on_detach)
            if config is not None and config != old.config:
                await queries.run(tx, "forget_marks", id=connector_id)
            if changes.acl_given:
                await queries.values(tx, "spread_list", connector=connector_id)
            changed = await known(tx, connector_id)
            await _schedule(tx, changed)
            await faults.point("connector.before_commit")
    except psycopg.errors.UniqueViolation:  # another got the name at this moment
        raise _taken(changes.name) from None
    return changed


async def sync(
    db: Database,
    connector_id: ConnectorId,
    *,
    force: bool = False,
    dry_run: bool = False,
    allow_deletions: bool = False,
) -> tuple[JobId, Run]:
    """Run a connector now; 409 while a run of it is open."""
    try:
        async with db.transaction() as tx:
            connector = await known(tx, connector_id)
            if not connector.base_ids:
                raise Conflict(
                    "The connector feeds no knowledge base; give it one, then sync.",
                    code="connector_without_base",
                )
            job = NewJob(SyncConnector(connector_id), lane=connector.lane, band=Band.INTERACTIVE)
            (queued,) = await jobs.enqueue(tx, job)
            if not queued.created or await connection.open_run(tx, connector_id) is not None:
                raise _running(connector)
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


async def cancel(db: Database, connector_id: ConnectorId) -> Run:
    """End the open run. What it filed stays; what it did not read is read by the next one."""
    async with db.transaction() as tx:
        connector = await known(tx, connector_id)
        await jobs.cancel_about(tx, [connector_id])
        run = await connection.open_run(tx, connector_id)
        if run is None or not await connection.end_run(tx, run.id, "cancelled"):
            raise Conflict(f"No sync of {connector.name!r} is running.", code="sync_not_running")
        await connection.tell(tx, run.id, "Cancelled.", "warning")
        ended = await connection.find_run(tx, run.id)
    assert ended is not None
    return ended


async def delete(db: Database, connector_id: ConnectorId, on_delete: OnDelete) -> None:
    """Forget a connector, its credentials and runs; with `purge`, what it filed is gone from every list and search."""
    async with db.connection() as tx:
        bases = (await known(tx, connector_id)).base_ids
    async with db.transaction() as tx:
        turns = await _turns(tx, bases)
        connector = await known(tx, connector_id)
        await jobs.cancel_about(tx, [connector_id])
        if on_delete == "purge":
            await _purge(tx, turns, await connection.containers(tx, connector_id))
        await jobs.remove_schedules(tx, _names(connector_id))
        await queries.run(tx, "delete_connector", id=connector_id)
        await jobs.clear_lane(tx, connector.lane)
        await faults.point("connector.before_commit")


async def map_identity(db: Database, connector_id: ConnectorId, user_id: str, email: str | None) -> Identity:
    """Say which address an account has here; who sees what follows at once."""
    if email is not None:
        (entry,) = checked([f"user_email:{email}"], field="email")
        email = entry.partition(":")[2]
    async with db.transaction() as tx:
        connector = await known(tx, connector_id)
        await catalog.share_turns(tx, connector.base_ids)
        mapped = await queries.one(
            tx, Identity, "map_identity", connector=connector_id, user=user_id, email=email
        )
        keys = await queries.values(tx, "audiences_of_user", connector=connector_id, user=user_id)
        await connection.spread(tx, connector_id, keys)
    return mapped


async def known(tx: Tx, connector_id: ConnectorId) -> Connector:
    """The connector of this id, or NotFound."""
    found = await connection.find(tx, connector_id)
    if found is None:
        raise NotFound(f"There is no connector {connector_id}.", code="connector_not_found")
    return found


async def known_run(tx: Tx, run_id: RunId) -> Run:
    """The run of this id, or NotFound."""
    found = await connection.find_run(tx, run_id)
    if found is None:
        raise NotFound(f"There is no run {run_id}.", code="run_not_found")
    return found


async def restore_schedule(tx: Tx, connector_id: ConnectorId) -> None:
    """Give a connector its schedules back, for the reconciler."""
    connector = await connection.find(tx, connector_id)
    if connector is not None:
        await _schedule(tx, connector)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────


async def _write(
    tx: Tx, old: Connector, changes: Changes, config: dict[str, Any] | None, sealed: bytes | None
) -> bool:
    return bool(
        await queries.values(
            tx,
            "change_connector",
            id=old.id,
            name=changes.name,
            config=None if config is None else Jsonb(config),
            credentials=sealed,
            schedule=changes.schedule,
            acl_schedule=changes.acl_schedule,
            enabled=changes.enabled,
            acl_given=changes.acl_given,
            acl=None if changes.acl is None else checked(changes.acl),
        )
    )


async def _feed(
    tx: Tx, old: Connector, wanted: set[BaseId], turns: dict[BaseId, Base], on_detach: OnDelete
) -> None:
    """Feed exactly these bases from now on."""
    await _bases_exist(tx, wanted, old.org_id)
    gone = await connection.detach(tx, old.id, sorted(set(old.base_ids) - wanted))
    if on_detach == "purge":
        await _purge(tx, turns, gone)
    if await connection.attach(tx, old.id, sorted(wanted)):
        await queries.run(tx, "forget_marks", id=old.id)


async def _purge(tx: Tx, turns: dict[BaseId, Base], containers: Sequence[Container]) -> None:
    for container in containers:
        base = turns.get(container.base_id)
        if base is None or container.id is None:
            continue
        if await catalog.find_item(tx, container.id) is not None:
            job_id = await hide(tx, base, [container.id])
            await events.announce_ready(tx, [base.id], cause=job_id)


async def _turns(tx: Tx, bases: Sequence[BaseId] | set[BaseId]) -> dict[BaseId, Base]:
    """The turns of bases, in the order of their ids; those that are not being deleted."""
    found: dict[BaseId, Base] = {}
    for base_id in sorted(bases):
        base = await catalog.take_turn(tx, base_id)
        if base is not None:
            found[base_id] = base
    return found


async def _schedule(tx: Tx, connector: Connector) -> None:
    """Have it run by its schedules while it is enabled, and not otherwise."""
    sync_name, acl_name = _names(connector.id)
    if not connector.enabled:
        await jobs.remove_schedules(tx, [sync_name, acl_name])
        return
    await jobs.put_schedules(
        tx,
        Schedule(sync_name, connector.schedule, SyncConnector(connector.id), lane=connector.lane),
        Schedule(acl_name, connector.acl_schedule, SyncAccess(connector.id), lane=connector.lane),
    )


def _names(connector_id: ConnectorId) -> tuple[str, str]:
    return f"connector:{connector_id}", f"connector:{connector_id}:access"


def _check_crons(*crons: str) -> None:
    for cron in crons:
        jobs.next_time(cron, datetime.now(UTC))


async def _bases_exist(tx: Tx, bases: Sequence[BaseId] | set[BaseId], org: OrgId) -> None:
    found = await catalog.find_bases(tx, list(bases))
    for base_id in bases:
        if base_id not in found or found[base_id].org_id != org:
            raise NotFound(f"There is no knowledge base {base_id}.", code="base_not_found")


def _taken(name: str | None) -> Conflict:
    return Conflict(f"A connector named {name!r} exists already.", code="connector_name_taken")


def _running(connector: Connector) -> Conflict:
    return Conflict(
        f"A sync of {connector.name!r} is queued or running; wait for it, or cancel it.", code="sync_running"
    )
