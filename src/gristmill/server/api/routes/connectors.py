"""`/api/connectors` and `/api/connector-runs`: tools that are followed, their runs, logs and accounts.

Credentials go in and never come out: no answer has a field for them. Whose a connector or a run is that a path names was
looked at before (`authorise.py`).
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Query, Response
from pydantic import SecretStr

from gristmill.catalog import BaseId
from gristmill.connectors import admin
from gristmill.connectors.model import ConnectorChanges, ConnectorId, NewConnector, RunId
from gristmill.connectors.registry import credentials_purpose
from gristmill.errors import Conflict, WorkError
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathConnector, PathRun
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.schemas.common import ErrorBody, JsonObject, Limit, Page
from gristmill.server.api.schemas.connectors import (
    CheckIn,
    CheckOut,
    ConnectorChange,
    ConnectorOut,
    Credentials,
    DeletedOut,
    FailureOut,
    IdentityIn,
    IdentityOut,
    KindOut,
    LineOut,
    NewConnectorIn,
    OnDelete,
    RunOut,
    SyncIn,
    SyncOut,
)

router = APIRouter(prefix="/connectors", tags=["connectors"])
runs = APIRouter(prefix="/connector-runs", tags=["connectors"])
kinds = APIRouter(prefix="/connector-kinds", tags=["connectors"])


@kinds.get("")
async def list_kinds(context: CurrentContext) -> Page[KindOut]:
    """The tools that can be followed, and what each has to be told."""
    forms = context.connector_registry.json_schemas().items()
    connector_kinds = [
        KindOut(type=name, config=config, credentials=credentials) for name, (config, credentials) in forms
    ]
    return Page(items=connector_kinds, next_cursor=None)


@kinds.post("/check")
async def check_new(body: CheckIn, context: CurrentContext) -> CheckOut:
    """Ask a tool who credentials are that nobody has kept yet, now and once."""
    config, credentials = context.connector_registry.validate(
        body.type, body.config, _plaintext_credentials(body.credentials)
    )
    return await _check_account(context, body.type, config, credentials or "")


@router.post("", status_code=201)
async def create_connector(
    body: NewConnectorIn, context: CurrentContext, caller: CurrentCaller
) -> ConnectorOut:
    """Follow a tool from now on, by its schedule."""
    new = NewConnector(
        name=body.name,
        type=body.type,
        config=body.config,
        credentials=_plaintext_credentials(body.credentials),
        schedule=body.schedule,
        acl_schedule=body.acl_schedule,
        enabled=body.enabled,
        base_ids=[BaseId(base) for base in body.knowledge_base_ids],
        acl=body.acl,
    )
    return ConnectorOut.of(
        await admin.create(context.db, context.vault, context.connector_registry, new, caller.org)
    )


@router.get("")
async def list_connectors(
    context: CurrentContext,
    caller: CurrentCaller,
    name: Annotated[str | None, Query(max_length=200)] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[ConnectorOut]:
    """Connectors of the organisation, oldest first."""
    async with context.db.connection() as tx:
        page_connectors = await admin.find_connectors(
            tx,
            caller.org,
            limit=limit,
            after=ConnectorId(cursor) if cursor else None,
            name=name,
            base_id=BaseId(base_id) if base_id else None,
        )
    return Page(
        items=[ConnectorOut.of(connector) for connector in page_connectors],
        next_cursor=str(page_connectors[-1].id) if len(page_connectors) == limit else None,
    )


@router.get("/{connector_id}")
async def get_connector(
    connector_id: PathConnector, context: CurrentContext, response: Response
) -> ConnectorOut:
    """One connector."""
    async with context.db.connection() as tx:
        connector = await admin.require_connector(tx, connector_id)
    set_etag(response, connector.updated_at)
    return ConnectorOut.of(connector)


@router.patch("/{connector_id}")
async def change_connector(
    connector_id: PathConnector,
    body: ConnectorChange,
    context: CurrentContext,
    response: Response,
    if_match: IfMatch = None,
) -> ConnectorOut:
    """Change a connector."""
    base_ids = body.knowledge_base_ids
    changes = ConnectorChanges(
        name=body.name,
        config=body.config,
        credentials=None if body.credentials is None else _plaintext_credentials(body.credentials),
        schedule=body.schedule,
        acl_schedule=body.acl_schedule,
        enabled=body.enabled,
        base_ids=None if base_ids is None else [BaseId(base) for base in base_ids],
        acl=body.acl,
        acl_given="acl" in body.model_fields_set,
        on_detach=body.on_detach,
    )
    changed = await admin.change(
        context.db,
        context.vault,
        context.connector_registry,
        connector_id,
        changes,
        lambda updated_at: check_if_match(if_match, updated_at),
    )
    set_etag(response, changed.updated_at)
    return ConnectorOut.of(changed)


@router.delete("/{connector_id}", status_code=202)
async def delete_connector(
    connector_id: PathConnector,
    context: CurrentContext,
    on_delete: Annotated[OnDelete | None, Query(alias="onDelete")] = None,
) -> DeletedOut:
    """Forget a connector; what it filed goes with it, or stays: that has to be said."""
    if on_delete is None:
        raise Conflict(
            "Say what becomes of its documents: onDelete=purge removes them, onDelete=detach keeps them.",
            code="on_delete_missing",
        )
    await admin.delete(context.db, connector_id, on_delete)
    return DeletedOut(id=connector_id, on_delete=on_delete)


@router.post("/{connector_id}/check")
async def check_connector(connector_id: PathConnector, context: CurrentContext) -> CheckOut:
    """Ask the tool who the credentials are, now and once."""
    async with context.db.connection() as tx:
        connector = await admin.require_connector(tx, connector_id)
    try:
        credentials = context.vault.open(connector.credentials, credentials_purpose(connector.id))
    except WorkError as error:
        return CheckOut(ok=False, account=None, error=ErrorBody.of(error))
    return await _check_account(context, connector.type, connector.config, credentials)


@router.post("/{connector_id}/sync", status_code=202)
async def sync_connector(
    connector_id: PathConnector,
    context: CurrentContext,
    body: Annotated[SyncIn, Body(default_factory=SyncIn)],
) -> SyncOut:
    """Run a connector now; 409 while a run of it is queued or running."""
    job_id, run = await admin.start_sync(
        context.db,
        connector_id,
        force=body.force,
        dry_run=body.dry_run,
        allow_deletions=body.allow_deletions,
    )
    return SyncOut(task_id=job_id, run_id=run.id, status="enqueued")


@router.post("/{connector_id}/cancel", status_code=202)
async def cancel_sync(connector_id: PathConnector, context: CurrentContext) -> RunOut:
    """End the run that is open; what it filed stays."""
    return RunOut.of(await admin.cancel_sync(context.db, connector_id))


@router.post("/{connector_id}/pause", status_code=202)
async def pause_connector(connector_id: PathConnector, context: CurrentContext) -> ConnectorOut:
    """Run it no longer by itself."""
    changes = ConnectorChanges(enabled=False)
    return ConnectorOut.of(
        await admin.change(context.db, context.vault, context.connector_registry, connector_id, changes)
    )


@router.post("/{connector_id}/resume", status_code=202)
async def resume_connector(connector_id: PathConnector, context: CurrentContext) -> ConnectorOut:
    """Run it by its schedules again."""
    changes = ConnectorChanges(enabled=True)
    return ConnectorOut.of(
        await admin.change(context.db, context.vault, context.connector_registry, connector_id, changes)
    )


@router.get("/{connector_id}/runs")
async def list_runs(
    connector_id: PathConnector, context: CurrentContext, limit: Limit = 100, cursor: UUID | None = None
) -> Page[RunOut]:
    """Runs of a connector, newest first."""
    async with context.db.connection() as tx:
        await admin.require_connector(tx, connector_id)
        page_runs = await admin.find_runs(
            tx, connector_id, limit=limit, before=RunId(cursor) if cursor else None
        )
    return Page(
        items=[RunOut.of(run) for run in page_runs],
        next_cursor=str(page_runs[-1].id) if len(page_runs) == limit else None,
    )


@router.get("/{connector_id}/failures")
async def list_failures(
    connector_id: PathConnector,
    context: CurrentContext,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Page[FailureOut]:
    """Documents that could not be read, by their ids."""
    async with context.db.connection() as tx:
        await admin.require_connector(tx, connector_id)
        page_failures = await admin.find_failures(tx, connector_id, limit=limit, after=cursor)
    return Page(
        items=[FailureOut.of(failure) for failure in page_failures],
        next_cursor=page_failures[-1].source_id if len(page_failures) == limit else None,
    )


@router.get("/{connector_id}/identities")
async def list_identities(
    connector_id: PathConnector,
    context: CurrentContext,
    unmapped: bool = False,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Page[IdentityOut]:
    """Accounts of the tool that permissions name and whose address it doesn't tell."""
    async with context.db.connection() as tx:
        await admin.require_connector(tx, connector_id)
        page_identities = await admin.find_identities(
            tx, connector_id, limit=limit, after=cursor, unmapped=unmapped
        )
    return Page(
        items=[IdentityOut.of(identity) for identity in page_identities],
        next_cursor=page_identities[-1].user_id if len(page_identities) == limit else None,
    )


