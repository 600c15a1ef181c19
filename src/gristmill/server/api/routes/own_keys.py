"""`/api/session/keys`: the keys that a person makes for their own programs. They act as that person, and end with them."""

from uuid import UUID

from fastapi import Response

from gristmill import identity
from gristmill.errors import Forbidden, NotFound
from gristmill.identity import NewApiKey
from gristmill.identity.key import lower_role
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathKey
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Limit, Page, page_of
from gristmill.server.api.schemas.keys import KeyOut, NewKeyOut, NewOwnKey

router = ApiRouter("/api/session", tag="keys")


@router.get("/keys")
async def list_own_keys(
    context: CurrentContext, caller: CurrentCaller, limit: Limit = 100, cursor: UUID | None = None
) -> Page[KeyOut]:
    """List the keys of the person who is signed in, oldest first; none for callers who are not a person."""
    if caller.user is None:
        return Page(items=[], next_cursor=None)
    async with context.db.connection() as tx:
        keys = await identity.list_user_keys(tx, caller.user.id, limit=limit, after=cursor)
    return page_of(keys, limit, KeyOut.of)


@router.post("/keys", status_code=201)
async def create_own_key(body: NewOwnKey, context: CurrentContext, caller: CurrentCaller) -> NewKeyOut:
    """Create a key that acts as the person who is signed in, with at most their role. Only this response contains its secret."""
    user_id = _require_user(caller)
    if caller.key is not None:
        raise Forbidden(
            "A key can't create keys. Sign in as yourself, and create it there.", code="sign_in_required"
        )
    body.check_expiry()
    role = lower_role(body.role or caller.role, caller.role)
    new = NewApiKey(body.name, role, expires_at=body.expires_at, user_id=user_id)
    async with context.db.transaction() as tx:
        key, secret = await identity.insert_key(tx, caller.org, new)
    return NewKeyOut.with_secret(key, secret)


@router.delete("/keys/{key_id}", status_code=204)
async def delete_own_key(key_id: PathKey, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Revoke a key of the person who is signed in."""
    user_id = _require_user(caller)
    async with context.db.transaction() as tx:
        key = await identity.find_key(tx, caller.org, key_id)
        if key is None or key.user_id != user_id:
            raise NotFound(f"There is no key {key_id} of yours.", code="key_not_found")
        await identity.delete_key(tx, caller.org, key_id)
    return Response(status_code=204)


def _require_user(caller: Caller) -> UUID:
    if caller.user is None:
        raise Forbidden(
            "Keys of one's own are for people who are signed in. Ask an admin for a key.",
            code="sign_in_required",
        )
    return caller.user.id
