"""`/api/connectors`, `/api/connector-runs` and `/api/connector-kinds`: connectors, their runs, run logs and accounts.

Credentials are write-only: no response has a field for them. `authorise.py` has checked that the connector or run of the
path belongs to the caller's organisation.
"""

from collections.abc import Awaitable
from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Query, Response
from pydantic import SecretStr

from gristmill.catalog import BaseId
from gristmill.connectors import admin, people
from gristmill.connectors.model import ConnectorChanges, ConnectorId, NewConnector, RunId
from gristmill.errors import Conflict, WorkError
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext, PathConnector, PathRun
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import ErrorBody, Limit, Page, page_of
from gristmill.server.api.schemas.connectors import (
    CheckIn,
    CheckOut,
    ConnectorChange,
    ConnectorOut,
    Credentials,
    DeletedOut,
    FailureOut,
    IdentitiesIn,
    IdentityIn,
    IdentityOut,
    KindOut,
    LineOut,
    MappingOut,
    MatchIn,
    NewConnectorIn,
    OnDelete,
    RunOut,
    SyncIn,
    SyncOut,
    ToolGroupOut,
)
from gristmill.server.api.secret_entries import check_secrets

router = ApiRouter("/api/connectors", tag="connectors")
runs = ApiRouter("/api/connector-runs", tag="connectors")
kinds = ApiRouter("/api/connector-kinds", tag="connectors")


@kinds.get("")
async def list_kinds(context: CurrentContext) -> Page[KindOut]:
    """List the connector types, with the JSON schemas of their configuration and credentials."""
    items: list[KindOut] = []
    for kind in context.connector_registry.kinds():
        config, credentials = kind.json_schemas()
        items.append(
            KindOut(
                type=kind.name,
                title=kind.title or kind.name,
                config=config,
                credentials=credentials,
                has_permissions=kind.has_permissions,
                has_sign_in=kind.oauth is not None,
            )
        )
    return Page(items=items, next_cursor=None)


@kinds.post("/check")
async def check_new(body: CheckIn, context: CurrentContext, caller: CurrentCaller) -> CheckOut:
    """Check credentials against the source before a connector is created. Nothing is stored."""
    plaintext = _plaintext_credentials(body.credentials)
    check_secrets(caller, context.settings, plaintext.values())
    config, credentials = context.connector_registry.validate(body.type, body.config, plaintext)
    return await _check_account(context.connector_registry.check_new(body.type, config, credentials or ""))


