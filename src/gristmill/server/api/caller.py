"""The caller of a request: an organisation, a role and a viewer, identified once per request.

    the request has                     its caller is
    Authorization: Bearer gm_…          that key
    a session cookie                    the user or the key that opened the session; changes only from a page of this host
    neither, from the local user        admin of the local organisation; below /v1 and /dify also with a bearer token that is
                                        not one of our keys, because the clients of these APIs insist on sending one
    neither, otherwise                  none

A request is the local user's if no key is required, the server is bound to loopback, the request came from loopback and was
addressed to it, and nothing about it says that a proxy forwarded it. A proxy on loopback that adds no header can't be
recognised: behind one, `require_key` has to be set.

An admin sees everything of its organisation. Users, and keys that belong to one, see what access lists allow the whole
organisation, the user and their groups. Other keys see what lists allow the organisation and the principal of the key. Groups of
tools that contain the address of a user or of a key come with their lookup.

A key is looked up for every request. Direct reads (`direct_reads.py`) reuse a lookup of the last second, because their statement
checks that the key has not changed since. So a key that is revoked anywhere can do nothing from that moment on; an open event stream
asks for its caller again (`routes/events.py`). Keys of users, and keys whose address a group of a tool may contain, are never reused:
their groups may have changed.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from typing import cast
from urllib.parse import urlsplit
from uuid import UUID

from starlette.datastructures import Headers
from starlette.types import Scope

from gristmill import identity
from gristmill.catalog import Viewer, access
from gristmill.db import Database, Tx
from gristmill.errors import Forbidden, NotAuthenticated
from gristmill.identity import LOCAL_ORG, ROLES, ActiveKey, ActiveUser, OrgId, Role, UserId
from gristmill.settings import Settings

_COMPATIBLE_PATHS = ("/v1/", "/dify/")
COOKIE = "gristmill_session"
_CACHE_SECONDS = 1.0
_MAX_CACHED = 10_000
# Headers that proxies, load balancers and tunnels add.
_FORWARDING_HEADERS = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-envoy-external-address",
        "true-client-ip",
        "client-ip",
        "cf-connecting-ip",
        "fastly-client-ip",
    }
)
_FORWARDING_PREFIX = "x-forwarded-"


@dataclass(frozen=True)
class Caller:
    """The organisation, role and viewer of a request."""

    org: OrgId
    role: Role
    viewer: Viewer
    actor: str  # the name in the audit log
    key: ActiveKey | None = None
    token: str | None = None  # the session token
    user: ActiveUser | None = None

    @property
    def identifier(self) -> str:
        """The name under which rate limits and idempotency keys of this caller are stored."""
        if self.key is not None:
            return str(self.key.id)
        return "local" if self.user is None else f"user:{self.user.id}"

    @property
    def is_local_user(self) -> bool:
        """Whether it is the user of this machine: a request without credentials, on loopback, that no proxy forwarded."""
        return self.key is None and self.user is None

    @property
    def key_id(self) -> UUID | None:
        """The id of its key, if it has one."""
        return None if self.key is None else self.key.id

    @property
    def owner(self) -> str:
        """The name under which things of this caller's own are stored: the person that its key acts for, else the key itself."""
        if self.user is not None:
            return f"user:{self.user.id}"
        if self.key is None:
            return "local"
        return f"key:{self.key.id}" if self.key.email is None else f"user_email:{self.key.email}"

    @property
    def is_reusable(self) -> bool:
        """Whether nothing but a change of its key can change what it sees: no group that it may join or leave."""
        return self.user is None and (self.key is None or self.key.tool_groups is None)

    def is_at_least(self, role: Role) -> bool:
        """Whether its role includes the rights of `role`."""
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)


class CallerCache:
    """Callers of the last second, by secret. Concurrent requests with one secret share one lookup."""

    def __init__(self) -> None:
        self._callers: dict[str, tuple[float, Caller]] = {}
        self._lookups: dict[str, asyncio.Task[Caller]] = {}

    async def get(self, secret: str, load: Callable[[], Coroutine[None, None, Caller]]) -> Caller:
        """The caller with this secret, from the cache or from `load`."""
        cached_at, caller = self._callers.get(secret, (0.0, None))
        if caller is not None and monotonic() - cached_at < _CACHE_SECONDS:
            return caller
        task = self._lookups.get(secret)
        is_shared = task is not None
        if task is None:
            task = self._lookups[secret] = asyncio.create_task(load())
            task.add_done_callback(lambda task_done: self._store(secret, task_done))
        caller = await asyncio.shield(task)
        if is_shared and not caller.is_reusable:
            return await load()  # the other lookup began earlier, perhaps before a change of groups
        return caller

    def clear(self) -> None:
        """Forget all callers, and the results of lookups that are under way: a key may have changed."""
        self._callers.clear()
        self._lookups.clear()

    def _store(self, secret: str, task: "asyncio.Task[Caller]") -> None:
        if self._lookups.get(secret) is not task:
            return  # the cache was cleared meanwhile
        del self._lookups[secret]
        if task.cancelled() or task.exception() is not None or not task.result().is_reusable:
            return
        if len(self._callers) >= _MAX_CACHED:
            self._callers.clear()
        self._callers[secret] = (monotonic(), task.result())


