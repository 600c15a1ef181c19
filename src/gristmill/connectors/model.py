"""Connectors, their runs and what people see of them, as values.

    a run       running ⇄ partial → success | completed_with_errors | partial | failed | cancelled

A connector has at most one open run. The run's stage says what it does: reading the tool, pruning documents that the tool
no longer has, waiting until everything it stored is indexed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType
from uuid import UUID

from gristmill.catalog import BaseId, ItemId
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.jobs import JobId

ConnectorId = NewType("ConnectorId", UUID)
RunId = NewType("RunId", UUID)
RunTrigger = Literal["schedule", "manual", "push"]
RunStatus = Literal["running", "success", "completed_with_errors", "partial", "failed", "cancelled"]
RunStage = Literal["reading", "pruning", "indexing", "ended"]
RunLogLevel = Literal["info", "warning", "error"]
OnDelete = Literal["purge", "detach"]

SCHEDULE = "0 */6 * * *"
ACL_SCHEDULE = "*/30 * * * *"


@dataclass(frozen=True)
class ConnectorRow:
    """A row of `connector`, with the bases that it feeds. `credentials` are encrypted."""

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
    read_at: datetime  # when this row was read; what its tool says later is at least as new
    org_id: OrgId = LOCAL_ORG
    next_sync_at: datetime | None = None  # according to its schedule

    @property
    def lane(self) -> str:
        """The lane of its jobs."""
        return f"connector:{self.id}"


@dataclass(frozen=True)
class NewConnector:
    """A connector to create."""

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
    """What to change; None leaves a field as it is. `acl` counts only with `acl_given`: an `acl` of None means that the
    permissions of the tool apply."""

    name: str | None = None
    config: dict[str, Any] | None = None
    credentials: dict[str, Any] | None = None
    schedule: str | None = None
    acl_schedule: str | None = None
    enabled: bool | None = None
    base_ids: Sequence[BaseId] | None = None
    acl: Sequence[str] | None = None
    acl_given: bool = False
    on_detach: OnDelete = "purge"


@dataclass(frozen=True)
class ConnectorRun:
    """A row of `connector_run`; `pending` counts the items that it stored and that are not indexed yet."""

    id: RunId
    connector_id: ConnectorId
    job_id: JobId
    trigger: RunTrigger
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
    """A connector's container in a base; `item_id` is None until the first run. `is_deleted` when there was one and a user
    deleted it."""

    base_id: BaseId
    item_id: ItemId | None
    is_deleted: bool = False


@dataclass(frozen=True)
class RunLogLine:
    """A line of a run's log."""

    no: int
    at: datetime
    level: RunLogLevel
    message: str


@dataclass(frozen=True)
class GroupSummary:
    """A group of a connector's tool, with the number of its members."""

    id: UUID
    key: str
    name: str
    complete: bool
    as_of: datetime
    member_count: int


@dataclass(frozen=True)
class ConnectorIdentity:
    """An account of the tool, and the email address it was mapped to here."""

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
