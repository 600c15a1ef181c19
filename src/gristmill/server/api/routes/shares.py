"""`/api/knowledge-bases/{base_id}/shares`: with whom a base is shared; and what a user may do, and why."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from gristmill.catalog import BaseId, ItemId
from gristmill.catalog import shares as base_shares
from gristmill.errors import FieldError, Invalid
from gristmill.operations import guards
from gristmill.operations import share as operations
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathBase, PathUser
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.shares import (
    OwnRoleOut,
    PrincipalText,
    ShareIn,
    ShareOut,
    Shares,
    UserAccessOut,
)

router = ApiRouter("/api", tag="users")


@router.get("/knowledge-bases/{base_id}/shares")
async def list_shares(base_id: PathBase, context: CurrentContext, caller: CurrentCaller) -> Shares:
    """List with whom a base is shared, with names."""
    async with context.db.connection() as tx:
        entries = await base_shares.list_shares(tx, base_id)
        named = await operations.with_names(tx, caller.org, entries)
    return Shares(items=[ShareOut.of(entry) for entry in named])


@router.get("/knowledge-bases/{base_id}/role")
async def get_own_role(base_id: PathBase, context: CurrentContext, caller: CurrentCaller) -> OwnRoleOut:
    """Say what the caller may do with a base: as its reader, editor or owner. Admins own every base."""
    own = "editor" if caller.role == "editor" else "reader"
    async with context.db.connection() as tx:
        await guards.require_base(tx, base_id, caller.viewer)
        if caller.viewer.is_admin:
            return OwnRoleOut(role="owner")
        return OwnRoleOut(role=await base_shares.base_role(tx, base_id, caller.viewer, own))


@router.put("/knowledge-bases/{base_id}/shares")
async def share_base(
    base_id: PathBase, body: ShareIn, context: CurrentContext, caller: CurrentCaller
) -> ShareOut:
    """Share a base with a person or a group as reader, editor or owner, or change what they may do."""
    return ShareOut.of(await operations.share(context.db, base_id, caller.org, body.principal, body.role))


@router.delete("/knowledge-bases/{base_id}/shares", status_code=204)
async def unshare_base(
    base_id: PathBase,
    principal: Annotated[PrincipalText, Query()],
    context: CurrentContext,
    caller: CurrentCaller,
) -> Response:
    """Stop sharing a base with a person or a group."""
    await operations.unshare(context.db, base_id, caller.org, principal)
    return Response(status_code=204)


@router.get("/users/{account_id}/access")
async def explain_access(
    account_id: PathUser,
    context: CurrentContext,
    caller: CurrentCaller,
    item_id: Annotated[UUID | None, Query(alias="itemId")] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
) -> UserAccessOut:
    """Say what a user may do with an item or a base, and why."""
    if (item_id is None) == (base_id is None):
        raise Invalid(
            "Send either itemId or baseId.", fields=[FieldError("itemId", "must be sent, or baseId instead")]
        )
    async with context.db.connection() as tx:
        user_access = await operations.explain_access(
            tx,
            caller.org,
            account_id,
            base_id=None if base_id is None else BaseId(base_id),
            item_id=None if item_id is None else ItemId(item_id),
        )
    return UserAccessOut.of(user_access)
