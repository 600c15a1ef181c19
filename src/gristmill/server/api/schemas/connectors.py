"""How connectors, their runs, logs and accounts look on the wire."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, SecretStr, StringConstraints

from gristmill.connectors.model import (
    ACL_SCHEDULE,
    SCHEDULE,
    ConnectorIdentity,
    ConnectorRow,
    ConnectorRun,
    FailedDocument,
    RunLogLine,
)
from gristmill.server.api.schemas.common import (
    Acl,
    ApiModel,
    ErrorBody,
    JsonObject,
    Name,
    RequestModel,
    StoredModel,
)

ConnectorType = Literal["github", "gitlab", "jira", "confluence"]
Cron = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
BaseIds = Annotated[list[UUID], Field(max_length=100)]
# Values that must not be told, not even in an error about them.
Credentials = dict[str, SecretStr | int]
OnDelete = Literal["purge", "detach"]
RunStatus = Literal["running", "success", "completed_with_errors", "partial", "failed", "cancelled"]


class NewConnectorIn(RequestModel):
    """What is asked for. `acl: null`: who sees a document there sees it here; else this list holds for all of it."""

    name: Name
    type: ConnectorType
    config: JsonObject
    credentials: Credentials
    schedule: Cron = SCHEDULE
    acl_schedule: Cron = ACL_SCHEDULE
    enabled: bool = True
    knowledge_base_ids: BaseIds = Field(default_factory=list)
    acl: Acl | None = None


class ConnectorChange(RequestModel):
    """What is to be changed; what is left out stays."""

    name: Name | None = None
    config: JsonObject | None = None
    credentials: Credentials | None = None
    schedule: Cron | None = None
    acl_schedule: Cron | None = None
    enabled: bool | None = None
    knowledge_base_ids: BaseIds | None = None
    acl: Acl | None = None
    on_detach: OnDelete = "purge"


class ConnectorOut(StoredModel):
    """A connector as it is shown: never with its credentials."""

    name: str
    type: str
    config: JsonObject
    schedule: str
    acl_schedule: str
    enabled: bool
    knowledge_base_ids: list[UUID]
    acl: list[str] | None
    last_sync_status: RunStatus | None
    last_sync_at: datetime | None
    last_sync_error: ErrorBody | None
    next_sync_at: datetime | None
    rate_limited_until: datetime | None
    acl_as_of: datetime | None

    @classmethod
    def of(cls, connector: ConnectorRow) -> Self:
        """Show `connector`."""
        fields = {name: value for name, value in vars(connector).items() if name != "credentials"}
        error = _error_body(connector.last_sync_error_code, connector.last_sync_error)
        return cls.model_validate(
            {**fields, "knowledge_base_ids": connector.base_ids, "last_sync_error": error}
        )


class KindOut(ApiModel):
    """A kind of connector: what its configuration and its credentials are, as JSON schemas."""

    type: str
    config: JsonObject
    credentials: JsonObject


class PlanOut(ApiModel):
    """What a dry run found: how many documents a run would add, change and prune."""

    add: int
    change: int
    unchanged: int
    prune: int
    errors: int
    characters: int
    held: bool


class RunOut(ApiModel):
    """A run as it is shown. `pending` is what it filed and what is not searchable yet."""

    id: UUID
    connector_id: UUID
    task_id: UUID
    trigger: Literal["schedule", "manual"]
    status: RunStatus
    stage: Literal["reading", "pruning", "indexing", "ended"]
    force: bool
    dry_run: bool
    started_at: datetime
    completed_at: datetime | None
    total_items: int | None
    documents_processed: int
    documents_ingested: int
    documents_unchanged: int
    documents_pruned: int
    deletions_held: int
    total_batches: int
    completed_batches: int
    pending: int
    item_errors: int
    continuations: int
    progress: int
    rate_limited_until: datetime | None
    error: ErrorBody | None
    plan: PlanOut | None
    checkpoint: list[JsonObject] | None

    @classmethod
    def of(cls, run: ConnectorRun) -> Self:
        """Show `run`."""
        return cls.model_validate(
            {
                **vars(run),
                "task_id": run.job_id,
                "error": _error_body(run.error_code, run.error_message),
                "progress": _percent(run),
                "completed_batches": _completed_batches(run),
            }
        )


class LineOut(ApiModel):
    """A line of a run's log."""

    id: int
    at: datetime
    level: Literal["info", "warning", "error"]
    message: str

    @classmethod
    def of(cls, line: RunLogLine) -> Self:
        """Show `line`."""
        return cls(id=line.no, at=line.at, level=line.level, message=line.message)


class SyncIn(RequestModel):
    """How to run: `force` reads everything anew, `dryRun` only tells, `allowDeletions` lets a mass of them go."""

    force: bool = False
    dry_run: bool = False
    allow_deletions: bool = False


class SyncOut(ApiModel):
    """The run that was queued."""

    task_id: UUID
    run_id: UUID
    status: Literal["enqueued"]


class CheckIn(RequestModel):
    """What a connector would be made of."""

    type: ConnectorType
    config: JsonObject
    credentials: Credentials


class CheckOut(ApiModel):
    """What the tool says to the credentials."""

    ok: bool
    account: str | None
    error: ErrorBody | None


class FailureOut(ApiModel):
    """A document that could not be read; the next run asks for it again."""

    source_id: str
    scope: str
    kind: str
    attempts: int
    error: ErrorBody
    failed_at: datetime

    @classmethod
    def of(cls, failure: FailedDocument) -> Self:
        """Show `failed`."""
        error = ErrorBody(code=failure.error_code, message=failure.error_message)
        return cls.model_validate({**vars(failure), "error": error})


class IdentityOut(ApiModel):
    """An account of the tool; without an address, nobody here is meant by it."""

    user_id: str
    name: str
    email: str | None

    @classmethod
    def of(cls, identity: ConnectorIdentity) -> Self:
        """Show `identity`."""
        return cls.model_validate(vars(identity))


class IdentityIn(RequestModel):
    """The address that an account has here; null takes it away."""

    email: Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)] | None


class DeletedOut(ApiModel):
    """A connector that is gone, and what becomes of its documents."""

    id: UUID
    on_delete: OnDelete


def _error_body(code: str | None, message: str | None) -> ErrorBody | None:
    return None if code is None else ErrorBody(code=code, message=message or "")


def _percent(run: ConnectorRun) -> int:
    """Reading is one half, indexing the other; without an estimate, reading tells nothing."""
    if run.completed_at is not None:
        return 100
    share_read = run.documents_processed / run.total_items if run.total_items else 0.0
    share_indexed = 1 - run.pending / max(run.documents_ingested, run.pending, 1)
    if run.stage in ("indexing", "pruning"):
        return min(99, int(50 + 50 * share_indexed))
    return min(99, int(100 * min(share_read, 1.0) * (0.5 + 0.5 * share_indexed)))


def _completed_batches(run: ConnectorRun) -> int:
    """Batches are as many done as documents are: from the items, not counted."""
    if run.completed_at is not None or run.documents_ingested == 0:
        return run.total_batches
    share_indexed = 1 - min(1.0, run.pending / run.documents_ingested)
    return int(run.total_batches * share_indexed)
