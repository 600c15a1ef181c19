"""Shares of bases, and what a user may do."""

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import StringConstraints

from gristmill.catalog.shares import BaseRole
from gristmill.operations.share import AccessReason, NamedShare, UserAccess
from gristmill.server.api.schemas.common import ApiModel, RequestModel

PrincipalText = Annotated[str, StringConstraints(min_length=1, max_length=310)]


class ShareIn(RequestModel):
    """With whom to share a base, and as what."""

    principal: PrincipalText
    role: BaseRole


class OwnRoleOut(ApiModel):
    """What the caller may do with a base."""

    role: BaseRole


class ShareOut(ApiModel):
    """An entry of a base's access list. Without a `role`, whoever it names has their own. `exists` is false for a user or group that
    was deleted."""

    principal: str
    type: Literal["organisation", "user", "email", "group", "team"]
    name: str
    email: str | None
    role: BaseRole | None
    exists: bool

    @classmethod
    def of(cls, named: NamedShare) -> Self:
        """Show a share."""
        kind = named.share.principal.partition(":")[0]
        types = {"org": "organisation", "user_email": "email", "tool_group": "group"}
        return cls.model_validate(
            {
                "principal": named.share.principal,
                "type": types.get(kind, kind),
                "name": named.name,
                "email": named.email,
                "role": named.share.role,
                "exists": named.exists,
            }
        )


class Shares(ApiModel):
    """All shares of a base."""

    items: list[ShareOut]


class AccessReasonOut(ApiModel):
    """An entry that names the user, with the groups `through` which it does, from the nearest on."""

    principal: str
    name: str
    role: BaseRole | None
    through: list[str]

    @classmethod
    def of(cls, reason: AccessReason) -> Self:
        """Show a reason."""
        share = reason.share
        return cls(
            principal=share.share.principal, name=share.name, role=share.share.role, through=reason.through
        )


class UserAccessOut(ApiModel):
    """What a user may do with an item or base, and why. `role` is null if they see nothing of it. `listItemId` is the item whose
    access list applies; null for the base's."""

    base_id: UUID
    allowed: bool
    role: BaseRole | None
    list_item_id: UUID | None
    reasons: list[AccessReasonOut]
    explanation: str

    @classmethod
    def of(cls, user_access: UserAccess) -> Self:
        """Show what a user may do."""
        return cls(
            base_id=user_access.base_id,
            allowed=user_access.role is not None,
            role=user_access.role,
            list_item_id=user_access.list_item,
            reasons=[AccessReasonOut.of(reason) for reason in user_access.reasons],
            explanation=user_access.explanation,
        )
