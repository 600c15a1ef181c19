"""Organisations, keys and sessions, one function per question or change, in the caller's transaction."""

from datetime import timedelta

from gristmill.db import Queries, Tx
from gristmill.identity.key import (
    ApiKey,
    KeyId,
    NewApiKey,
    new_secret,
    secret_hash,
    shown_prefix,
)
from gristmill.identity.organisation import Organisation, OrgId

queries = Queries(__package__ or "gristmill.identity")


async def find_organisation(tx: Tx, name: str) -> Organisation | None:
    """The organisation of this name, whatever its case."""
    return await queries.maybe(tx, Organisation, "organisation", name=name)


async def ensure_organisation(tx: Tx, name: str) -> Organisation:
    """The organisation of this name, which is made when there is none."""
    await queries.run(tx, "make_organisation", name=name)
    organisation = await find_organisation(tx, name)
    assert organisation is not None
    return organisation


async def list_organisations(tx: Tx) -> list[Organisation]:
    """All of them: for who has the database, never for who comes in."""
    return await queries.many(tx, Organisation, "organisations")


async def insert_key(tx: Tx, org: OrgId, new: NewApiKey) -> tuple[ApiKey, str]:
    """A new key, and its secret, which nobody can be told again."""
    secret = new_secret()
    key = await queries.one(
        tx,
        ApiKey,
        "insert_key",
        org=org,
        prefix=shown_prefix(secret),
        hash=secret_hash(secret),
        **_key_parameters(new),
    )
    return key, secret


async def change_key(tx: Tx, org: OrgId, key_id: KeyId, new: NewApiKey) -> ApiKey | None:
    """Make a key something else; its secret stays."""
    return await queries.maybe(tx, ApiKey, "change_key", org=org, id=key_id, **_key_parameters(new))


async def find_key(tx: Tx, org: OrgId, key_id: KeyId, *, lock: bool = False) -> ApiKey | None:
    """A key of an organisation; with `lock`, the caller's alone until the transaction ends."""
    return await queries.maybe(tx, ApiKey, "lock_key" if lock else "key", org=org, id=key_id)


async def list_keys(tx: Tx, org: OrgId, *, limit: int, after: KeyId | None = None) -> list[ApiKey]:
    """Keys of an organisation in the order of their making."""
    return await queries.many(tx, ApiKey, "keys", org=org, limit=limit, after=after)


async def delete_key(tx: Tx, org: OrgId, key_id: KeyId) -> bool:
    """Revoke a key, and end the sessions that it opened; False when there is none."""
    return bool(await queries.values(tx, "delete_key", org=org, id=key_id))


async def find_key_by_secret(tx: Tx, secret: str) -> ApiKey | None:
    """The key of this secret, unless it has expired; it is noted that it was used."""
    return await queries.maybe(tx, ApiKey, "key_by_hash", hash=secret_hash(secret))


async def has_admin_key(tx: Tx) -> bool:
    """Whether there is an admin's key that has not expired."""
    return (await queries.values(tx, "is_protected"))[0]


async def open_session(tx: Tx, key_id: KeyId, life: timedelta) -> str:
    """Let a browser in for a while; what its cookie holds."""
    token = new_secret()
    await queries.run(tx, "sweep_sessions")
    await queries.run(tx, "open_session", hash=secret_hash(token), key=key_id, life=life)
    return token


async def find_key_by_session(tx: Tx, token: str) -> ApiKey | None:
    """The key that opened this session, unless one of them has ended; it is noted that it was used."""
    return await queries.maybe(tx, ApiKey, "key_by_session", hash=secret_hash(token))


async def end_session(tx: Tx, token: str) -> None:
    """Let a browser in no more."""
    await queries.run(tx, "end_session", hash=secret_hash(token))


def _key_parameters(new: NewApiKey) -> dict[str, object]:
    return {
        "name": new.name,
        "role": new.role,
        "email": new.email,
        "teams": list(new.teams),
        "groups": list(new.groups),
        "expires_at": new.expires_at,
    }
