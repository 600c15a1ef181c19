"""Connectors, their runs, run logs and accounts."""

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
    GroupSummary,
    RunLogLine,
)
from gristmill.connectors.people import MappingResult
from gristmill.server.api.schemas.common import (
    Acl,
    ApiModel,
    ErrorBody,
    JsonObject,
    Name,
    RequestModel,
    StoredModel,
)

# One of GET /connector-kinds; the registry checks it, because plugins add kinds.
ConnectorType = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Cron = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
BaseIds = Annotated[list[UUID], Field(max_length=100)]
# SecretStr keeps the values out of validation errors and logs.
Credentials = dict[str, SecretStr | int]
OnDelete = Literal["purge", "detach"]
RunStatus = Literal["running", "success", "completed_with_errors", "partial", "failed", "cancelled"]


class NewConnectorIn(RequestModel):
    """A connector to create. `acl: null` mirrors the permissions of the source; a list applies to all its documents."""

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
    """Changes to a connector; omitted fields stay as they are."""

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
    """A connector, without its credentials."""

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
        error = ErrorBody.from_columns(connector.last_sync_error_code, connector.last_sync_error)
        return cls.model_validate(
            {**fields, "knowledge_base_ids": connector.base_ids, "last_sync_error": error}
        )


class KindOut(ApiModel):
    """A connector type, with its name for people and JSON schemas of its configuration and its credentials. Unless the tool
    `hasPermissions`, everyone sees its documents where the connector has no `acl`; with `hasSignIn`, people can sign in there."""

    type: str
    title: str
    config: JsonObject
    credentials: JsonObject
    has_permissions: bool
    has_sign_in: bool


class SignInOut(ApiModel):
    """The address of the tool's page, and the one of this server to which it sends people: the tool has to know that one."""

    url: str
    redirect_uri: str


class PlanOut(ApiModel):
    """The result of a dry run: how many documents a run would add, change and prune."""

    add: int
    change: int
    unchanged: int
    prune: int
    errors: int
    characters: int
    held: bool


class RunOut(ApiModel):
    """A run of a connector. `pending` counts the documents it ingested that are not searchable yet."""

    id: UUID
    connector_id: UUID
    task_id: UUID
    trigger: Literal["schedule", "manual", "push"]
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
                "error": ErrorBody.from_columns(run.error_code, run.error_message),
                "progress": _percent(run),
                "completed_batches": _batches_done(run),
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
    """Options of a run: `force` re-reads every document, `dryRun` changes nothing, `allowDeletions` permits a mass
    deletion."""

    force: bool = False
    dry_run: bool = False
    allow_deletions: bool = False


class SyncOut(ApiModel):
    """The run that was queued."""

    task_id: UUID
    run_id: UUID
    status: Literal["enqueued"]


class CheckIn(RequestModel):
    """Configuration and credentials to check before a connector is created."""

    type: ConnectorType
    config: JsonObject
    credentials: Credentials


class CheckOut(ApiModel):
    """Whether the source accepts the credentials, and as which account."""

    ok: bool
    account: str | None
    error: ErrorBody | None


class FailureOut(ApiModel):
    """A document that could not be read; the next run tries it again."""

    source_id: str
    scope: str
    kind: str
    attempts: int
    error: ErrorBody
    failed_at: datetime

    @classmethod
    def of(cls, failure: FailedDocument) -> Self:
        """Show `failure`."""
        error = ErrorBody(code=failure.error_code, message=failure.error_message)
        return cls.model_validate({**vars(failure), "error": error})


class ToolGroupOut(ApiModel):
    """A group of the source. `entry` is what access lists name it by; unless it is `complete`, it lets no one see anything."""

    id: UUID
    entry: str
    source_id: str
    name: str
    member_count: int
    complete: bool
    as_of: datetime

    @classmethod
    def of(cls, group: GroupSummary) -> Self:
        """Show `group`."""
        return cls(
            id=group.id,
            entry=f"tool_group:{group.id}",
            source_id=group.key,
            name=group.name,
            member_count=group.member_count,
            complete=group.complete,
            as_of=group.as_of,
        )


class IdentityOut(ApiModel):
    """An account of the source. Permissions of an account without an email apply to no person."""

    user_id: str
    name: str
    email: str | None

    @classmethod
    def of(cls, identity: ConnectorIdentity) -> Self:
        """Show `identity`."""
        return cls.model_validate(vars(identity))


class IdentityIn(RequestModel):
    """The email to use for an account; null removes it."""

    email: Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)] | None


class IdentitiesIn(RequestModel):
    """A CSV file with the columns userId or name, and email. An empty address removes a mapping."""

    csv: Annotated[str, StringConstraints(min_length=1, max_length=4_000_000)]
    dry_run: bool = False


class MatchIn(RequestModel):
    """Whether to only show what would be mapped."""

    dry_run: bool = False


class RowFailureOut(ApiModel):
    """A row of a CSV file that was not followed, and why."""

    line: int
    code: Literal["unknown_account", "ambiguous_account", "bad_email", "conflicting_rows"]
    message: str


class MappingOut(ApiModel):
    """The accounts that got another address, how many had it already, and rows that were not followed."""

    mapped: list[IdentityOut]
    unchanged: int
    failed: list[RowFailureOut]

    @classmethod
    def of(cls, result: MappingResult) -> Self:
        """Show `result`."""
        return cls(
            mapped=[IdentityOut.of(identity) for identity in result.mapped],
            unchanged=result.unchanged,
            failed=[RowFailureOut.model_validate(vars(failure)) for failure in result.failed],
        )


class DeletedOut(ApiModel):
    """The deleted connector, and what happens to its documents."""

    id: UUID
    on_delete: OnDelete


def _percent(run: ConnectorRun) -> int:
    """Reading counts for one half, indexing for the other. Without an estimate of the total, reading counts as 0."""
    if run.completed_at is not None:
        return 100
    share_read = run.documents_processed / run.total_items if run.total_items else 0.0
    share_indexed = 1 - run.pending / max(run.documents_ingested, run.pending, 1)
    if run.stage in ("indexing", "pruning"):
        return min(99, int(50 + 50 * share_indexed))
    return min(99, int(100 * min(share_read, 1.0) * (0.5 + 0.5 * share_indexed)))


def _batches_done(run: ConnectorRun) -> int:
    """The share of batches that is done, derived from the items: a counter could drift from them."""
    if run.completed_at is not None or run.documents_ingested == 0:
        return run.total_batches
    share_indexed = 1 - min(1.0, run.pending / run.documents_ingested)
    return int(run.total_batches * share_indexed)
