"""`/api/session/oidc`: sign in at the OpenID provider.

    GET /api/session/oidc             records state, nonce and verifier, gives the browser a cookie, and sends it to the provider
    GET /api/session/oidc/callback    takes the record, which works once and in that browser only, checks the provider's response,
                                      opens a session and sends the browser to the page that it wanted

A failure sends the browser to the sign-in page, which explains the code in the address. The cookie binds the response to the browser
that began, so that no one can be signed in to an account that is not theirs.
"""

import logging
import re
from typing import Annotated
from urllib.parse import quote

from fastapi import Query, Request
from starlette.responses import RedirectResponse

from gristmill import identity
from gristmill.errors import LimitReached
from gristmill.identity import provisioning, sign_ins
from gristmill.identity.open_id import OpenIdProvider, SignInFailed
from gristmill.server.api import caller as callers
from gristmill.server.api.context import ApiContext, CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.sessions import (
    client_address,
    end_earlier_session,
    is_https,
    open_for,
    record_sign_in,
    set_session_cookie,
)

router = ApiRouter("/api/session/oidc", tag="keys")
log = logging.getLogger(__name__)
PATH = "/api/session/oidc"
_COOKIE = "gristmill_sign_in"
_OWN_PATH = re.compile(r"/(?![/\\])[!-~]*")
Parameter = Annotated[str, Query(max_length=4096)]


@router.get("", status_code=303, response_class=RedirectResponse)
async def begin_open_id_sign_in(
    context: CurrentContext,
    request: Request,
    next_path: Annotated[str, Query(alias="next", max_length=1000)] = "/",
) -> RedirectResponse:
    """Send the browser to the OpenID provider; afterwards it returns to the page `next` of this server."""
    next_path = next_path if _OWN_PATH.fullmatch(next_path) else "/"
    try:
        provider = _provider(context)
        context.sign_in_limits.take_redirect(client_address(request) or "")
        async with context.db.transaction() as tx:
            new = await sign_ins.begin_sign_in(tx, next_path)
        response = RedirectResponse(
            await provider.sign_in_address(new, _callback(context, request)), status_code=303
        )
    except SignInFailed as error:
        return _failure_page(error)
    except LimitReached:
        return _to_sign_in_page("too_many_sign_ins")
    response.set_cookie(
        _COOKIE,
        new.browser,
        max_age=int(sign_ins.PENDING_LIFE.total_seconds()),
        path=PATH,
        httponly=True,
        samesite="lax",  # the provider's page sends the browser back
        secure=is_https(context.settings, request),
    )
    return response


@router.get("/callback", status_code=303, response_class=RedirectResponse)
async def finish_open_id_sign_in(
    context: CurrentContext,
    request: Request,
    state: Parameter = "",
    code: Parameter = "",
    error: Parameter = "",
    iss: Parameter = "",
) -> RedirectResponse:
    """Take the provider's response (`state`, and a `code` or an `error`), and open a session."""
    try:
        if iss and iss != context.settings.oidc_issuer:  # RFC 9207: it answers for another provider
            raise SignInFailed("open_id_failed", f"the response comes from {iss[:100]!r}")
        response = await _finish(context, request, state, code, error)
    except SignInFailed as failure:
        async with context.db.transaction() as tx:
            await record_sign_in(tx, request, None, status=401)
        response = _failure_page(failure)
    response.delete_cookie(_COOKIE, path=PATH, httponly=True, samesite="lax")
    return response


async def _finish(
    context: ApiContext, request: Request, state: str, code: str, error: str
) -> RedirectResponse:
    provider = _provider(context)
    async with context.db.transaction() as tx:
        pending = await sign_ins.take_sign_in(tx, state, request.cookies.get(_COOKIE, ""))
    if pending is None:
        raise SignInFailed("open_id_expired", "no sign-in with this state was begun in this browser")
    if error or not code:
        raise SignInFailed("open_id_denied", f"the provider answered {error[:100]!r}")
    claims = await provider.exchange(code, pending, _callback(context, request))
    async with context.db.transaction() as tx:
        org = (await identity.ensure_organisation(tx, context.settings.oidc_organisation)).id
        user = await provisioning.provision(tx, org, claims, _rules(context))
        caller = callers.caller_for_user(user)
        token = await open_for(tx, caller, context.settings)
        await end_earlier_session(tx, request)
        await record_sign_in(tx, request, caller, status=201)
    response = RedirectResponse(pending.next_path, status_code=303)
    set_session_cookie(response, token, context.settings, request)
    return response


def _provider(context: ApiContext) -> OpenIdProvider:
    if context.open_id is None:
        raise SignInFailed("open_id_unavailable", "no OpenID provider is configured")
    return context.open_id


def _rules(context: ApiContext) -> provisioning.ClaimRules:
    settings = context.settings
    return provisioning.ClaimRules(
        settings.oidc_issuer or "",
        settings.oidc_groups_claim,
        settings.oidc_groups,
        settings.oidc_roles,
        settings.provisioned_role,
        settings.oidc_trust_email,
    )


def own_address(context: ApiContext, request: Request) -> str:
    """The address at which browsers reach this server."""
    return context.settings.public_url or str(request.base_url).rstrip("/")


def _callback(context: ApiContext, request: Request) -> str:
    return f"{own_address(context, request)}{PATH}/callback"


def _failure_page(failure: SignInFailed) -> RedirectResponse:
    log.warning(
        "a sign-in at the OpenID provider failed", extra={"code": failure.code, "reason": failure.reason}
    )
    return _to_sign_in_page(failure.code)


def _to_sign_in_page(code: str) -> RedirectResponse:
    return RedirectResponse(f"/sign-in?error={quote(code)}", status_code=303)
