"""`/api/session`: sign a browser in with a key or a password, show the caller, sign out."""

from fastapi import Request, Response

from gristmill import identity
from gristmill.db import Tx
from gristmill.errors import Forbidden, NotAuthenticated
from gristmill.identity import LOCAL_ORG, OrgId, audit, passwords, sign_ins, users
from gristmill.server.api import caller as callers
from gristmill.server.api.caller import COOKIE, Caller
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.keys import (
    OpenIdMethod,
    PasswordChange,
    SessionIn,
    SessionOut,
    SignInMethods,
)
from gristmill.settings import Settings

router = ApiRouter("/api/session", tag="keys")


@router.post("", status_code=201)
async def open_session(
    body: SessionIn, context: CurrentContext, request: Request, response: Response
) -> SessionOut:
    """Sign a browser in with a key, or with the address and the password of a user. The session cookie is not readable by scripts
    and not sent by other sites' pages."""
    if body.key is not None:
        caller = await _authenticate(body.key, context, request)
    else:
        caller = await _check_password(body, context, request)
    async with context.db.transaction() as tx:
        token = await open_for(tx, caller, context.settings)
        await end_earlier_session(tx, request)
        await record_sign_in(tx, request, caller, status=201)
    set_session_cookie(response, token, context.settings, request)
    return SessionOut.of(caller, context.settings.allowed_paths)


async def open_for(tx: Tx, caller: Caller, settings: Settings) -> str:
    """Open a session of a user or of a key; the token for its cookie."""
    if caller.key is not None:
        return await identity.open_session(tx, caller.key.id, settings.session_life)
    assert caller.user is not None
    return await sign_ins.open_user_session(tx, caller.user.id, settings.session_life)


async def end_earlier_session(tx: Tx, request: Request) -> None:
    """End the session that the browser had before: a sign-in never continues one that may be known to others."""
    caller = callers.current_caller(request.scope)
    if caller is not None and caller.token is not None:
        await identity.end_session(tx, caller.token)


def set_session_cookie(response: Response, token: str, settings: Settings, request: Request) -> None:
    """Give the browser its session. Scripts can't read the cookie, and pages of other sites don't send it."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(settings.session_life.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=is_https(settings, request),
    )


def is_https(settings: Settings, request: Request) -> bool:
    """Whether browsers reach this server by HTTPS, perhaps through a proxy."""
    return request.url.scheme == "https" or (settings.public_url or "").startswith("https:")


async def _authenticate(key: str, context: ApiContext, request: Request) -> Caller:
    """The caller with this key. After many wrong keys, from one address or for one key, nothing is looked up."""
    address, prefix = client_address(request) or "", identity.secret_prefix(key)
    context.sign_in_limits.check(address, prefix)
    try:
        return await callers.authenticate(context.db, key)
    except NotAuthenticated:
        context.sign_in_limits.record_failure(address, prefix)
        await _record_failure(context, request)
        raise


async def _check_password(body: SessionIn, context: ApiContext, request: Request) -> Caller:
    """The user with this address and password. An unknown address takes the same time and gets the same response."""
    assert body.email is not None
    assert body.password is not None
    context.sign_in_limits.take_attempt(client_address(request) or "", body.email)
    async with context.db.connection() as tx:
        organisation = await identity.find_organisation(tx, body.organisation)
        org = OrgId(LOCAL_ORG) if organisation is None else organisation.id
        stored = await users.find_password(tx, org, body.email)
    stored_hash = None if stored is None or organisation is None else stored.hash
    is_right = await context.passwords.is_password(body.password.get_secret_value(), stored_hash)
    user = None
    if is_right and stored is not None and context.settings.password_sign_in:
        async with context.db.connection() as tx:
            user = await users.find_active_user(tx, stored.user_id)
    if user is None:
        await _record_failure(context, request)
        raise NotAuthenticated(
            "The address or the password is wrong. Try again.", code="bad_password_or_email"
        )
    return callers.caller_for_user(user)


async def _record_failure(context: ApiContext, request: Request) -> None:
    async with context.db.transaction() as tx:
        await record_sign_in(tx, request, None, status=401)


async def record_sign_in(tx: Tx, request: Request, caller: Caller | None, *, status: int) -> None:
    """Write the audit log: of the caller's organisation, or of the local one if the sign-in failed."""
    if callers.current_caller(request.scope) is not None and request.method != "GET":
        return  # the middleware has recorded the request
    await audit.record_sign_in(
        tx,
        LOCAL_ORG if caller is None else caller.org,
        actor="anonymous" if caller is None else caller.actor,
        key_id=None if caller is None else caller.key_id,
        role="none" if caller is None else caller.role,
        path="/api/sign-in/oidc" if request.method == "GET" else request.url.path,
        client=client_address(request),
        status=status,
    )