LOCAL_ADMIN = Caller(LOCAL_ORG, "admin", Viewer(None, LOCAL_ORG), "local")


async def identify(
    db: Database, settings: Settings, scope: Scope, cache: CallerCache | None = None
) -> Caller | None:
    """The caller of a request, or None. Raises `NotAuthenticated` for a key that is not valid. With `cache`, a recent
    lookup is reused."""
    headers = Headers(scope=scope)
    authorization = headers.get("authorization")
    if authorization is not None and not _is_placeholder(authorization, settings, scope, headers):
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer" or not identity.is_key_secret(secret.strip()):
            raise _bad_key()
        secret = secret.strip()
        if cache is None:
            return await authenticate(db, secret)
        return await cache.get(secret, lambda: authenticate(db, secret))
    token = _session_token(headers)
    if token is not None and (caller := await _find_by_session(db, settings, token)) is not None:
        _require_same_origin(scope, headers)
        return caller
    return LOCAL_ADMIN if _is_local_request(settings, scope, headers) else None


async def authenticate(db: Database, secret: str) -> Caller:
    """The caller with this key. Raises `NotAuthenticated` when the key is not valid."""
    async with db.connection() as tx:
        key = await identity.find_key_by_secret(tx, secret)
        if key is None:
            raise _bad_key()
        caller = await _caller_for_key(tx, key, f"key:{key.prefix}")
    if caller is None:
        raise _bad_key()
    return caller


async def _caller_for_key(tx: Tx, key: ActiveKey, actor: str, token: str | None = None) -> Caller | None:
    """The caller that a key authenticates; None when its user is not active."""
    if key.user_id is not None:
        user = await identity.users.find_active_user(tx, UserId(key.user_id))
        if user is None:
            return None
        role = identity.lower_role(key.role, user.role)
        return Caller(key.org_id, role, _viewer(user, role), actor, key, token, user)
    viewer = (
        Viewer(None, key.org_id)
        if key.role == "admin"
        else Viewer(frozenset(), key.org_id)
        if key.role == "scim"
        else access.member(key.email, key.teams, key.groups, key.org_id, key.tool_groups or ())
    )
    return Caller(key.org_id, key.role, viewer, actor, key, token)


def caller_for_user(user: ActiveUser, token: str | None = None) -> Caller:
    """The caller of a user who has signed in."""
    return Caller(user.org_id, user.role, _viewer(user, user.role), user.email, None, token, user)


def _viewer(user: ActiveUser, role: Role) -> Viewer:
    if role == "admin":
        return Viewer(None, user.org_id)
    return Viewer(frozenset(), user.org_id) if role == "scim" else access.viewer_of_user(user)


def current_caller(scope: Mapping[str, object]) -> Caller | None:
    """The caller that the request context middleware identified."""
    state = cast("Mapping[str, object]", scope.get("state", {}))
    return cast("Caller | None", state.get("caller"))


async def _find_by_session(db: Database, settings: Settings, token: str) -> Caller | None:
    async with db.connection() as tx:
        user = await identity.sign_ins.find_user_by_session(tx, token, settings.session_idle)
        if user is not None:
            return caller_for_user(user, token)
        key = await identity.find_key_by_session(tx, token, settings.session_idle)
        return None if key is None else await _caller_for_key(tx, key, f"session:{key.prefix}", token)


def _require_same_origin(scope: Scope, headers: Headers) -> None:
    """Protect against CSRF: browsers attach cookies to requests of other sites' pages, too."""
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return
    # HostGuard has rejected foreign Origins. Browsers that send no Origin send Sec-Fetch-Site.
    if "origin" not in headers and headers.get("sec-fetch-site") != "same-origin":
        raise Forbidden(
            "This change was not sent by a page of this server. Use the web UI, or send an API key instead of the cookie.",
            code="no_origin",
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
        and is_loopback(host_name(headers.get("host", "")))
        and not _is_forwarded(scope, headers)
    )


def _is_placeholder(authorization: str, settings: Settings, scope: Scope, headers: Headers) -> bool:
    """Whether a local request to a compatible API has a key only because its client can't do without one."""
    return (
        scope["path"].startswith(_COMPATIBLE_PATHS)
        and authorization.lower().startswith("bearer ")
        and not identity.is_key_secret(authorization[7:].strip())
        and _is_local_request(settings, scope, headers)
    )


def _is_forwarded(scope: Scope, headers: Headers) -> bool:
    if scope.get("http_version") == "1.0":  # how nginx forwards by default, without any header of its own
        return True
    return any(
        name in _FORWARDING_HEADERS or name.startswith(_FORWARDING_PREFIX)
        for name in map(str.lower, headers.keys())
    )


def host_name(host: str) -> str:
    """The name or address in a `Host` header, without the port; empty if there is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:  # such as "["
        return ""


def is_loopback(host: str) -> bool:
    """Whether the address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bad_key() -> NotAuthenticated:
    return NotAuthenticated(
        "This API key is unknown, revoked or expired. Ask an admin for a new one.", code="bad_key"
    )
