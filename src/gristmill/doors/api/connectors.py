"""`/api/connectors` and `/api/connector-runs`: tools that are followed, their runs, logs and accounts.

Credentials go in and never come out: no answer has a field for them. Whose a connector or a run is that a path names was
looked at before (`authorise.py`).
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Query, Response
from pydantic import SecretStr

from gristmill.catalog import BaseId
from gristmill.doors.api.connector import (
    CheckIn,
    CheckOut,
    ConnectorChange,
    ConnectorOut,
    DeletedOut,
    FailureOut,
    IdentityIn,
    IdentityOut,
    KindOut,
    LineOut,
    NewConnectorIn,
    OnDelete,
    RunOut,
    Secrets,
    SyncIn,
    SyncOut,
)
from gristmill.doors.api.context import Asking, InContext, PathConnector, PathRun
from gristmill.doors.api.match import IfMatch, tagged, unchanged
from gristmill.doors.api.wire import ErrorBody, JsonObject, Limit, Page
from gristmill.errors import Conflict, WorkError
from gristmill.operations import connection, connections
from gristmill.operations.connection import ConnectorId, RunId
from gristmill.operations.connections import Changes, NewConnector

router = APIRouter(prefix="/connectors", tags=["connectors"])
runs = APIRouter(prefix="/connector-runs", tags=["connectors"])
kinds = APIRouter(prefix="/connector-kinds", tags=["connectors"])


@kinds.get("")
async def list_kinds(context: InContext) -> Page[KindOut]:
    """The tools that can be followed, and what each has to be told."""
    forms = context.kinds.forms().items()
    found = [
        KindOut(type=name, config=config, credentials=credentials) for name, (config, credentials) in forms
    ]
    return Page(items=found, next_cursor=None)


@kinds.post("/check")
async def check_new(asked: CheckIn, context: InContext) -> CheckOut:
    """Ask a tool who credentials are that nobody has kept yet, now and once."""
    config, credentials = context.kinds.checked(asked.type, asked.config, _plain(asked.credentials))
    return await _account(context, asked.type, config, credentials or "")


@router.post("", status_code=201)
async def create_connector(asked: NewConnectorIn, context: InContext, caller: Asking) -> ConnectorOut:
    """Follow a tool from now on, by its schedule."""
    new = NewConnector(
        name=asked.name,
        type=asked.type,
        config=asked.config,
        credentials=_plain(asked.credentials),
        schedule=asked.schedule,
        acl_schedule=asked.acl_schedule,
        enabled=asked.enabled,
        base_ids=[BaseId(base) for base in asked.knowledge_base_ids],
        acl=asked.acl,
    )
    return ConnectorOut.of(
        await connections.create(context.db, context.vault, context.kinds, new, caller.org)
    )


@router.get("")
async def list_connectors(
    context: InContext,
    caller: Asking,
    name: Annotated[str | None, Query(max_length=200)] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[ConnectorOut]:
    """Connectors of the organisation, oldest first."""
    async with context.db.connection() as tx:
        found = await connection.find_all(
            tx,
            caller.org,
            limit=limit,
            after=ConnectorId(cursor) if cursor else None,
            name=name,
            base_id=BaseId(base_id) if base_id else None,
        )
    return Page(
        items=[ConnectorOut.of(one) for one in found],
        next_cursor=str(found[-1].id) if len(found) == limit else None,
    )


@router.get("/{connector_id}")
async def get_connector(connector_id: PathConnector, context: InContext, response: Response) -> ConnectorOut:
    """One connector."""
    async with context.db.connection() as tx:
        found = await connections.known(tx, connector_id)
    tagged(response, found.updated_at)
    return ConnectorOut.of(found)


@router.patch("/{connector_id}")
async def change_connector(
    connector_id: PathConnector,
    asked: ConnectorChange,
    context: InContext,
    response: Response,
    if_match: IfMatch = None,
) -> ConnectorOut:
    """Change a connector."""
    given = asked.knowledge_base_ids
    changes = Changes(
        name=asked.name,
        config=asked.config,
        credentials=None if asked.credentials is None else _plain(asked.credentials),
        schedule=asked.schedule,
        acl_schedule=asked.acl_schedule,
        enabled=asked.enabled,
        base_ids=None if given is None else [BaseId(base) for base in given],
        acl=asked.acl,
        acl_given="acl" in asked.model_fields_set,
        on_detach=asked.on_detach,
    )
    changed = await connections.change(
        context.db,
        context.vault,
        context.kinds,
        connector_id,
        changes,
        lambda seen: unchanged(if_match, seen),
    )
    tagged(response, changed.updated_at)
    return ConnectorOut.of(changed)


@router.delete("/{connector_id}", status_code=202)
async def delete_connector(
    connector_id: PathConnector,
    context: InContext,
    on_delete: Annotated[OnDelete | None, Query(alias="onDelete")] = None,
) -> DeletedOut:
    """Forget a connector; what it filed goes with it, or stays: that has to be said."""
    if on_delete is None:
        raise Conflict(
            "Say what becomes of its documents: onDelete=purge removes them, onDelete=detach keeps them.",
            code="on_delete_missing",
        )
    await connections.delete(context.db, connector_id, on_delete)
    return DeletedOut(id=connector_id, on_delete=on_delete)


@router.post("/{connector_id}/check")
async def check_connector(connector_id: PathConnector, context: InContext) -> CheckOut:
    """Ask the tool who the credentials are, now and once."""
    async with context.db.connection() as tx:
        found = await connections.known(tx, connector_id)
    try:
        credentials = context.vault.open(found.credentials, connections.about(found.id))
    except WorkError as error:
        return CheckOut(ok=False, account=None, error=ErrorBody.of(error))
    return await _account(context, found.type, found.config, credentials)


@router.post("/{connector_id}/sync", status_code=202)
async def sync_connector(
    connector_id: PathConnector, context: InContext, asked: Annotated[SyncIn, Body(default_factory=SyncIn)]
) -> SyncOut:
    """Run a connector now; 409 while a run of it is queued or running."""
    job_id, run = await connections.sync(
        context.db,
        connector_id,
        force=asked.force,
        dry_run=asked.dry_run,
        allow_deletions=asked.allow_deletions,
    )
    return SyncOut(task_id=job_id, run_id=run.id, status="enqueued")


@router.post("/{connector_id}/cancel", status_code=202)
async def cancel_sync(connector_id: PathConnector, context: InContext) -> RunOut:
    """End the run that is open; what it filed stays."""
    return RunOut.of(await connections.cancel(context.db, connector_id))


@router.post("/{connector_id}/pause", status_code=202)
async def pause_connector(connector_id: PathConnector, context: InContext) -> ConnectorOut:
    """Run it no longer by itself."""
    changes = Changes(enabled=False)
    return ConnectorOut.of(
        await connections.change(context.db, context.vault, context.kinds, connector_id, changes)
    )


@router.post("/{connector_id}/resume", status_code=202)
async def resume_connector(connector_id: PathConnector, context: InContext) -> ConnectorOut:
    """Run it by its schedules again."""
    changes = Changes(enabled=True)
    return ConnectorOut.of(
        await connections.change(context.db, context.vault, context.kinds, connector_id, changes)
    )


@router.get("/{connector_id}/runs")
async def list_runs(
    connector_id: PathConnector, context: InContext, limit: Limit = 100, cursor: UUID | None = None
) -> Page[RunOut]:
    """Runs of a connector, newest first."""
    async with context.db.connection() as tx:
        await connections.known(tx, connector_id)
        found = await connection.find_runs(
            tx, connector_id, limit=limit, before=RunId(cursor) if cursor else None
        )
    return Page(
        items=[RunOut.of(run) for run in found],
        next_cursor=str(found[-1].id) if len(found) == limit else None,
    )


@router.get("/{connector_id}/failures")
async def list_failures(
    connector_id: PathConnector,
    context: InContext,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Page[FailureOut]:
    """Documents that could not be read, by their ids."""
    async with context.db.connection() as tx:
        await connections.known(tx, connector_id)
        found = await connection.failures(tx, connector_id, limit=limit, after=cursor)
    return Page(
        items=[FailureOut.of(one) for one in found],
        next_cursor=found[-1].source_id if len(found) == limit else None,
    )


@router.get("/{connector_id}/identities")
async def list_identities(
    connector_id: PathConnector,
    context: InContext,
    unmapped: bool = False,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Page[IdentityOut]:
    """Accounts of the tool that permissions name and whose address it doesn't tell."""
    async with context.db.connection() as tx:
        await connections.known(tx, connector_id)
        found = await connection.identities(tx, connector_id, limit=limit, after=cursor, unmapped=unmapped)
    return Page(
        items=[IdentityOut.of(one) for one in found],
        next_cursor=found[-1].user_id if len(found) == limit else None,
    )


