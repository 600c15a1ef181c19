"""Organisations, keys and sessions: one function per question or change, in the caller's transaction."""

from datetime import timedelta
from uuid import UUID

from gristmill.db import Queries, Tx
from gristmill.identity.key import (
    ActiveKey,
    ApiKey,
    KeyId,
    NewApiKey,
    new_secret,
    secret_hash,
    secret_prefix,
)
from gristmill.identity.organisation import Organisation, OrgId

queries = Queries(__package__ or "gristmill.identity")


async def find_organisation(tx: Tx, name: str) -> Organisation | None:
    """The organisation of this name, in any case."""
    return await queries.maybe(tx, Organisation, "find_organisation", name=name)


async def ensure_organisation(tx: Tx, name: str) -> Organisation:
    """The organisation of this name, created if it does not exist."""
    await queries.run(tx, "ensure_organisation", name=name)
    organisation = await find_organisation(tx, name)
    assert organisation is not None
    return organisation


async def list_organisations(tx: Tx) -> list[Organisation]:
    """All organisations: for operators with access to the database, never for API callers."""
    return await queries.many(tx, Organisation, "list_organisations")


async def insert_key(tx: Tx, org: OrgId, new: NewApiKey) -> tuple[ApiKey, str]:
    """A new key, and its secret, which can't be shown again."""
    secret = new_secret()
    key = await queries.one(
        tx,
        ApiKey,
        "insert_key",
        org=org,
        prefix=secret_prefix(secret),
        hash=secret_hash(secret),
        **_key_parameters(new),
    )
    return key, secret


async def change_key(tx: Tx, org: OrgId, key_id: KeyId, new: NewApiKey) -> ApiKey | None:
    """Change a key; its secret stays."""
    return await queries.maybe(tx, ApiKey, "change_key", org=org, id=key_id, **_key_parameters(new))


async def find_key(tx: Tx, org: OrgId, key_id: KeyId, *, lock: bool = False) -> ApiKey | None:
    """A key of an organisation; with `lock`, locked until the transaction ends."""
    return await queries.maybe(tx, ApiKey, "lock_key" if lock else "find_key", org=org, id=key_id)


async def list_keys(tx: Tx, org: OrgId, *, limit: int, after: KeyId | None = None) -> list[ApiKey]:
    """Keys of an organisation in the order of their creation."""
    return await queries.many(tx, ApiKey, "list_keys", org=org, limit=limit, after=after)


async def list_user_keys(
    tx: Tx, user_id: UUID, *, limit: int | None = None, after: UUID | None = None
) -> list[ApiKey]:
    """Keys of a user in the order of their creation; all of them without a limit."""
    return await queries.many(tx, ApiKey, "list_user_keys", user=user_id, limit=limit, after=after)


async def delete_key(tx: Tx, org: OrgId, key_id: KeyId) -> bool:
    """Revoke a key, and end its sessions; False when it does not exist."""
    return bool(await queries.values(tx, "delete_key", org=org, id=key_id))


async def find_key_by_secret(tx: Tx, secret: str) -> ActiveKey | None:
    """The key of this secret, unless it has expired; records that it was used."""
    return await queries.maybe(tx, ActiveKey, "find_key_by_hash", hash=secret_hash(secret))


async def has_admin_key(tx: Tx) -> bool:
    """Whether an admin key exists that has not expired."""
    return (await queries.values(tx, "has_admin_key"))[0]


async def open_session(tx: Tx, key_id: KeyId, life: timedelta) -> str:
    """Open a browser session; the token for its cookie."""
    token = new_secret()
    await queries.run(tx, "sweep_sessions")
    await queries.run(tx, "open_session", hash=secret_hash(token), key=key_id, life=life)
    return token


async def find_key_by_session(tx: Tx, token: str, idle: timedelta) -> ActiveKey | None:
    """The key that opened this session, unless either has ended; records that it was used."""
    return await queries.maybe(tx, ActiveKey, "find_key_by_session", hash=secret_hash(token), idle=idle)


async def end_session(tx: Tx, token: str) -> None:
    """End a browser session."""
    await queries.run(tx, "end_session", hash=secret_hash(token))


def _key_parameters(new: NewApiKey) -> dict[str, object]:
    return {
        "name": new.name,
        "role": new.role,
        "user_id": new.user_id,
        "email": new.email,
        "teams": list(new.teams),
        "groups": list(new.groups),
        "expires_at": new.expires_at,
    }
