"""The endpoints of SCIM below `/scim/v2`, for keys with the role scim, and for admins.

A user who is deactivated or deleted here is out with the next request: the transaction that the response confirms has ended their
sessions, and their keys are refused. Local admins are not changed by SCIM, so that a mistake at the provider locks no one out.
"""

from collections.abc import Sequence
from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import Depends, Query, Request
from starlette.responses import JSONResponse, Response

from gristmill.db import Tx
from gristmill.errors import Forbidden, Invalid
from gristmill.identity import Group, GroupId, User, UserFields, UserId, groups, users
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import CurrentCaller, CurrentContext, parse_group_id, parse_user_id
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import require_storable
from gristmill.server.compat.scim import resources
from gristmill.server.compat.scim.discovery import RESOURCE_TYPES, SCHEMAS, SERVICE_PROVIDER
from gristmill.server.compat.scim.patch import Change, parse_operations
from gristmill.server.compat.scim.resources import group_resource, list_response, user_resource

router = ApiRouter("/scim/v2", tag="scim")
_MAX_PAGE = 500
Start = Annotated[int, Query(alias="startIndex", le=10_000_000)]
Count = Annotated[int, Query()]
Filter = Annotated[str | None, Query(alias="filter", max_length=1000)]
Excluded = Annotated[str, Query(alias="excludedAttributes", max_length=1000)]


async def _scim_user(scim_user_id: str) -> UserId:
    return await parse_user_id(scim_user_id)


async def _scim_group(scim_group_id: str) -> GroupId:
    return await parse_group_id(scim_group_id)


PathScimUser = Annotated[UserId, Depends(_scim_user)]
PathScimGroup = Annotated[GroupId, Depends(_scim_group)]


def _json(content: Any, status: int = 200, location: str | None = None) -> Response:
    headers = {} if location is None else {"Location": location}
    return JSONResponse(content, status, headers, media_type="application/scim+json")


def _root(request: Request, context: CurrentContext) -> str:
    return f"{context.settings.public_url or str(request.base_url).rstrip('/')}/scim/v2"


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
        require_storable(body, "the body")
    except (ValueError, UnicodeDecodeError):
        body = None
    if not isinstance(body, dict):
        raise Invalid("The body is not a JSON object. Send one.", code="bad_scim_request")
    return cast(dict[str, Any], body)


@router.get("/ServiceProviderConfig", include_in_schema=False)
async def get_configuration() -> Response:
    """What this server supports of SCIM."""
    return _json(SERVICE_PROVIDER)


@router.get("/ResourceTypes", include_in_schema=False)
async def list_resource_types() -> Response:
    """The kinds of resources: users and groups."""
    return _json(list_response(RESOURCE_TYPES, len(RESOURCE_TYPES), 1))


@router.get("/Schemas", include_in_schema=False)
async def list_schemas() -> Response:
    """The attributes of users and groups."""
    return _json(list_response(SCHEMAS, len(SCHEMAS), 1))


# ── users ────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/Users", include_in_schema=False)
async def list_scim_users(
    request: Request,
    context: CurrentContext,
    caller: CurrentCaller,
    start: Start = 1,
    count: Count = 100,
    condition: Filter = None,
) -> Response:
    """List users, or find one by userName, externalId, id or address."""
    root, start = _root(request, context), max(1, start)
    async with context.db.connection() as tx:
        if condition is None:
            total = await users.count_users(tx, caller.org)
            page = await users.users_page(
                tx, caller.org, offset=start - 1, limit=min(max(count, 0), _MAX_PAGE)
            )
        else:
            page = await _find_users(tx, caller, condition)
            total = len(page)
        shown = [user_resource(user, await groups.direct_groups(tx, user.id), root) for user in page]
    return _json(list_response(shown, total, start))


async def _find_users(tx: Tx, caller: Caller, text: str) -> list[User]:
    attribute, value = resources.parse_filter(text)
    match attribute:
        case "username":
            user = await users.find_user_by(tx, caller.org, "user_name", value)
        case "externalid":
            user = await users.find_user_by(tx, caller.org, "external_id", value)
        case "emails.value" | "emails":
            user = await users.find_user_by(tx, caller.org, "email", value)
        case "id":
            user = await users.find_user(tx, caller.org, UserId(UUID(value))) if _is_uuid(value) else None
        case _:
            raise Invalid(
                "Users can be found by userName, externalId, id and emails. Use one of these.",
                code="bad_scim_filter",
            )
    return [] if user is None else [user]


