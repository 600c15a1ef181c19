"""Connectors, runs, run logs and identities in the database: one function per statement, in the caller's transaction.

Locks are taken in this order: bases, jobs, items, lanes, then the rows of this package.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from psycopg.types.json import Jsonb

from gristmill import jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.connectors.model import (
    ConnectorChanges,
    ConnectorContainer,
    ConnectorId,
    ConnectorIdentity,
    ConnectorRow,
    ConnectorRun,
    FailedDocument,
    RunId,
    RunLogLevel,
    RunLogLine,
    RunStage,
    RunStatus,
    RunTrigger,
)
from gristmill.db import Queries, Tx
from gristmill.identity import OrgId
from gristmill.jobs import JobId

queries = Queries(__package__ or "gristmill.connectors")

_MAX_LOG_LINE = 2000

# ── connectors ───────────────────────────────────────────────────────────────────────────────────────────


async def insert_connector(tx: Tx, connector: ConnectorRow) -> ConnectorRow | None:
    """Insert a connector with its bases; None when the organisation has one of that name."""
    inserted = await queries.maybe(
        tx,
        ConnectorRow,
        "insert_connector",
        id=connector.id,
        org=connector.org_id,
        name=connector.name,
        type=connector.type,
        config=Jsonb(connector.config),
        credentials=connector.credentials,
        schedule=connector.schedule,
        acl_schedule=connector.acl_schedule,
        enabled=connector.enabled,
        acl=connector.acl,
    )
    if inserted is None:
        return None
    await jobs.set_lane_owner(tx, inserted.lane, inserted.org_id)
    await attach_bases(tx, inserted.id, connector.base_ids)
    return replace(inserted, base_ids=sorted(connector.base_ids))


async def update_connector(
    tx: Tx,
    connector_id: ConnectorId,
    changes: ConnectorChanges,
    config: dict[str, Any] | None,
    credentials: bytes | None,
    acl: list[str] | None,
) -> bool:
    """Change what is given; False when another connector has the name."""
    updated = await queries.values(
        tx,
        "update_connector",
        id=connector_id,
        name=changes.name,
        config=None if config is None else Jsonb(config),
        credentials=credentials,
        schedule=changes.schedule,
        acl_schedule=changes.acl_schedule,
        enabled=changes.enabled,
        acl_given=changes.acl_given,
        acl=acl,
    )
    return bool(updated)


async def lock_connector(tx: Tx, connector_id: ConnectorId) -> None:
    """Keep others from changing the connector until the transaction ends."""
    await queries.values(tx, "lock_connector", id=connector_id)


class ConnectorChanged(Exception):
    """Someone changed a connector since its row was read: what was read by the old row is not stored."""


async def require_unchanged(tx: Tx, row: ConnectorRow) -> None:
    """Keep the connector as it is until the transaction ends; ConnectorChanged if it is no longer that of `row`."""
    await queries.values(tx, "share_connector", id=row.id)
    current = await find_connector(tx, row.id)
    if current is None or _read_by(current) != _read_by(row):
        raise ConnectorChanged


def _read_by(row: ConnectorRow) -> tuple[object, ...]:
    """What decides what is read and where it is stored. Not the credentials: a tool replaces them in the middle of a run."""
    return row.acl, row.config, row.base_ids


async def delete_connector(tx: Tx, connector_id: ConnectorId) -> None:
    """Delete a connector with everything known about its documents and runs."""
    await queries.run(tx, "delete_connector", id=connector_id)


async def find_connector(tx: Tx, connector_id: ConnectorId) -> ConnectorRow | None:
    """One connector."""
    return await queries.maybe(tx, ConnectorRow, "connector", id=connector_id)


async def find_connectors(
    tx: Tx,
    org: OrgId,
    *,
    limit: int,
    after: ConnectorId | None = None,
    name: str | None = None,
    base_id: BaseId | None = None,
) -> list[ConnectorRow]:
    """Connectors of an organisation, oldest first."""
    return await queries.many(
        tx, ConnectorRow, "connectors", org=org, limit=limit, after=after, name=name, base=base_id
    )


async def find_unscheduled_connectors(tx: Tx, limit: int) -> list[ConnectorId]:
    """Enabled connectors without a schedule."""
    return await queries.values(tx, "unscheduled_connectors", limit=limit)


async def forget_checkpoints(tx: Tx, connector_id: ConnectorId) -> None:
    """Have the open run, or the next one, read every stream from its beginning."""
    await queries.run(tx, "forget_checkpoints", id=connector_id)


# ── bases and containers ─────────────────────────────────────────────────────────────────────────────────


async def attach_bases(tx: Tx, connector_id: ConnectorId, bases: Sequence[BaseId]) -> list[BaseId]:
    """Feed these bases too; the bases that were not fed before."""
    return await queries.values(tx, "attach_bases", id=connector_id, bases=list(bases))


async def detach_bases(
    tx: Tx, connector_id: ConnectorId, bases: Sequence[BaseId]
) -> list[ConnectorContainer]:
    """Stop feeding these bases; the containers there."""
    return await queries.many(tx, ConnectorContainer, "detach_bases", id=connector_id, bases=list(bases))


async def find_containers(tx: Tx, connector_id: ConnectorId) -> list[ConnectorContainer]:
    """The containers of a connector, by base."""
    return await queries.many(tx, ConnectorContainer, "containers", connector=connector_id)


async def set_container(tx: Tx, connector_id: ConnectorId, base_id: BaseId, item_id: ItemId) -> None:
    """The connector now has a container in the base."""
    await queries.run(tx, "set_container", connector=connector_id, base=base_id, item=item_id)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class RunProgress:
    """What a run did since its counters were last raised."""

    processed: int = 0
    ingested: int = 0
    unchanged: int = 0
    pruned: int = 0
    errors: int = 0
    batches: int = 0


async def begin_run(
    tx: Tx,
    connector_id: ConnectorId,
    job_id: JobId,
    trigger: RunTrigger,
    *,
    force: bool = False,
    dry_run: bool = False,
    allow_deletions: bool = False,
) -> ConnectorRun:
    """Open a run."""
    return await queries.one(
        tx,
        ConnectorRun,
        "begin_run",
        connector=connector_id,
        job=job_id,
        trigger=trigger,
        force=force,
        dry_run=dry_run,
        allow_deletions=allow_deletions,
    )


async def find_open_run(tx: Tx, connector_id: ConnectorId) -> ConnectorRun | None:
    """The run that has not ended, if there is one."""
    return await queries.maybe(tx, ConnectorRun, "open_run", connector=connector_id)


async def find_run(tx: Tx, run_id: RunId) -> ConnectorRun | None:
    """One run."""
    return await queries.maybe(tx, ConnectorRun, "run", id=run_id)


async def find_runs(
    tx: Tx, connector_id: ConnectorId, *, limit: int, before: RunId | None = None
) -> list[ConnectorRun]:
    """Runs of a connector, newest first."""
    return await queries.many(tx, ConnectorRun, "runs", connector=connector_id, limit=limit, before=before)


async def find_orphan_runs(tx: Tx, limit: int) -> list[RunId]:
    """Open runs whose job is gone."""
    return await queries.values(tx, "orphan_runs", limit=limit)


async def end_run(
    tx: Tx, run_id: RunId, status: RunStatus, code: str | None = None, message: str | None = None
) -> bool:
    """End an open run; False when it had ended already."""
    return bool(await queries.values(tx, "end_run", id=run_id, status=status, code=code, message=message))


async def add_progress(tx: Tx, connector_id: ConnectorId, run_id: RunId, progress: RunProgress) -> bool:
    """Raise a run's counters; False when it has ended."""
    await queries.run(tx, "clear_rate_limit", connector=connector_id)
    return bool(await queries.values(tx, "add_progress", run=run_id, **vars(progress)))


