"""`/api/api-keys`: the keys of the organisation."""

from uuid import UUID

from fastapi import Response

from gristmill import identity
from gristmill.errors import NotFound
from gristmill.identity import ApiKey, KeyId, UserId
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathKey
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Limit, Page, page_of
from gristmill.server.api.schemas.keys import ChangedKey, KeyOut, NewKeyIn, NewKeyOut

router = ApiRouter("/api", tag="keys")


@router.post("/api-keys", status_code=201)
async def create_key(body: NewKeyIn, context: CurrentContext, caller: CurrentCaller) -> NewKeyOut:
    """Create a key. Only this response contains its secret."""
    async with context.db.transaction() as tx:
        if body.user_id is not None:
            await identity.users.require_user(tx, caller.org, UserId(body.user_id))
        key, secret = await identity.insert_key(tx, caller.org, body.to_new_key())
    return NewKeyOut.with_secret(key, secret)


@router.get("/api-keys")
async def list_keys(
    context: CurrentContext, caller: CurrentCaller, limit: Limit = 100, cursor: UUID | None = None
) -> Page[KeyOut]:
    """List the keys of the organisation, oldest first."""
    async with context.db.connection() as tx:
        page_keys = await identity.list_keys(
            tx, caller.org, limit=limit, after=None if cursor is None else KeyId(cursor)
        )
    return page_of(page_keys, limit, KeyOut.of)


@router.get("/api-keys/{key_id}")
async def get_key(
    key_id: PathKey, context: CurrentContext, caller: CurrentCaller, response: Response
) -> KeyOut:
    """Get a key, without its secret."""
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
    """Change the name, role, principal or expiry of a key, effective from its next request. Its secret stays the same."""
    async with context.db.transaction() as tx:
        old = _require_key(await identity.find_key(tx, caller.org, key_id, lock=True), key_id)
        check_if_match(if_match, old.updated_at)
        changed = _require_key(await identity.change_key(tx, caller.org, key_id, body.apply_to(old)), key_id)
    set_etag(response, changed.updated_at)
    return KeyOut.of(changed)


@router.delete("/api-keys/{key_id}", status_code=204)
async def delete_key(key_id: PathKey, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Revoke a key and end the sessions that it opened."""
    async with context.db.transaction() as tx:
        await identity.delete_key(tx, caller.org, key_id)
    return Response(status_code=204)


def _require_key(key: ApiKey | None, key_id: KeyId) -> ApiKey:
    if key is None:
        raise NotFound(f"There is no key {key_id}.", code="key_not_found")
    return key
