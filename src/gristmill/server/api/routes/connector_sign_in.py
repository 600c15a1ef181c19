"""`/api/connectors/{connector_id}/sign-in` and `/api/oauth/callback`: people sign in at the tool of a connector.

An admin gets the address of the tool's page. The person who opens it may be someone else, in another browser: the sealed `state`
shows which connector an admin meant. The tool sends the browser to the callback, which needs no session for that reason. A failure
sends it to the list of connectors, which explains the code in the address.
"""

import logging
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import RedirectResponse

from gristmill.connectors import admin, oauth
from gristmill.errors import RequestError, WorkError
from gristmill.server.api.context import CurrentContext, PathConnector
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.open_id import own_address
from gristmill.server.api.schemas.connectors import SignInOut

router = ApiRouter("/api/connectors", tag="connectors")
callback = ApiRouter("/api/oauth", tag="connectors")
log = logging.getLogger(__name__)
Parameter = Annotated[str, Query(max_length=8192)]


@router.post("/{connector_id}/sign-in")
async def begin_connector_sign_in(
    connector_id: PathConnector, context: CurrentContext, request: Request
) -> SignInOut:
    """Get the address at which a person lets the connector read on their behalf, within ten minutes."""
    async with context.db.connection() as tx:
        connector = await admin.require_connector(tx, connector_id)
    redirect_uri = f"{own_address(context, request)}/api/oauth/callback"
    url = await oauth.begin_sign_in(context.vault, context.connector_registry, connector, redirect_uri)
    return SignInOut(url=url, redirect_uri=redirect_uri)


@callback.get("/callback", status_code=303, response_class=RedirectResponse)
async def finish_connector_sign_in(
    context: CurrentContext, state: Parameter = "", code: Parameter = "", error: Parameter = ""
) -> RedirectResponse:
    """Take the tool's response (`state`, and a `code` or an `error`), store the token, and show the connector."""
    if error or not code:
        log.warning("the tool refused a sign-in", extra={"reason": error[:100]})
        return _failure_page("oauth_denied")
    try:
        connector = await oauth.finish_sign_in(
            context.db, context.vault, context.connector_registry, state, code
        )
    except (RequestError, WorkError) as failure:  # the latter: the tool did not respond
        log.warning("a sign-in at a tool failed", extra={"code": failure.code, "reason": failure.message})
        return _failure_page(failure.code)
    return RedirectResponse(f"/connectors/{connector.id}", status_code=303)


def _failure_page(code: str) -> RedirectResponse:
    return RedirectResponse(f"/connectors?error={code}", status_code=303)