@router.post("/Users", include_in_schema=False)
async def create_scim_user(request: Request, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Create a user, with the role of the setting `provisioned_role`. A password is not taken over."""
    defaults = UserFields("", "", context.settings.provisioned_role, source="scim")
    fields = resources.new_user_fields(await _body(request), defaults)
    async with context.db.transaction() as tx:
        user = await users.insert_user(tx, caller.org, fields)
    resource = user_resource(user, [], _root(request, context))
    return _json(resource, 201, resource["meta"]["location"])


@router.get("/Users/{scim_user_id}", include_in_schema=False)
async def get_scim_user(
    user_id: PathScimUser, request: Request, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Get a user."""
    async with context.db.connection() as tx:
        user = await users.require_user(tx, caller.org, user_id)
        direct = await groups.direct_groups(tx, user_id)
    return _json(user_resource(user, direct, _root(request, context)))


@router.put("/Users/{scim_user_id}", include_in_schema=False)
async def replace_scim_user(
    user_id: PathScimUser, request: Request, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Change a user to what the request says; what it leaves out stays."""
    body = await _body(request)
    async with context.db.transaction() as tx:
        old = await _changeable_user(tx, caller, user_id)
        fields = resources.new_user_fields(body, users.fields_of(old))
        user = await users.change_user(tx, caller.org, user_id, fields)
        direct = await groups.direct_groups(tx, user_id)
    return _json(user_resource(user, direct, _root(request, context)))


@router.patch("/Users/{scim_user_id}", include_in_schema=False)
async def patch_scim_user(
    user_id: PathScimUser, request: Request, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Change attributes of a user."""
    changes = parse_operations(await _body(request))
    async with context.db.transaction() as tx:
        old = await _changeable_user(tx, caller, user_id)
        fields = resources.user_fields_after(changes, users.fields_of(old))
        user = await users.change_user(tx, caller.org, user_id, fields)
        direct = await groups.direct_groups(tx, user_id)
    return _json(user_resource(user, direct, _root(request, context)))


@router.delete("/Users/{scim_user_id}", include_in_schema=False)
async def delete_scim_user(user_id: PathScimUser, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Delete a user with their keys, sessions and memberships."""
    async with context.db.transaction() as tx:
        await _changeable_user(tx, caller, user_id)
        await users.delete_user(tx, caller.org, user_id)
    return Response(status_code=204)


async def _changeable_user(tx: Tx, caller: Caller, user_id: UserId) -> User:
    user = await users.require_user(tx, caller.org, user_id, lock=True)
    if user.source == "local" and user.role == "admin":
        raise Forbidden(
            f"{user.email} is a local admin, whom only Gristmill manages. Give them another role there first.",
            code="scim_local_admin",
        )
    return user


# ── groups ───────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/Groups", include_in_schema=False)
async def list_scim_groups(
    request: Request,
    context: CurrentContext,
    caller: CurrentCaller,
    start: Start = 1,
    count: Count = 100,
    condition: Filter = None,
    excluded: Excluded = "",
) -> Response:
    """List groups, or find one by displayName, externalId or id."""
    root, start = _root(request, context), max(1, start)
    async with context.db.connection() as tx:
        if condition is None:
            total = await groups.count_groups(tx, caller.org)
            limit = min(max(count, 0), _MAX_PAGE)
            page = await groups.groups_page(tx, caller.org, offset=start - 1, limit=limit)
        else:
            page = await _find_groups(tx, caller, condition)
            total = len(page)
        shown = [await _group_json(tx, group, root, excluded) for group in page]
    return _json(list_response(shown, total, start))


async def _find_groups(tx: Tx, caller: Caller, text: str) -> list[Group]:
    attribute, value = resources.parse_filter(text)
    match attribute:
        case "displayname":
            group = await groups.find_group_by(tx, caller.org, name=value)
        case "externalid":
            group = await groups.find_group_by(tx, caller.org, external_id=value)
        case "id":
            group = await groups.find_group(tx, caller.org, GroupId(UUID(value))) if _is_uuid(value) else None
        case _:
            raise Invalid(
                "Groups can be found by displayName, externalId and id. Use one of these.",
                code="bad_scim_filter",
            )
    return [] if group is None else [group]


@router.post("/Groups", include_in_schema=False)
async def create_scim_group(request: Request, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Create a group."""
    body = await _body(request)
    name = resources.text_of(body.get("displayName"), "displayName")
    if name is None:
        raise Invalid("displayName is missing.", code="bad_scim_request")
    external_id = resources.text_of(body.get("externalId"), "externalId")
    async with context.db.transaction() as tx:
        group = await groups.insert_group(tx, caller.org, name, source="scim", external_id=external_id)
        await _add(tx, group, resources.member_ids(body.get("members") or []))
        resource = await _group_json(tx, group, _root(request, context), "")
    return _json(resource, 201, resource["meta"]["location"])


@router.get("/Groups/{scim_group_id}", include_in_schema=False)
async def get_scim_group(
    group_id: PathScimGroup,
    request: Request,
    context: CurrentContext,
    caller: CurrentCaller,
    excluded: Excluded = "",
) -> Response:
    """Get a group with its direct members, unless they are excluded."""
    async with context.db.connection() as tx:
        group = await groups.require_group(tx, caller.org, group_id)
        return _json(await _group_json(tx, group, _root(request, context), excluded))


@router.put("/Groups/{scim_group_id}", include_in_schema=False)
async def replace_scim_group(
    group_id: PathScimGroup, request: Request, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Change the name and the members of a group to what the request says."""
    body = await _body(request)
    changes = [
        Change("replace", name.lower(), body[name]) for name in ("displayName", "externalId") if name in body
    ]
    if "members" in body:
        changes.append(Change("replace", "members", body["members"]))
    return await _change_group(group_id, changes, request, context, caller)


@router.patch("/Groups/{scim_group_id}", include_in_schema=False)
async def patch_scim_group(
    group_id: PathScimGroup, request: Request, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Rename a group, and add or remove members."""
    return await _change_group(group_id, parse_operations(await _body(request)), request, context, caller)


@router.delete("/Groups/{scim_group_id}", include_in_schema=False)
async def delete_scim_group(
    group_id: PathScimGroup, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Delete a group. Its members stay."""
    async with context.db.transaction() as tx:
        await groups.delete_group(tx, caller.org, group_id)
    return Response(status_code=204)


async def _change_group(
    group_id: GroupId,
    changes: Sequence[Change],
    request: Request,
    context: CurrentContext,
    caller: Caller,
) -> Response:
    async with context.db.transaction() as tx:
        group = await groups.require_group(tx, caller.org, group_id)
        for change in changes:
            group = await _apply(tx, group, change)
        return _json(await _group_json(tx, group, _root(request, context), ""))


async def _apply(tx: Tx, group: Group, change: Change) -> Group:
    if change.attribute == "members":
        await _change_members(tx, group, change)
    elif change.operation != "remove" and change.attribute == "displayname":
        name = resources.text_of(change.value, "displayName") or group.name
        return await groups.change_group(tx, group, name=name, external_id=group.external_id, source="scim")
    elif change.attribute == "externalid":
        external_id = None if change.operation == "remove" else resources.text_of(change.value, "externalId")
        return await groups.change_group(tx, group, name=group.name, external_id=external_id, source="scim")
    return group


async def _change_members(tx: Tx, group: Group, change: Change) -> None:
    ids = resources.member_ids(change.value or [])
    if change.operation == "remove":
        if change.value is None:
            await groups.keep_members(tx, group, [])
        else:
            await groups.remove_members(tx, group, ids)
        return
    if change.operation == "replace":
        await groups.keep_members(tx, group, ids)
    await _add(tx, group, ids)


async def _add(tx: Tx, group: Group, ids: Sequence[UUID]) -> None:
    children = [child.id for child in await groups.groups_of(tx, group.org_id, list(ids))]
    await groups.add_members(tx, group, users=ids, groups=children, source="scim")


async def _group_json(tx: Tx, group: Group, root: str, excluded: str) -> dict[str, Any]:
    is_short = "members" in excluded.lower().split(",")
    members = None if is_short else await groups.list_members(tx, group.id, limit=None)
    return group_resource(group, members, root)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
