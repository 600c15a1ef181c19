"""`/api/connectors/{connector_id}/push`: tools call it when something changed, and admins set it up.

Anyone may call it: what counts is the proof in the call (`connectors/push.py`). Wrong proofs are limited by address, right ones by
connector.
"""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import SecretStr

from gristmill.connectors import admin, push
from gristmill.connectors.model import ConnectorId
from gristmill.connectors.push import ConnectorPush, PushCall
from gristmill.errors import NotFound
from gristmill.server.api.context import ApiContext, CurrentContext, PathConnector
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.sessions import client_address
from gristmill.server.api.schemas.connector_push import PushOut, PushSecretOut, PushSettingsOut

router = ApiRouter("/api/connectors", tag="connectors")


@router.post("/{connector_id}/push", status_code=202)
async def push_changes(
    connector_id: PathConnector,
    context: CurrentContext,
    request: Request,
    token: Annotated[SecretStr | None, Query(max_length=200)] = None,
) -> PushOut:
    """Report a change in the tool: a run starts at once, or follows the one under way. The call is signed with the secret of the
    connector, or contains it."""
    call = PushCall(
        request.headers, await request.body(), None if token is None else token.get_secret_value()
    )
    try:
        status = await push.accept(
            context.db, context.vault, connector_id, call, lambda: context.push_limits.take(str(connector_id))
        )
    except NotFound:
        # Right proofs are not limited by this: a tool may share its address with others, behind a proxy.
        context.push_limits.take_failure(client_address(request) or "")
        raise
    return PushOut(status=status)


@router.get("/{connector_id}/push")
async def get_push(connector_id: PathConnector, context: CurrentContext, request: Request) -> PushSettingsOut:
    """Show whether a connector's tool may push, and where to."""
    async with context.db.connection() as tx:
        await admin.require_connector(tx, connector_id)
        settings = await push.find_push(tx, connector_id)
    return _settings_out(context, request, connector_id, settings)


@router.post("/{connector_id}/push/secret", status_code=201)
async def create_push_secret(
    connector_id: PathConnector, context: CurrentContext, request: Request
) -> PushSecretOut:
    """Create the secret that pushes prove, or another one in its place. Only this response contains it."""
    settings, secret = await push.create_secret(context.db, context.vault, connector_id)
    shown = _settings_out(context, request, connector_id, settings)
    return PushSecretOut(**shown.model_dump(), secret=secret, url_with_secret=f"{shown.url}?token={secret}")


@router.delete("/{connector_id}/push/secret", status_code=204)
async def delete_push_secret(connector_id: PathConnector, context: CurrentContext) -> Response:
    """Accept no pushes any more."""
    await push.remove_secret(context.db, connector_id)
    return Response(status_code=204)


def _settings_out(
    context: ApiContext, request: Request, connector_id: ConnectorId, settings: ConnectorPush | None
) -> PushSettingsOut:
    address = context.settings.public_url or str(request.base_url).rstrip("/")
    return PushSettingsOut(
        url=f"{address}/api/connectors/{connector_id}/push",
        enabled=settings is not None,
        created_at=None if settings is None else settings.created_at,
        last_push_at=None if settings is None else settings.last_push_at,
    )