def client_address(request: Request) -> str | None:
    """The address that the request came from."""
    return None if request.client is None else request.client.host


@router.get("")
async def get_session(context: CurrentContext, caller: CurrentCaller) -> SessionOut:
    """Show the role, the key, the user and the principal of the caller."""
    return SessionOut.of(caller, context.settings.allowed_paths)


@router.get("/methods")
async def list_methods(context: CurrentContext, request: Request) -> SignInMethods:
    """Show how people can sign in besides a key: with a password, if one of them has one."""
    async with context.db.connection() as tx:
        has_passwords = context.settings.password_sign_in and await users.has_passwords(tx)
    if context.open_id is None:
        return SignInMethods(password=has_passwords, open_id=None)
    address = context.settings.public_url or str(request.base_url).rstrip("/")
    sign_out = await context.open_id.sign_out_address(f"{address}/sign-in")
    provider = OpenIdMethod(name=context.settings.oidc_name, path="/api/session/oidc", sign_out_url=sign_out)
    return SignInMethods(password=has_passwords, open_id=provider)


@router.delete("", status_code=204)
async def end_session(context: CurrentContext, request: Request) -> Response:
    """Sign the browser out."""
    caller = callers.current_caller(request.scope)
    if caller is not None and caller.token is not None:
        async with context.db.transaction() as tx:
            await identity.end_session(tx, caller.token)
    return _sign_out_response()


@router.delete("/all", status_code=204)
async def end_all_sessions(context: CurrentContext, caller: CurrentCaller) -> Response:
    """Sign the user out in all browsers. Their keys stay."""
    if caller.user is None:
        raise _not_a_user()
    async with context.db.transaction() as tx:
        await users.end_user_sessions(tx, caller.user.id)
    return _sign_out_response()


@router.put("/password", status_code=204)
async def change_password(
    body: PasswordChange, context: CurrentContext, caller: CurrentCaller, request: Request
) -> Response:
    """Change the password of the user. Their other sessions end."""
    if caller.user is None or not caller.user.has_password:
        raise _not_a_user()
    user = caller.user
    context.sign_in_limits.take_attempt(client_address(request) or "", user.email)
    async with context.db.connection() as tx:
        stored = await users.find_password(tx, user.org_id, user.email)
    current = body.current_password.get_secret_value()
    if stored is None or not await context.passwords.is_password(current, stored.hash):
        raise Forbidden("The current password is wrong. Try again.", code="wrong_password")
    password_hash = await passwords.hash_password(body.new_password.get_secret_value())
    async with context.db.transaction() as tx:
        await users.set_password(tx, user.org_id, user.id, password_hash)
        keep = None if caller.token is None else identity.secret_hash(caller.token)
        await users.end_user_sessions(tx, user.id, keep=keep)
    return Response(status_code=204)


def _sign_out_response() -> Response:
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _not_a_user() -> Forbidden:
    return Forbidden(
        "This is for users with a password. You are signed in with a key, or through the OpenID provider.",
        code="not_a_user",
    )
