"""`/api/api-keys`, `/api/session` and `/api/audit`: who may come in, who has, and what they asked for."""

from datetime import datetime, timedelta
from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints

from gristmill import identity
from gristmill.catalog import access
from gristmill.errors import NotFound
from gristmill.identity import ApiKey, KeyId, NewApiKey, Role, audit
from gristmill.server.api import caller as callers
from gristmill.server.api.caller import COOKIE
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathKey
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.schemas.common import (
    ApiModel,
    Limit,
    Name,
    Page,
    RequestModel,
    StoredModel,
    Timestamp,
)

router = APIRouter(tags=["keys"])

Email = Annotated[str, StringConstraints(max_length=301)]
Names = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(max_length=500)
]


class Principal(RequestModel):
    """Whose eyes a key has; without one, those of everybody in the organisation."""

    email: Email | None = None
    teams: Annotated[Names, Field(default_factory=list)]
    groups: Annotated[Names, Field(default_factory=list)]


class PrincipalOut(ApiModel):
    """Whose eyes a key has."""

    email: str | None
    teams: list[str]
    groups: list[str]


class NewKeyIn(RequestModel):
    """A key to make."""

    name: Name
    role: Role
    principal: Annotated[Principal, Field(default_factory=Principal.model_construct)]
    expires_at: Timestamp | None = None

    def to_new_key(self) -> NewApiKey:
        """As it is kept; `Invalid` when the principal could never be in a list."""
        principal = Principal.model_validate(self.principal.model_dump())
        access.member(principal.email, principal.teams, principal.groups)
        email = None if principal.email is None else principal.email.lower()
        return NewApiKey(
            self.name, self.role, email, tuple(principal.teams), tuple(principal.groups), self.expires_at
        )


class ChangedKey(RequestModel):
    """What to change of a key; `expiresAt: null` lets it live on."""

    name: Name | None = None
    role: Role | None = None
    principal: Principal | None = None
    expires_at: Timestamp | None = None

    def apply_to(self, old: ApiKey) -> NewApiKey:
        """The key after the change."""
        principal = self.principal or Principal(email=old.email, teams=old.teams, groups=old.groups)
        expires = self.expires_at if "expires_at" in self.model_fields_set else old.expires_at
        return NewKeyIn(
            name=self.name or old.name, role=self.role or old.role, principal=principal, expires_at=expires
        ).to_new_key()


class KeyOut(StoredModel):
    """A key as it is shown: by the beginning of its secret."""

    name: str
    prefix: str
    role: Role
    principal: PrincipalOut
    expires_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        """Show `key`."""
        return cls.model_validate(_key_fields(key))


class NewKeyOut(KeyOut):
    """A key that was just made, with its secret: the only time that it is shown."""

    key: str


class SessionIn(RequestModel):
    """The key to come in with."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class SessionOut(ApiModel):
    """Who comes in: `keyId` is null for a neighbour on loopback."""

    organisation_id: UUID
    role: Role
    key_id: UUID | None
    principal: PrincipalOut | None


class AuditOut(ApiModel):
    """Something that was asked for; `status` is null when nobody knows what came of it."""

    id: UUID
    at: datetime
    actor: str
    key_id: UUID | None
    role: str
    method: str
    path: str
    client: str | None
    status: int | None
    took_ms: int | None


@router.post("/api-keys", status_code=201)
async def create_key(body: NewKeyIn, context: CurrentContext, caller: CurrentCaller) -> NewKeyOut:
    """Make a key. Its secret is in the answer, and nowhere else."""
    async with context.db.transaction() as tx:
        key, secret = await identity.insert_key(tx, caller.org, body.to_new_key())
    return NewKeyOut.model_validate({**_key_fields(key), "key": secret})


@router.get("/api-keys")
async def list_keys(
    context: CurrentContext, caller: CurrentCaller, limit: Limit = 100, cursor: UUID | None = None
) -> Page[KeyOut]:
    """Keys of the organisation, oldest first."""
    async with context.db.connection() as tx:
        page_keys = await identity.list_keys(
            tx, caller.org, limit=limit, after=None if cursor is None else KeyId(cursor)
        )
    return Page(
        items=[KeyOut.of(key) for key in page_keys],
        next_cursor=str(page_keys[-1].id) if len(page_keys) == limit else None,
    )


@router.get("/api-keys/{key_id}")
async def get_key(
    key_id: PathKey, context: CurrentContext, caller: CurrentCaller, response: Response
) -> KeyOut:
    """One key."""
    async with context.db.connection() as tx:
        key = _require_key(await identity.find_key(tx, caller.org, key_id), key_id)
    set_etag(response, key.updated_at)
    return KeyOut.of(key)


@router.patch("/api-keys/{key_id}")
async def change_key(
    key_id: PathKey,
    body: ChangedKey,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    if_match: IfMatch = None,
) -> KeyOut:
    """Change what a key may and sees, from its next request on. Its secret stays."""
    async with context.db.transaction() as tx:
        old = _require_key(await identity.find_key(tx, caller.org, key_id, lock=True), key_id)
        check_if_match(if_match, old.updated_at)
        changed = _require_key(await identity.change_key(tx, caller.org, key_id, body.apply_to(old)), key_id)
    set_etag(response, changed.updated_at)
    return KeyOut.of(changed)


@router.delete("/api-keys/{key_id}", status_code=204)
async def delete_key(key_id: PathKey, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Revoke a key, with the sessions that it opened."""
    async with context.db.transaction() as tx:
        await identity.delete_key(tx, caller.org, key_id)
    return Response(status_code=204)


@router.post("/session", status_code=201)
async def open_session(
    body: SessionIn, context: CurrentContext, request: Request, response: Response
) -> SessionOut:
    """Let a browser in by a key: a cookie that no script can read, and that no other site's page can use."""
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
    return _session_out(caller)


@router.get("/session")
async def get_session(caller: CurrentCaller) -> SessionOut:
    """Who the caller is."""
    return _session_out(caller)


@router.delete("/session", status_code=204)
async def end_session(context: CurrentContext, request: Request) -> Response:
    """Forget the browser."""
    caller = callers.current_caller(request.scope)
    if caller is not None and caller.token is not None:
        async with context.db.transaction() as tx:
            await identity.end_session(tx, caller.token)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


@router.get("/audit")
async def list_audit(
    context: CurrentContext, caller: CurrentCaller, limit: Limit = 100, cursor: UUID | None = None
) -> Page[AuditOut]:
    """What may have changed something in the organisation, newest first."""
    async with context.db.connection() as tx:
        entries = await audit.find_all(tx, caller.org, limit=limit, before=cursor)
    return Page(
        items=[AuditOut.model_validate(vars(entry)) for entry in entries],
        next_cursor=str(entries[-1].id) if len(entries) == limit else None,
    )


def _key_fields(key: ApiKey) -> dict[str, object]:
    principal = {"email": key.email, "teams": key.teams, "groups": key.groups}
    return {**vars(key), "principal": principal}


def _session_out(caller: callers.Caller) -> SessionOut:
    key = caller.key
    return SessionOut(
        organisation_id=caller.org,
        role=caller.role,
        key_id=caller.key_id,
        principal=None if key is None else PrincipalOut(email=key.email, teams=key.teams, groups=key.groups),
    )


def _require_key(key: ApiKey | None, key_id: KeyId) -> ApiKey:
    if key is None:
        raise NotFound(f"There is no key {key_id}.", code="key_not_found")
    return key
