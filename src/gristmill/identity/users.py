"""Users: the people of an organisation.

A user is `user:{id}` and `user_email:{address}` in access lists, and every group that contains them. One who is not active can do
nothing: sessions end, keys are refused. Keys and sessions of a deleted user are deleted with them, in one transaction.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NewType
from uuid import UUID

from psycopg.errors import UniqueViolation

from gristmill.db import Tx
from gristmill.errors import Conflict, NotFound
from gristmill.identity.organisation import OrgId
from gristmill.identity.store import queries

UserId = NewType("UserId", UUID)
UserRole = Literal["admin", "editor", "reader"]
Source = Literal["local", "oidc", "scim"]


@dataclass(frozen=True)
class User:
    """A row of `user_account`, without its password."""

    id: UserId
    org_id: OrgId
    user_name: str
    email: str
    name: str
    role: UserRole
    active: bool
    source: Source
    external_id: str | None
    has_password: bool
    signed_in_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class ActiveUser(User):
    """A user with the ids of all groups that contain them, directly or through other groups, and of those of tools."""

    groups: list[UUID]
    tool_groups: list[str]


@dataclass(frozen=True)
class UserFields:
    """The fields of a user that can be changed."""

    email: str
    name: str
    role: UserRole = "reader"
    user_name: str | None = None  # the address by default
    active: bool = True
    source: Source = "local"
    external_id: str | None = None


def fields_of(user: User) -> UserFields:
    """The fields of a user, to change some of them."""
    return UserFields(
        user.email, user.name, user.role, user.user_name, user.active, user.source, user.external_id
    )


async def insert_user(
    tx: Tx, org: OrgId, new: UserFields, *, subject: str | None = None, password_hash: str | None = None
) -> User:
    """Create a user. Raises `Conflict` when the address, the name or the external id is taken."""
    user = await queries.maybe(
        tx, User, "insert_user", org=org, subject=subject, password_hash=password_hash, **_parameters(new)
    )
    if user is None:
        raise _name_conflict(new)
    return user


async def change_user(tx: Tx, org: OrgId, user_id: UserId, changed: UserFields) -> User:
    """Change a user. Sessions of one who is not active any more end; their keys are refused meanwhile."""
    try:
        user = await queries.maybe(tx, User, "change_user", org=org, id=user_id, **_parameters(changed))
    except UniqueViolation:
        raise _name_conflict(changed) from None
    if user is None:
        raise no_such_user(user_id)
    if not user.active:
        await end_user_sessions(tx, user_id)
    return user


async def set_active(tx: Tx, user: User, *, active: bool) -> User:
    """Let a user in, or shut them out."""
    return await change_user(tx, user.org_id, user.id, replace(fields_of(user), active=active))


async def find_user(tx: Tx, org: OrgId, user_id: UserId, *, lock: bool = False) -> User | None:
    """A user of an organisation; with `lock`, locked until the transaction ends."""
    return await queries.maybe(tx, User, "lock_user" if lock else "find_user", org=org, id=user_id)


async def require_user(tx: Tx, org: OrgId, user_id: UserId, *, lock: bool = False) -> User:
    """The same, but raises `NotFound`."""
    user = await find_user(tx, org, user_id, lock=lock)
    if user is None:
        raise no_such_user(user_id)
    return user


async def find_user_by(
    tx: Tx, org: OrgId, field: Literal["email", "user_name", "external_id", "subject"], value: str
) -> User | None:
    """The user with this address, name or id; addresses and names in any case."""
    return await queries.maybe(tx, User, f"find_user_by_{field}", org=org, value=value)


async def list_users(
    tx: Tx, org: OrgId, *, limit: int, after: UserId | None = None, text: str | None = None
) -> list[User]:
    """Users in the order of their creation; with `text`, those who have it in their name or address."""
    return await queries.many(tx, User, "list_users", org=org, limit=limit, after=after, text=text)


async def users_page(tx: Tx, org: OrgId, *, offset: int, limit: int) -> list[User]:
    """Users in the order of their creation, from a position."""
    return await queries.many(tx, User, "users_page", org=org, offset=offset, limit=limit)


async def count_users(tx: Tx, org: OrgId) -> int:
    """The number of users of an organisation."""
    return (await queries.values(tx, "count_users", org=org))[0]


async def users_of(tx: Tx, org: OrgId, ids: list[UUID]) -> list[User]:
    """Those of these users that belong to the organisation."""
    return await queries.many(tx, User, "users_of", org=org, ids=ids)


async def delete_user(tx: Tx, org: OrgId, user_id: UserId) -> bool:
    """Delete a user with their keys, sessions and memberships; False when there is no such user."""
    return bool(await queries.values(tx, "delete_user", org=org, id=user_id))


async def find_active_user(tx: Tx, user_id: UserId) -> ActiveUser | None:
    """A user with all groups; None when they don't exist or are not active."""
    return await queries.maybe(tx, ActiveUser, "find_active_user", id=user_id)


async def find_member(tx: Tx, org: OrgId, email: str) -> ActiveUser | None:
    """The user of an address with all groups; check `active`."""
    return await queries.maybe(tx, ActiveUser, "find_member", org=org, email=email)


async def set_password(tx: Tx, org: OrgId, user_id: UserId, password_hash: str | None) -> None:
    """Give a user another password, or none."""
    if not await queries.values(tx, "set_password", org=org, id=user_id, password_hash=password_hash):
        raise no_such_user(user_id)


@dataclass(frozen=True)
class StoredPassword:
    """The hash of a user's password."""

    user_id: UserId
    hash: str


async def find_password(tx: Tx, org: OrgId, login: str) -> StoredPassword | None:
    """The password of the active user with this address or name."""
    row = await queries.maybe(tx, _PasswordRow, "find_password", org=org, login=login)
    return None if row is None else StoredPassword(row.id, row.password_hash)


@dataclass(frozen=True)
class _PasswordRow:
    id: UserId
    password_hash: str


async def link_subject(tx: Tx, user_id: UserId, subject: str) -> bool:
    """Record who a user is at the OpenID provider; False when they are someone else there."""
    return bool(await queries.values(tx, "link_subject", id=user_id, subject=subject))


async def has_passwords(tx: Tx) -> bool:
    """Whether an active user has a password."""
    return (await queries.values(tx, "has_passwords"))[0]


async def has_active_admin(tx: Tx) -> bool:
    """Whether an active user is an admin."""
    return (await queries.values(tx, "has_active_admin"))[0]


async def end_user_sessions(tx: Tx, user_id: UserId, *, keep: bytes | None = None) -> int:
    """End all sessions of a user, except for the one with the hash `keep`; how many ended."""
    return await queries.run(tx, "end_user_sessions", user=user_id, **{"except": keep})


def no_such_user(user_id: object) -> NotFound:
    """The error for an unknown user."""
    return NotFound(f"There is no user {str(user_id)!r}.", code="user_not_found")


def _name_conflict(fields: UserFields) -> Conflict:
    return Conflict(
        f"There is a user with the address {fields.email}, or with the same name at the identity provider, already.",
        code="user_exists",
    )


def _parameters(fields: UserFields) -> dict[str, object]:
    return {
        "user_name": fields.user_name or fields.email,
        "email": fields.email.lower(),
        "name": fields.name,
        "role": fields.role,
        "active": fields.active,
        "source": fields.source,
        "external_id": fields.external_id,
    }
