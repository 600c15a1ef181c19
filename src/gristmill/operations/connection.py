"""Connectors and their runs as rows, one function per question or change, in the caller's transaction.

    a run       running ⇄ partial → success | completed_with_errors | partial | failed | cancelled

At most one run of a connector is open. Its stage says what it is about: reading the tool, pruning what is gone there,
waiting for what it filed to be indexed. Rows are locked in the order: bases' turns, jobs, items, lanes, then these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, NewType, Protocol
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill import jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Tx
from gristmill.jobs import JobId
from gristmill.operations.invariants import queries
from gristmill.organisation import LOCAL_ORG, OrgId

ConnectorId = NewType("ConnectorId", UUID)
RunId = NewType("RunId", UUID)
RunStatus = Literal["running", "success", "completed_with_errors", "partial", "failed", "cancelled"]
RunStage = Literal["reading", "pruning", "indexing", "ended"]
RunLogLevel = Literal["info", "warning", "error"]


class Kinds(Protocol):
    """The kinds of connectors that there are: `connectors/` brings them."""

    def validate(
        self, kind: str, config: dict[str, Any], credentials: dict[str, Any] | None
    ) -> tuple[dict[str, Any], str | None]:
        """The configuration as it is kept, and the credentials as they are sealed; `Invalid` when one is none."""
        ...

    def json_schemas(self) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
        """The JSON schemas of each kind's configuration and credentials."""
        ...

    async def check(self, kind: str, config: dict[str, Any], credentials: str) -> str:
        """Ask the tool who the credentials are; a WorkError when they are refused, or it can't be reached."""
        ...


@dataclass(frozen=True)
class ConnectorRow:
    """A row of `connector`, with the bases that it feeds. `credentials` are sealed."""

    id: ConnectorId
    name: str
    type: str
    config: dict[str, Any]
    credentials: bytes
    schedule: str
    acl_schedule: str
    enabled: bool
    acl: list[str] | None
    last_sync_status: RunStatus | None
    last_sync_at: datetime | None
    last_sync_error_code: str | None
    last_sync_error: str | None
    rate_limited_until: datetime | None
    acl_as_of: datetime | None
    created_at: datetime
    updated_at: datetime
    base_ids: list[BaseId]
    org_id: OrgId = LOCAL_ORG
    next_sync_at: datetime | None = None  # by its schedule

    @property
    def lane(self) -> str:
        """The lane that its jobs run in."""
        return lane(self.id)


def lane(connector_id: ConnectorId) -> str:
    """The lane of a connector's jobs."""
    return f"connector:{connector_id}"


@dataclass(frozen=True)
class ConnectorRun:
    """A row of `connector_run`; `pending` counts what it filed and what is not indexed yet."""

    id: RunId
    connector_id: ConnectorId
    job_id: JobId
    trigger: Literal["schedule", "manual"]
    status: RunStatus
    stage: RunStage
    force: bool
    dry_run: bool
    allow_deletions: bool
    started_at: datetime
    completed_at: datetime | None
    total_items: int | None
    documents_processed: int
    documents_ingested: int
    documents_unchanged: int
    documents_pruned: int
    deletions_held: int
    total_batches: int
    item_errors: int
    continuations: int
    rate_limited_until: datetime | None
    error_code: str | None
    error_message: str | None
    plan: dict[str, Any] | None
    checkpoint: list[dict[str, Any]] | None
    pending: int = 0


@dataclass(frozen=True)
class ConnectorContainer:
    """A connector's container in a base; None until the first run."""

    base_id: BaseId
    id: ItemId | None


@dataclass(frozen=True)
class RunLogLine:
    """A line of a run's log."""

    no: int
    at: datetime
    level: RunLogLevel
    message: str


@dataclass(frozen=True)
class ConnectorIdentity:
    """An account of the tool, and the address that somebody gave it here."""

    user_id: str
    name: str
    email: str | None


@dataclass(frozen=True)
class FailedDocument:
    """A document that could not be read."""

    source_id: str
    scope: str
    kind: str
    attempts: int
    error_code: str
    error_message: str
    failed_at: datetime


async def insert_connector(tx: Tx, connector: ConnectorRow) -> ConnectorRow | None:
    """A new connector; None when its organisation has one of that name."""
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
    """Connectors of an organisation in the order of their making."""
    return await queries.many(
        tx, ConnectorRow, "connectors", org=org, limit=limit, after=after, name=name, base=base_id
    )


async def attach_bases(tx: Tx, connector_id: ConnectorId, bases: Sequence[BaseId]) -> list[BaseId]:
    """Feed these bases too; those that were not fed."""
    return await queries.values(tx, "attach_bases", id=connector_id, bases=list(bases))


async def detach_bases(
    tx: Tx, connector_id: ConnectorId, bases: Sequence[BaseId]
) -> list[ConnectorContainer]:
    """Feed these bases no longer; the containers there."""
    return await queries.many(tx, ConnectorContainer, "detach_bases", id=connector_id, bases=list(bases))


async def find_containers(tx: Tx, connector_id: ConnectorId) -> list[ConnectorContainer]:
    """The containers of a connector, by base."""
    return await queries.many(tx, ConnectorContainer, "connector_containers", id=connector_id)


async def begin_run(
    tx: Tx,
    connector_id: ConnectorId,
    job_id: JobId,
    *,
    manual: bool,
    force: bool = False,
    dry_run: bool = False,
    allow_deletions: bool = False,
) -> ConnectorRun:
    """() → running."""
    return await queries.one(
        tx,
        ConnectorRun,
        "begin_run",
        connector=connector_id,
        job=job_id,
        trigger="manual" if manual else "schedule",
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
    """Runs, newest first."""
    return await queries.many(tx, ConnectorRun, "runs", connector=connector_id, limit=limit, before=before)


async def end_run(
    tx: Tx, run_id: RunId, status: RunStatus, code: str | None = None, message: str | None = None
) -> bool:
    """An open run ends; False when it had."""
    return bool(await queries.values(tx, "end_run", id=run_id, status=status, code=code, message=message))


async def add_log_line(tx: Tx, run_id: RunId, message: str, level: RunLogLevel = "info") -> None:
    """Write a line into a run's log."""
    await queries.run(tx, "run_line", run=run_id, level=level, message=message[:2000])


async def find_log_lines(tx: Tx, run_id: RunId, *, limit: int, after: int | None = None) -> list[RunLogLine]:
    """The log of a run."""
    return await queries.many(tx, RunLogLine, "run_lines", run=run_id, limit=limit, after=after)


async def find_failures(
    tx: Tx, connector_id: ConnectorId, *, limit: int, after: str | None = None
) -> list[FailedDocument]:
    """What could not be read, and is asked for again by the next run."""
    return await queries.many(
        tx, FailedDocument, "connector_failures", connector=connector_id, limit=limit, after=after
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


async def apply_audiences(
    tx: Tx, connector_id: ConnectorId, keys: Sequence[str], source_ids: Sequence[str] | None = None
) -> int:
    """Bring what audiences mean onto records; how many that changed."""
    id_list = None if source_ids is None else list(source_ids)
    return (await queries.values(tx, "spread", connector=connector_id, keys=list(keys), sources=id_list))[0]