async def set_estimate(tx: Tx, run_id: RunId, total: int) -> None:
    """Record about how many documents a run will look at."""
    await queries.run(tx, "set_estimate", run=run_id, total=total)


async def set_stage(tx: Tx, run_id: RunId, stage: RunStage) -> None:
    """Move a run to its next stage."""
    await queries.run(tx, "set_run_stage", run=run_id, stage=stage)


async def hold_deletions(tx: Tx, run_id: RunId, count: int) -> None:
    """Record that the guard kept a run from deleting so many documents."""
    await queries.run(tx, "hold_deletions", run=run_id, count=count)


async def count_continuation(tx: Tx, run_id: RunId) -> int:
    """A run has used up its time budget: how often so far."""
    counts = await queries.values(tx, "count_continuation", run=run_id)
    return counts[0] if counts else 0


async def record_rate_limit(tx: Tx, connector_id: ConnectorId, run_id: RunId, wait: timedelta) -> None:
    """Show until when a run waits for its tool."""
    await queries.values(tx, "record_rate_limit", connector=connector_id, run=run_id, wait=wait)


async def save_plan(tx: Tx, run_id: RunId, plan: dict[str, Any], processed: int) -> None:
    """Save the result of a dry run."""
    await queries.run(tx, "save_plan", run=run_id, plan=Jsonb(plan), processed=processed)


async def has_pending_items(tx: Tx, run_id: RunId) -> bool:
    """Whether something that a run stored is not indexed yet."""
    return (await queries.values(tx, "has_pending_items", run=run_id))[0]


async def count_failed_items(tx: Tx, connector_id: ConnectorId, run_id: RunId) -> int:
    """How many of the documents that a run stored could not be indexed."""
    return (await queries.values(tx, "count_failed_items", connector=connector_id, run=run_id))[0]


async def add_log_line(tx: Tx, run_id: RunId, message: str, level: RunLogLevel = "info") -> None:
    """Write a line into a run's log."""
    await queries.run(tx, "add_log_line", run=run_id, level=level, message=message[:_MAX_LOG_LINE])


async def find_log_lines(tx: Tx, run_id: RunId, *, limit: int, after: int | None = None) -> list[RunLogLine]:
    """The log of a run."""
    return await queries.many(tx, RunLogLine, "log_lines", run=run_id, limit=limit, after=after)


# ── failures and identities ──────────────────────────────────────────────────────────────────────────────


async def find_failures(
    tx: Tx, connector_id: ConnectorId, *, limit: int, after: str | None = None
) -> list[FailedDocument]:
    """Documents that could not be read; the next run tries them again."""
    return await queries.many(
        tx, FailedDocument, "failures", connector=connector_id, limit=limit, after=after
    )


async def find_identities(
    tx: Tx, connector_id: ConnectorId, *, limit: int, after: str | None = None, unmapped: bool = False
) -> list[ConnectorIdentity]:
    """Accounts of the tool that permissions name."""
    return await queries.many(
        tx,
        ConnectorIdentity,
        "identities",
        connector=connector_id,
        limit=limit,
        after=after,
        unmapped=unmapped,
    )


async def map_identity(
    tx: Tx, connector_id: ConnectorId, user_id: str, email: str | None
) -> ConnectorIdentity:
    """Map an account to an email address, or remove the mapping."""
    return await queries.one(
        tx, ConnectorIdentity, "map_identity", connector=connector_id, user=user_id, email=email
    )