@router.put("/{connector_id}/identities/{user_id}")
async def map_identity(
    connector_id: PathConnector, user_id: str, asked: IdentityIn, context: InContext
) -> IdentityOut:
    """Say which address an account has here; who sees what follows at once."""
    return IdentityOut.of(await connections.map_identity(context.db, connector_id, user_id, asked.email))


@runs.get("/{run_id}")
async def get_run(run_id: PathRun, context: InContext) -> RunOut:
    """One run, with how far it is."""
    async with context.db.connection() as tx:
        return RunOut.of(await connections.known_run(tx, run_id))


@runs.get("/{run_id}/logs")
async def list_lines(
    run_id: PathRun,
    context: InContext,
    limit: Limit = 100,
    cursor: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
) -> Page[LineOut]:
    """What a run has to tell, in order."""
    async with context.db.connection() as tx:
        await connections.known_run(tx, run_id)
        found = await connection.lines(tx, run_id, limit=limit, after=cursor)
    return Page(
        items=[LineOut.of(line) for line in found],
        next_cursor=str(found[-1].no) if len(found) == limit else None,
    )


async def _account(context: InContext, kind: str, config: JsonObject, credentials: str) -> CheckOut:
    try:
        account = await context.kinds.check(kind, config, credentials)
    except WorkError as error:
        return CheckOut(ok=False, account=None, error=ErrorBody.of(error))
    return CheckOut(ok=True, account=account, error=None)


def _plain(secrets: Secrets) -> dict[str, Any]:
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in secrets.items()
    }
