"""`/api/users` and `/api/groups`: the people of the organisation, and groups of people and of other groups."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from gristmill.identity import GroupId, UserId, groups, passwords, users
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathGroup, PathUser
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Limit, Page, page_of
from gristmill.server.api.schemas.users import (
    ChangedUser,
    EndedSessions,
    GroupOut,
    MemberOut,
    MembersIn,
    NewGroupIn,
    NewUserIn,
    UserDetail,
    UserOut,
)

router = ApiRouter("/api/users", tag="users")
group_router = ApiRouter("/api/groups", tag="users")
Text = Annotated[str | None, Query(max_length=200)]


@router.post("", status_code=201)
async def create_user(
    body: NewUserIn, context: CurrentContext, caller: CurrentCaller, response: Response
) -> UserOut:
    """Create a user. With a password they can sign in at once; without one, through the OpenID provider."""
    password = body.password
    password_hash = None if password is None else await passwords.hash_password(password.get_secret_value())
    async with context.db.transaction() as tx:
        user = await users.insert_user(tx, caller.org, body.to_fields(), password_hash=password_hash)
    set_etag(response, user.updated_at)
    return UserOut.of(user)


@router.get("")
async def list_users(
    context: CurrentContext,
    caller: CurrentCaller,
    q: Text = None,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[UserOut]:
    """List the users of the organisation, oldest first; with `q`, those who have it in their name or address."""
    async with context.db.connection() as tx:
        page = await users.list_users(
            tx, caller.org, limit=limit, after=None if cursor is None else UserId(cursor), text=q
        )
    return page_of(page, limit, UserOut.of)


@router.get("/{account_id}")
async def get_user(
    account_id: PathUser, context: CurrentContext, caller: CurrentCaller, response: Response
) -> UserDetail:
    """Get a user with the groups that they are a direct member of."""
    async with context.db.connection() as tx:
        user = await users.require_user(tx, caller.org, account_id)
        direct = await groups.direct_groups(tx, account_id)
    set_etag(response, user.updated_at)
    return UserDetail.with_groups(user, direct)


@router.patch("/{account_id}")
async def change_user(
    account_id: PathUser,
    body: ChangedUser,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    if_match: IfMatch = None,
) -> UserOut:
    """Change a user, effective from their next request. One who is not active can do nothing: their sessions end, and their
    keys are refused until they are active again."""
    password = None if body.password is None else body.password.get_secret_value()
    password_hash = None if password is None else await passwords.hash_password(password)
    async with context.db.transaction() as tx:
        old = await users.require_user(tx, caller.org, account_id, lock=True)
        check_if_match(if_match, old.updated_at)
        if password_hash is not None:
            await users.set_password(tx, caller.org, account_id, password_hash)
            await users.end_user_sessions(tx, account_id)
        user = await users.change_user(tx, caller.org, account_id, body.apply_to(old))
    set_etag(response, user.updated_at)
    return UserOut.of(user)


@router.delete("/{account_id}", status_code=204)
async def delete_user(account_id: PathUser, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Delete a user with their keys, sessions and memberships. What they added stays."""
    async with context.db.transaction() as tx:
        await users.delete_user(tx, caller.org, account_id)
    return Response(status_code=204)


@router.delete("/{account_id}/sessions")
async def end_sessions(account_id: PathUser, context: CurrentContext, caller: CurrentCaller) -> EndedSessions:
    """Sign a user out everywhere."""
    async with context.db.transaction() as tx:
        await users.require_user(tx, caller.org, account_id)
        return EndedSessions(ended=await users.end_user_sessions(tx, account_id))


@group_router.post("", status_code=201)
async def create_group(
    body: NewGroupIn, context: CurrentContext, caller: CurrentCaller, response: Response
) -> GroupOut:
    """Create a group without members."""
    async with context.db.transaction() as tx:
        group = await groups.insert_group(tx, caller.org, body.name)
    set_etag(response, group.updated_at)
    return GroupOut.of(group)


@group_router.get("")
async def list_groups(
    context: CurrentContext,
    caller: CurrentCaller,
    q: Text = None,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[GroupOut]:
    """List the groups of the organisation, oldest first; with `q`, those that have it in their name."""
    async with context.db.connection() as tx:
        page = await groups.list_groups(
            tx, caller.org, limit=limit, after=None if cursor is None else GroupId(cursor), text=q
        )
    return page_of(page, limit, GroupOut.of)


@group_router.get("/{group_id}")
async def get_group(
    group_id: PathGroup, context: CurrentContext, caller: CurrentCaller, response: Response
) -> GroupOut:
    """Get a group."""
    async with context.db.connection() as tx:
        group = await groups.require_group(tx, caller.org, group_id)
    set_etag(response, group.updated_at)
    return GroupOut.of(group)


@group_router.patch("/{group_id}")
async def rename_group(
    group_id: PathGroup,
    body: NewGroupIn,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    if_match: IfMatch = None,
) -> GroupOut:
    """Rename a group. Access lists that name it are not affected."""
    async with context.db.transaction() as tx:
        old = await groups.require_group(tx, caller.org, group_id)
        check_if_match(if_match, old.updated_at)
        group = await groups.change_group(tx, old, name=body.name, external_id=old.external_id)
    set_etag(response, group.updated_at)
    return GroupOut.of(group)


@group_router.delete("/{group_id}", status_code=204)
async def delete_group(group_id: PathGroup, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Delete a group. Its members stay, and lose what they saw only through it."""
    async with context.db.transaction() as tx:
        await groups.delete_group(tx, caller.org, group_id)
    return Response(status_code=204)


@group_router.get("/{group_id}/members")
async def list_members(
    group_id: PathGroup, context: CurrentContext, limit: Limit = 100, cursor: UUID | None = None
) -> Page[MemberOut]:
    """List the direct members of a group: users and groups."""
    async with context.db.connection() as tx:
        members = await groups.list_members(tx, group_id, limit=limit, after=cursor)
    return page_of(members, limit, MemberOut.of)


@group_router.post("/{group_id}/members")
async def add_members(
    group_id: PathGroup, body: MembersIn, context: CurrentContext, caller: CurrentCaller
) -> GroupOut:
    """Add users and groups to a group, effective from their next request."""
    async with context.db.transaction() as tx:
        group = await groups.require_group(tx, caller.org, group_id)
        for user_id in body.user_ids:
            await users.require_user(tx, caller.org, UserId(user_id))
        for child_id in body.group_ids:
            await groups.require_group(tx, caller.org, GroupId(child_id))
        await groups.add_members(tx, group, users=body.user_ids, groups=body.group_ids)
        return GroupOut.of(await groups.require_group(tx, caller.org, group_id))


@group_router.delete("/{group_id}/members/{member_id}", status_code=204)
async def remove_member(
    group_id: PathGroup, member_id: str, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Remove a user or a group from a group, effective from their next request."""
    try:
        member = UUID(member_id)
    except ValueError:
        raise users.no_such_user(member_id) from None
    async with context.db.transaction() as tx:
        group = await groups.require_group(tx, caller.org, group_id)
        await groups.remove_members(tx, group, [member])
    return Response(status_code=204)
