"""`/api/session`: sign a browser in with a key, show the caller, sign out."""

from datetime import timedelta

from fastapi import Request, Response

from gristmill import identity
from gristmill.db import Tx
from gristmill.errors import NotAuthenticated
from gristmill.identity import LOCAL_ORG, audit
from gristmill.server.api import caller as callers
from gristmill.server.api.caller import COOKIE, Caller
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.keys import SessionIn, SessionOut

router = ApiRouter("/api/session", tag="keys")


@router.post("", status_code=201)
async def open_session(
    body: SessionIn, context: CurrentContext, request: Request, response: Response
) -> SessionOut:
    """Sign a browser in with a key. The session cookie is not readable by scripts and not sent by other sites' pages."""
    caller = await _authenticate(body.key, context, request)
    assert caller.key is not None
    lifetime: timedelta = context.settings.session_life
    async with context.db.transaction() as tx:
        token = await identity.open_session(tx, caller.key.id, lifetime)
        await _record_sign_in(tx, request, caller, status=201)
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(lifetime.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return SessionOut.of(caller, context.settings.allowed_paths)


async def _authenticate(key: str, context: ApiContext, request: Request) -> Caller:
    """The caller with this key. After many wrong keys, from one address or for one key, nothing is looked up."""
    address, prefix = _client_address(request) or "", identity.secret_prefix(key)
    context.sign_in_limits.check(address, prefix)
    try:
        return await callers.authenticate(context.db, key)
    except NotAuthenticated:
        context.sign_in_limits.record_failure(address, prefix)
        async with context.db.transaction() as tx:
            await _record_sign_in(tx, request, None, status=401)
        raise


async def _record_sign_in(tx: Tx, request: Request, caller: Caller | None, *, status: int) -> None:
    """Write the audit log: of the key's organisation, or of the local one if the key is wrong."""
    if callers.current_caller(request.scope) is not None:
        return  # the middleware has recorded the request
    await audit.record_sign_in(
        tx,
        LOCAL_ORG if caller is None else caller.org,
        actor="anonymous" if caller is None else caller.actor,
        key_id=None if caller is None else caller.key_id,
        role="none" if caller is None else caller.role,
        path=request.url.path,
        client=_client_address(request),
        status=status,
    )


def _client_address(request: Request) -> str | None:
    return None if request.client is None else request.client.host


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
