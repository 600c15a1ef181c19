"""An API key: a secret that lets somebody in, as a role, with the eyes of a principal.

    role      may
    reader    read and search
    editor    and add, delete and re-index
    admin     and everything else in its organisation; sees all of it

The secret is 32 random bytes, told once and kept as its SHA-256: that is enough for what nobody can guess. What is shown of
it later is its beginning.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType
from uuid import UUID

from gristmill.organisation import OrgId

KeyId = NewType("KeyId", UUID)
Role = Literal["admin", "editor", "reader"]
ROLES: tuple[Role, ...] = ("reader", "editor", "admin")  # each may what those before it may

_KEY_PREFIX = "gm_"
_SHOWN_LENGTH = 11


@dataclass(frozen=True)
class Organisation:
    """A row of `organisation`."""

    id: OrgId
    name: str
    created_at: datetime


@dataclass(frozen=True)
class ApiKey:
    """A row of `api_key`, without its hash."""

    id: KeyId
    org_id: OrgId
    name: str
    prefix: str
    role: Role
    email: str | None
    teams: list[str]
    groups: list[str]
    expires_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class NewApiKey:
    """What a key is to be."""

    name: str
    role: Role
    email: str | None = None
    teams: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    expires_at: datetime | None = None


def new_secret() -> str:
    """A secret that nobody can guess."""
    return _KEY_PREFIX + secrets.token_urlsafe(32)


def is_key_secret(secret: str) -> bool:
    """Whether it has the form of a key's secret."""
    return secret.startswith(_KEY_PREFIX)


def shown_prefix(secret: str) -> str:
    """What is shown of a secret."""
    return secret[:_SHOWN_LENGTH]


def secret_hash(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).digest()
