"""`/api/session`: sign a browser in with a key, show the caller, sign out."""

from datetime import timedelta

from fastapi import APIRouter, Request, Response

from gristmill import identity
from gristmill.server.api import caller as callers
from gristmill.server.api.caller import COOKIE
from gristmill.server.api.context import CurrentCaller, CurrentContext
from gristmill.server.api.schemas.keys import SessionIn, SessionOut

router = APIRouter(prefix="/session", tags=["keys"])


@router.post("", status_code=201)
async def open_session(
    body: SessionIn, context: CurrentContext, request: Request, response: Response
) -> SessionOut:
    """Sign a browser in with a key. The session cookie is not readable by scripts and not sent by other sites' pages."""
    caller = await callers.authenticate(context.db, body.key)
    assert caller.key is not None
    lifetime: timedelta = context.settings.session_life
    async with context.db.transaction() as tx:
        token = await identity.open_session(tx, caller.key.id, lifetime)
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(lifetime.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return SessionOut.of(caller, context.settings.allowed_paths)


@router.get("")
async def get_session(context: CurrentContext, caller: CurrentCaller) -> SessionOut:
    """Show the role, the key and the principal of the caller."""
    return SessionOut.of(caller, context.settings.allowed_paths)


@router.delete("", status_code=204)
async def end_session(context: CurrentContext, request: Request) -> Response:
    """Sign the browser out."""
    caller = callers.current_caller(request.scope)
    if caller is not None and caller.token is not None:
        async with context.db.transaction() as tx:
            await identity.end_session(tx, caller.token)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response
