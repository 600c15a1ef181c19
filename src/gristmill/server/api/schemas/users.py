"""Users and groups."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from gristmill.catalog import access
from gristmill.identity import Group, User, UserFields, UserRole, users
from gristmill.identity.groups import GroupMember
from gristmill.server.api.schemas.common import ApiModel, Name, RequestModel, StoredModel


def _address(text: str) -> str:
    access.member(text)  # rejects an address that no access list can name
    return text.lower()


EmailAddress = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=3, max_length=301), AfterValidator(_address)
]
Password = Annotated[SecretStr, Field(min_length=1, max_length=1000)]
UserSource = Literal["local", "oidc", "scim"]


class NewUserIn(RequestModel):
    """A user to create; without a password they sign in through the OpenID provider."""

    email: EmailAddress
    name: Name | None = None
    role: UserRole = "reader"
    password: Password | None = None

    def to_fields(self) -> UserFields:
        """The fields to store."""
        return UserFields(self.email, self.name or self.email.partition("@")[0], self.role)


class ChangedUser(RequestModel):
    """Changes to a user. `active: false` ends their sessions and suspends their keys. A new password ends their sessions."""

    email: EmailAddress | None = None
    name: Name | None = None
    role: UserRole | None = None
    active: bool | None = None
    password: Password | None = None

    def apply_to(self, user: User) -> UserFields:
        """The fields after the change."""
        fields = users.fields_of(user)
        return replace(
            fields,
            email=self.email or fields.email,
            user_name=self.email if self.email and user.user_name.lower() == user.email else fields.user_name,
            name=self.name or fields.name,
            role=self.role or fields.role,
            active=fields.active if self.active is None else self.active,
        )


class UserOut(StoredModel):
    """A user. `userName` is their name at the identity provider, `externalId` their id there."""

    user_name: str
    email: str
    name: str
    role: UserRole
    active: bool
    source: UserSource
    external_id: str | None
    has_password: bool
    signed_in_at: datetime | None

    @classmethod
    def of(cls, user: User) -> Self:
        """Show `user`."""
        return cls.model_validate({name: getattr(user, name) for name in cls.model_fields})


class GroupRef(ApiModel):
    """A group, by id and name."""

    id: UUID
    name: str


class UserDetail(UserOut):
    """A user with the groups that they are a direct member of."""

    groups: list[GroupRef]

    @classmethod
    def with_groups(cls, user: User, groups: list[Group]) -> Self:
        """Show `user` with their groups."""
        shown = [GroupRef(id=group.id, name=group.name) for group in groups]
        return cls.model_validate({**UserOut.of(user).model_dump(), "groups": shown})


class EndedSessions(ApiModel):
    """How many sessions ended."""

    ended: int


class NewGroupIn(RequestModel):
    """A group to create or to rename."""

    name: Name


class GroupOut(StoredModel):
    """A group, with the number of its direct members."""

    name: str
    source: UserSource
    external_id: str | None
    member_count: int

    @classmethod
    def of(cls, group: Group) -> Self:
        """Show `group`."""
        return cls.model_validate(vars(group))


class MembersIn(RequestModel):
    """Users and groups to add to a group."""

    user_ids: Annotated[list[UUID], Field(default_factory=list, max_length=1000)]
    group_ids: Annotated[list[UUID], Field(default_factory=list, max_length=1000)]


class MemberOut(ApiModel):
    """A direct member of a group; `source` says how it became one."""

    id: UUID
    type: Literal["user", "group"]
    name: str
    email: str | None
    active: bool
    source: UserSource

    @classmethod
    def of(cls, member: GroupMember) -> Self:
        """Show `member`."""
        return cls.model_validate(vars(member))