@router.post("", status_code=201)
async def create_connector(
    body: NewConnectorIn, context: CurrentContext, caller: CurrentCaller
) -> ConnectorOut:
    """Create a connector. Its schedule starts the first run."""
    credentials = _plaintext_credentials(body.credentials)
    check_secrets(caller, context.settings, credentials.values())
    new = NewConnector(
        name=body.name,
        type=body.type,
        config=body.config,
        credentials=credentials,
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
    """List the connectors of the organisation, oldest first."""
    async with context.db.connection() as tx:
        page_connectors = await admin.find_connectors(
            tx,
            caller.org,
            limit=limit,
            after=ConnectorId(cursor) if cursor else None,
            name=name,
            base_id=BaseId(base_id) if base_id else None,
        )
    return page_of(page_connectors, limit, ConnectorOut.of)


@router.get("/{connector_id}")
async def get_connector(
    connector_id: PathConnector, context: CurrentContext, response: Response
) -> ConnectorOut:
    """Get a connector."""
    async with context.db.connection() as tx:
        connector = await admin.require_connector(tx, connector_id)
    set_etag(response, connector.updated_at)
    return ConnectorOut.of(connector)


@router.patch("/{connector_id}")
async def change_connector(
    connector_id: PathConnector,
    body: ConnectorChange,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    if_match: IfMatch = None,
) -> ConnectorOut:
    """Change a connector."""
    base_ids = body.knowledge_base_ids
    credentials = None if body.credentials is None else _plaintext_credentials(body.credentials)
    check_secrets(caller, context.settings, (credentials or {}).values())
    changes = ConnectorChanges(
        name=body.name,
        config=body.config,
        credentials=credentials,
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
    """Delete a connector; `onDelete` decides whether its documents are removed or kept."""
    if on_delete is None:
        raise Conflict(
            "The connector was not deleted. Choose what happens to its documents: "
            "onDelete=purge removes them, onDelete=detach keeps them.",
            code="on_delete_missing",
        )
    await admin.delete(context.db, connector_id, on_delete)
    return DeletedOut(id=connector_id, on_delete=on_delete)


@router.post("/{connector_id}/check")
async def check_connector(connector_id: PathConnector, context: CurrentContext) -> CheckOut:
    """Check the stored credentials of a connector against the source."""
    async with context.db.connection() as tx:
        connector = await admin.require_connector(tx, connector_id)
    return await _check_account(context.connector_registry.check(connector))


@router.post("/{connector_id}/sync", status_code=202)
async def sync_connector(
    connector_id: PathConnector,
    context: CurrentContext,
    body: Annotated[SyncIn, Body(default_factory=SyncIn)],
) -> SyncOut:
    """Run a connector now; 409 while one of its runs is queued or running."""
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
    """Cancel the open run of a connector. The documents that it ingested stay."""
    return RunOut.of(await admin.cancel_sync(context.db, connector_id))


@router.post("/{connector_id}/pause", status_code=202)
async def pause_connector(connector_id: PathConnector, context: CurrentContext) -> ConnectorOut:
    """Stop the scheduled runs of a connector."""
    return await _set_enabled(context, connector_id, enabled=False)


@router.post("/{connector_id}/resume", status_code=202)
async def resume_connector(connector_id: PathConnector, context: CurrentContext) -> ConnectorOut:
    """Resume the scheduled runs of a connector."""
    return await _set_enabled(context, connector_id, enabled=True)


async def _set_enabled(context: ApiContext, connector_id: ConnectorId, *, enabled: bool) -> ConnectorOut:
    changes = ConnectorChanges(enabled=enabled)
    return ConnectorOut.of(
        await admin.change(context.db, context.vault, context.connector_registry, connector_id, changes)
    )


@router.get("/{connector_id}/runs")
async def list_runs(
    connector_id: PathConnector, context: CurrentContext, limit: Limit = 100, cursor: UUID | None = None
) -> Page[RunOut]:
    """List the runs of a connector, newest first."""
    async with context.db.connection() as tx:
        await admin.require_connector(tx, connector_id)
        page_runs = await admin.find_runs(
            tx, connector_id, limit=limit, before=RunId(cursor) if cursor else None
        )
    return page_of(page_runs, limit, RunOut.of)


@router.get("/{connector_id}/failures")
async def list_failures(
    connector_id: PathConnector,
    context: CurrentContext,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Page[FailureOut]:
    """List the documents that could not be read, ordered by their source id."""
    async with context.db.connection() as tx:
        await admin.require_connector(tx, connector_id)
        page_failures = await admin.find_failures(tx, connector_id, limit=limit, after=cursor)
    return page_of(page_failures, limit, FailureOut.of, cursor=lambda failure: failure.source_id)


@router.get("/{connector_id}/groups")
async def list_groups(
    connector_id: PathConnector, context: CurrentContext, limit: Limit = 100, cursor: UUID | None = None
) -> Page[ToolGroupOut]:
    """List the groups of the source that access lists name."""
    async with context.db.connection() as tx:
        await admin.require_connector(tx, connector_id)
        page_groups = await admin.find_groups(tx, connector_id, limit=limit, after=cursor)
    return page_of(page_groups, limit, ToolGroupOut.of)


@router.get("/{connector_id}/identities")
async def list_identities(
    connector_id: PathConnector,
    context: CurrentContext,
    unmapped: bool = False,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Page[IdentityOut]:
    """List the accounts that permissions of the source name, but whose email the source does not reveal."""
    async with context.db.connection() as tx:
        await admin.require_connector(tx, connector_id)
        page_identities = await admin.find_identities(
            tx, connector_id, limit=limit, after=cursor, unmapped=unmapped
        )
    return page_of(page_identities, limit, IdentityOut.of, cursor=lambda identity: identity.user_id)


@router.put("/{connector_id}/identities/{user_id}")
async def map_identity(
    connector_id: PathConnector, user_id: str, body: IdentityIn, context: CurrentContext
) -> IdentityOut:
    """Set the email of an account. The permissions of its documents change at once."""
    return IdentityOut.of(await admin.map_identity(context.db, connector_id, user_id, body.email))


@router.post("/{connector_id}/identities/import")
async def import_identities(
    connector_id: PathConnector, body: IdentitiesIn, context: CurrentContext
) -> MappingOut:
    """Set the emails of many accounts by a CSV file. The permissions of their documents change at once."""
    return MappingOut.of(await people.import_csv(context.db, connector_id, body.csv, dry_run=body.dry_run))


@router.post("/{connector_id}/identities/match")
async def match_identities(
    connector_id: PathConnector,
    context: CurrentContext,
    body: Annotated[MatchIn, Body(default_factory=MatchIn)],
) -> MappingOut:
    """Set the emails of accounts that have the user name, the external id or the address of one user."""
    return MappingOut.of(await people.match_users(context.db, connector_id, dry_run=body.dry_run))


@runs.get("/{run_id}")
async def get_run(run_id: PathRun, context: CurrentContext) -> RunOut:
    """Get a run with its progress."""
    async with context.db.connection() as tx:
        return RunOut.of(await admin.require_run(tx, run_id))


@runs.get("/{run_id}/logs")
async def list_lines(
    run_id: PathRun,
    context: CurrentContext,
    limit: Limit = 100,
    cursor: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
) -> Page[LineOut]:
    """List the log lines of a run, oldest first."""
    async with context.db.connection() as tx:
        await admin.require_run(tx, run_id)
        page_lines = await admin.find_log_lines(tx, run_id, limit=limit, after=cursor)
    return page_of(page_lines, limit, LineOut.of, cursor=lambda line: line.no)


async def _check_account(check: Awaitable[str]) -> CheckOut:
    try:
        account = await check
    except WorkError as error:
        return CheckOut(ok=False, account=None, error=ErrorBody.of(error))
    return CheckOut(ok=True, account=account, error=None)


def _plaintext_credentials(secrets: Credentials) -> dict[str, Any]:
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in secrets.items()
    }
