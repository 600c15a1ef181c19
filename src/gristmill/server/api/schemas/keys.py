"""API keys, sessions and the audit log."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, SecretStr, StringConstraints, model_validator

from gristmill.catalog import access
from gristmill.errors import FieldError, Invalid
from gristmill.identity import LOCAL_ORG, ApiKey, NewApiKey, Role
from gristmill.identity.audit import AuditAction
from gristmill.server.api.caller import Caller
from gristmill.server.api.schemas.common import (
    ApiModel,
    Name,
    RequestModel,
    StoredModel,
    Timestamp,
)

Email = Annotated[str, StringConstraints(max_length=301)]


Names = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(max_length=500)
]


class Principal(RequestModel):
    """The person, teams and groups a key acts for. Without any, the key sees what the whole organisation may see."""

    email: Email | None = None
    teams: Annotated[Names, Field(default_factory=list)]
    groups: Annotated[Names, Field(default_factory=list)]


class PrincipalOut(ApiModel):
    """The person, teams and groups a key acts for."""

    email: str | None
    teams: list[str]
    groups: list[str]


class NewKeyIn(RequestModel):
    """A key to create."""

    name: Name
    role: Role
    principal: Annotated[Principal, Field(default_factory=Principal.model_construct)]
    expires_at: Timestamp | None = None
    user_id: UUID | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        principal = self.principal
        if self.user_id is not None and (
            self.role == "scim" or principal.email or principal.teams or principal.groups
        ):
            raise ValueError("a key of a user has no principal of its own, and not the role scim")
        return self

    def to_new_key(self) -> NewApiKey:
        """The key to store. Raises `Invalid` when no access list could ever contain the principal, or the key would have
        expired already."""
        _require_future(self.expires_at)
        return self.to_stored()

    def to_stored(self) -> NewApiKey:
        """The key to store, which may have expired."""
        principal = Principal.model_validate(self.principal.model_dump())
        access.member(principal.email, principal.teams, principal.groups)
        email = None if principal.email is None else principal.email.lower()
        return NewApiKey(
            self.name,
            self.role,
            email,
            tuple(principal.teams),
            tuple(principal.groups),
            self.expires_at,
            self.user_id,
        )


class NewOwnKey(RequestModel):
    """A key to create for oneself. Its `role` is one's own by default; the lower of both counts with every request."""

    name: Name
    role: Literal["reader", "editor", "admin"] | None = None
    expires_at: Timestamp | None = None

    def check_expiry(self) -> None:
        """Raise `Invalid` if the key would have expired already."""
        _require_future(self.expires_at)


class ChangedKey(RequestModel):
    """Changes to a key; `expiresAt: null` removes its expiry."""

    name: Name | None = None
    role: Role | None = None
    principal: Principal | None = None
    expires_at: Timestamp | None = None

    def apply_to(self, old: ApiKey) -> NewApiKey:
        """The key after the change. One that has expired can still be changed otherwise."""
        _require_future(self.expires_at)
        principal = self.principal or Principal(email=old.email, teams=old.teams, groups=old.groups)
        expires = self.expires_at if "expires_at" in self.model_fields_set else old.expires_at
        return NewKeyIn(
            name=self.name or old.name,
            role=self.role or old.role,
            principal=principal,
            expires_at=expires,
            user_id=old.user_id,
        ).to_stored()


class KeyOut(StoredModel):
    """A key, recognisable by the first characters of its secret. One with a `userId` acts as that user."""

    name: str
    prefix: str
    role: Role
    user_id: UUID | None
    principal: PrincipalOut
    expires_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        """Show `key`."""
        return cls.model_validate(_key_fields(key))


class NewKeyOut(KeyOut):
    """A new key with its secret, which is never shown again."""

    key: str

    @classmethod
    def with_secret(cls, key: ApiKey, secret: str) -> Self:
        """Show `key` with its secret."""
        return cls.model_validate({**_key_fields(key), "key": secret})


class SessionIn(RequestModel):
    """What to sign in with: a key, or the address and the password of a user."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    email: Annotated[str, StringConstraints(min_length=1, max_length=301)] | None = None
    password: Annotated[SecretStr, Field(min_length=1, max_length=1000)] | None = None
    organisation: Annotated[str, StringConstraints(min_length=1, max_length=200)] = "local"

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if (self.key is None) == (self.email is None) or (self.email is None) != (self.password is None):
            raise ValueError("send either a key, or an email with a password")
        return self


class PasswordChange(RequestModel):
    """A new password, with the one that it replaces."""

    current_password: Annotated[SecretStr, Field(min_length=1, max_length=1000)]
    new_password: Annotated[SecretStr, Field(min_length=1, max_length=1000)]


class OpenIdMethod(ApiModel):
    """The OpenID provider to sign in at: its name, where to go, and where to sign out there too, if it offers that."""

    name: str
    path: str
    sign_out_url: str | None


class SignInMethods(ApiModel):
    """The ways of signing in besides a key."""

    password: bool
    open_id: OpenIdMethod | None


class SignedInUser(ApiModel):
    """The user of a session or key."""

    id: UUID
    name: str
    email: str
    source: Literal["local", "oidc", "scim"]
    has_password: bool


class SessionOut(ApiModel):
    """The caller, and what it may do. `keyId` is null without a key, `user` for a key without an owner; both are null for
    local requests. `operator` means that it manages the whole installation, `serverPaths` that it can add files and
    folders by their path on the server."""

    organisation_id: UUID
    role: Role
    operator: bool
    server_paths: bool
    key_id: UUID | None
    principal: PrincipalOut | None
    user: SignedInUser | None

    @classmethod
    def of(cls, caller: Caller, allowed_paths: Sequence[Path]) -> Self:
        """Show `caller`."""
        return cls(
            organisation_id=caller.org,
            role=caller.role,
            operator=caller.role == "admin" and caller.org == LOCAL_ORG,
            server_paths=caller.is_at_least("editor") and (caller.is_local_user or bool(allowed_paths)),
            key_id=caller.key_id,
            principal=_principal(caller),
            user=None
            if caller.user is None
            else SignedInUser.model_validate(
                {name: getattr(caller.user, name) for name in SignedInUser.model_fields}
            ),
        )


def _principal(caller: Caller) -> PrincipalOut | None:
    if caller.user is not None:
        groups = [str(group) for group in caller.user.groups]
        return PrincipalOut(email=caller.user.email, teams=[], groups=groups)
    key = caller.key
    return None if key is None else PrincipalOut(email=key.email, teams=key.teams, groups=key.groups)


class AuditOut(ApiModel):
    """What was done with a request; `status` is null while it runs, or when the server died meanwhile."""

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
    action: AuditAction


def _require_future(expires_at: datetime | None) -> None:
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise Invalid(
            "The key would have expired already. Send an expiresAt in the future, or none.",
            fields=[FieldError("expiresAt", "must be in the future")],
        )


def _key_fields(key: ApiKey) -> dict[str, object]:
    principal = {"email": key.email, "teams": key.teams, "groups": key.groups}
    return {**vars(key), "principal": principal}