@router.put("/{connector_id}/identities/{user_id}")
async def map_identity(
    connector_id: PathConnector, user_id: str, body: IdentityIn, context: CurrentContext
) -> IdentityOut:
    """Say which address an account has here; who sees what follows at once."""
    return IdentityOut.of(await admin.map_identity(context.db, connector_id, user_id, body.email))


@runs.get("/{run_id}")
async def get_run(run_id: PathRun, context: CurrentContext) -> RunOut:
    """One run, with how far it is."""
    async with context.db.connection() as tx:
        return RunOut.of(await admin.require_run(tx, run_id))


@runs.get("/{run_id}/logs")
async def list_lines(
    run_id: PathRun,
    context: CurrentContext,
    limit: Limit = 100,
    cursor: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
) -> Page[LineOut]:
    """What a run has to tell, in order."""
    async with context.db.connection() as tx:
        await admin.require_run(tx, run_id)
        page_lines = await admin.find_log_lines(tx, run_id, limit=limit, after=cursor)
    return Page(
        items=[LineOut.of(line) for line in page_lines],
        next_cursor=str(page_lines[-1].no) if len(page_lines) == limit else None,
    )


async def _check_account(
    context: CurrentContext, kind: str, config: JsonObject, credentials: str
) -> CheckOut:
    try:
        account = await context.connector_registry.check(kind, config, credentials)
    except WorkError as error:
        return CheckOut(ok=False, account=None, error=ErrorBody.of(error))
    return CheckOut(ok=True, account=account, error=None)


def _plaintext_credentials(secrets: Credentials) -> dict[str, Any]:
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in secrets.items()
    }
