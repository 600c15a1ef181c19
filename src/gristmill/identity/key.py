"""An API key: a secret that authenticates its holder with a role, and as a principal for access lists.

    role      may
    reader    read and search
    editor    also add, delete and re-index
    admin     everything else in its organisation too; sees all of it
    scim      create, change and remove users and groups by SCIM, and nothing else

A key may belong to a user. It then acts as that user, with the lower of both roles, and ends with them.

The secret is 32 random bytes. It is returned once and stored as its SHA-256, which is enough for a secret that can't be
guessed. Later only its first characters are shown.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType
from uuid import UUID

from gristmill.identity.organisation import OrgId

KeyId = NewType("KeyId", UUID)
Role = Literal["admin", "editor", "reader", "scim"]
ROLES: tuple[Role, ...] = ("reader", "editor", "admin")  # each includes those before it; scim includes none

_KEY_PREFIX = "gm_"
_SHOWN_LENGTH = 11


@dataclass(frozen=True)
class ApiKey:
    """A row of `api_key`, without its hash."""

    id: KeyId
    org_id: OrgId
    name: str
    prefix: str
    role: Role
    user_id: UUID | None
    email: str | None
    teams: list[str]
    groups: list[str]
    expires_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class ActiveKey(ApiKey):
    """A key that was presented, with the groups of tools that contain its address; None where there can be none."""

    tool_groups: list[str] | None


@dataclass(frozen=True)
class NewApiKey:
    """The fields of a key that its creator chooses."""

    name: str
    role: Role
    email: str | None = None
    teams: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    expires_at: datetime | None = None
    user_id: UUID | None = None


def new_secret() -> str:
    """A random secret."""
    return _KEY_PREFIX + secrets.token_urlsafe(32)


def is_key_secret(secret: str) -> bool:
    """Whether it has the form of a key's secret."""
    return secret.startswith(_KEY_PREFIX)


def secret_prefix(secret: str) -> str:
    """The part of a secret that is shown."""
    return secret[:_SHOWN_LENGTH]


def secret_hash(secret: str) -> bytes:
    """The part of a secret that is stored."""
    return hashlib.sha256(secret.encode()).digest()


def lower_role(first: Role, second: Role) -> Role:
    """The role with fewer rights."""
    if "scim" in (first, second):
        return "scim"
    return first if ROLES.index(first) <= ROLES.index(second) else second
