"""Who asks: an organisation, a role and a pair of eyes; found once, at the entrance.

    comes in with                       is
    Authorization: Bearer gm_…          that key
    the cookie of a session             the key that opened it; changes only from a page of this host
    nothing, on loopback                admin of the local organisation, if the server itself is bound to loopback and
                                        nobody forwards for others
    nothing, else                       nobody

A key that is no admin's sees what access lists allow: what is for everybody of the organisation, and for its principal.

Who reads is looked up at most once a second: a key that is revoked elsewhere reads for that long. Who changes something is looked
up each time.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from typing import cast
from uuid import UUID

from starlette.datastructures import Headers
from starlette.types import Scope

from gristmill import identity
from gristmill.catalog import Viewer, access
from gristmill.db import Database
from gristmill.errors import Forbidden, NotAuthenticated
from gristmill.identity import ROLES, ApiKey, Role
from gristmill.organisation import LOCAL_ORG, OrgId
from gristmill.settings import Settings

COOKIE = "gristmill_session"
_CACHE_SECONDS = 1.0  # seconds: what a revoked key has left, for reading
_MAX_CACHED = 10_000
_FORWARDING_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    org: OrgId
    role: Role
    viewer: Viewer
    actor: str  # as the log of what was asked names it
    key: ApiKey | None = None
    token: str | None = None  # of the session

    @property
    def identifier(self) -> str:
        """By which what is kept for it is known."""
        return "local" if self.key is None else str(self.key.id)

    @property
    def key_id(self) -> UUID | None:
        """Its key, if it has one."""
        return None if self.key is None else self.key.id

    def is_at_least(self, role: Role) -> bool:
        """Whether its role may what `role` may."""
        return ROLES.index(self.role) >= ROLES.index(role)


class CallerCache:
    """Who came in during the last second, by what they showed. Who comes while that is looked up waits for the same look."""

    def __init__(self) -> None:
        self._callers: dict[str, tuple[float, Caller]] = {}
        self._lookups: dict[str, asyncio.Task[Caller]] = {}

    async def get(self, secret: str, load: Callable[[], Coroutine[None, None, Caller]]) -> Caller:
        """Whose this is, found by `look` unless that was asked a moment ago."""
        cached_at, caller = self._callers.get(secret, (0.0, None))
        if caller is not None and monotonic() - cached_at < _CACHE_SECONDS:
            return caller
        task = self._lookups.get(secret)
        if task is None:
            task = self._lookups[secret] = asyncio.create_task(load())
            task.add_done_callback(lambda task_done: self._store(secret, task_done))
        return await asyncio.shield(task)

    def clear(self) -> None:
        """Something was changed: it may have been a key. What is being looked up may have been read before."""
        self._callers.clear()
        self._lookups.clear()

    def _store(self, secret: str, task: "asyncio.Task[Caller]") -> None:
        if self._lookups.get(secret) is not task:
            return  # forgotten meanwhile
        del self._lookups[secret]
        if task.cancelled() or task.exception() is not None:
            return
        if len(self._callers) >= _MAX_CACHED:
            self._callers.clear()
        self._callers[secret] = (monotonic(), task.result())


LOCAL_ADMIN = Caller(LOCAL_ORG, "admin", Viewer(None, LOCAL_ORG), "local")


async def identify(
    db: Database, settings: Settings, scope: Scope, cache: CallerCache | None = None
) -> Caller | None:
    """Who sent a request; None for nobody, `Unauthorised` for who shows a key that is none. Those that are `known` are not
    looked up."""
    headers = Headers(scope=scope)
    authorization = headers.get("authorization")
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer" or not identity.is_key_secret(secret.strip()):
            raise _bad_key()
        secret = secret.strip()
        if cache is None:
            return await authenticate(db, secret)
        return await cache.get(secret, lambda: authenticate(db, secret))
    token = _session_token(headers)
    if token is not None and (caller := await _find_by_session(db, token)) is not None:
        _require_same_origin(scope, headers)
        return caller
    return LOCAL_ADMIN if _is_local_request(settings, scope, headers) else None


async def authenticate(db: Database, secret: str) -> Caller:
    """Who has this key."""
    async with db.connection() as tx:
        key = await identity.find_key_by_secret(tx, secret)
    if key is None:
        raise _bad_key()
    return caller_for_key(key, f"key:{key.prefix}")


def caller_for_key(key: ApiKey, actor: str, token: str | None = None) -> Caller:
    """Who comes in by a key."""
    viewer = (
        Viewer(None, key.org_id)
        if key.role == "admin"
        else access.member(key.email, key.teams, key.groups, key.org_id)
    )
    return Caller(key.org_id, key.role, viewer, actor, key, token)


def current_caller(scope: Mapping[str, object]) -> Caller | None:
    """The caller that the entrance found."""
    state = cast("Mapping[str, object]", scope.get("state", {}))
    return cast("Caller | None", state.get("caller"))


async def _find_by_session(db: Database, token: str) -> Caller | None:
    async with db.connection() as tx:
        key = await identity.find_key_by_session(tx, token)
    if key is None:
        return None
    return caller_for_key(key, f"session:{key.prefix}", token)


def _require_same_origin(scope: Scope, headers: Headers) -> None:
    """A browser sends cookies by itself: a change must say that it comes from one of our pages."""
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return
    # The gate has refused an Origin that is not ours; a browser without one tells at least where it is.
    if "origin" not in headers and headers.get("sec-fetch-site") != "same-origin":
        raise Forbidden(
            "A change by a session must come from a page of this host. Programs use a key.", code="no_origin"
        )


def _session_token(headers: Headers) -> str | None:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if morsel is None or not identity.is_key_secret(morsel.value) else morsel.value


def _is_local_request(settings: Settings, scope: Scope, headers: Headers) -> bool:
    client = scope.get("client")
    return (
        not settings.require_key
        and is_loopback(settings.host)
        and (client is None or is_loopback(str(client[0])))
        and not any(name in headers for name in _FORWARDING_HEADERS)
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bad_key() -> NotAuthenticated:
    return NotAuthenticated(
        "This key is unknown, was revoked or has expired. Ask an admin for another.", code="bad_key"
    )
