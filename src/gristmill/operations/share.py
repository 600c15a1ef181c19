"""Share a base with people and groups, stop sharing it, and explain why a user sees something."""

from dataclasses import dataclass, replace
from uuid import UUID

from gristmill import events
from gristmill.catalog import BaseId, ItemId, Viewer, shares
from gristmill.catalog.access import EVERYBODY, parse_acl, viewer_of_user
from gristmill.catalog.shares import BaseRole, Share
from gristmill.db import Database, Tx
from gristmill.errors import NotFound
from gristmill.events import BaseChanged
from gristmill.identity import ActiveUser, GroupId, OrgId, UserId, groups, tool_groups, users
from gristmill.operations import guards


@dataclass(frozen=True)
class NamedShare:
    """A share with the name of the person or group; `exists` is False for one that was deleted."""

    share: Share
    name: str
    email: str | None = None
    exists: bool = True


async def share(db: Database, base_id: BaseId, org: OrgId, principal: str, role: BaseRole) -> NamedShare:
    """Share a base. An address or a name means its user or group, if there is one."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        entry = await resolve_principal(tx, org, principal)
        await shares.set_share(tx, base_id, entry, role)
        await events.record(tx, BaseChanged(base_id, base.name))
        (named,) = await with_names(tx, org, [Share(entry, role)])
    return named


async def unshare(db: Database, base_id: BaseId, org: OrgId, principal: str) -> None:
    """Stop sharing a base with a principal, from its next request on."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        entries = {share.principal for share in await shares.list_shares(tx, base_id)}
        entry = principal if principal in entries else await resolve_principal(tx, org, principal)
        if not await shares.remove_share(tx, base_id, entry):
            raise NotFound(
                f"The base is not shared with {principal!r}. List its shares to see who has access.",
                code="share_not_found",
            )
        await events.record(tx, BaseChanged(base_id, base.name))


async def resolve_principal(tx: Tx, org: OrgId, principal: str) -> str:
    """The entry of a principal: `user:` and `group:` by id, where one exists by address or name. Raises `NotFound`."""
    kind, _, name = principal.partition(":")
    if kind == "group" and (group := await groups.find_group_by(tx, org, name=name)) is not None:
        return f"group:{group.id}"
    (entry,) = parse_acl([principal], "principal")
    identifier = _uuid(name)
    if kind == "user":
        user = None if identifier is None else await users.find_user(tx, org, UserId(identifier))
        if user is None:
            raise users.no_such_user(name)
    elif kind == "user_email":
        user = await users.find_user_by(tx, org, "email", name)
        return entry if user is None else f"user:{user.id}"
    elif kind == "group" and identifier is not None:
        await groups.require_group(tx, org, GroupId(identifier))
    elif kind == "tool_group" and not await tool_groups.tool_group_names(tx, org, [UUID(name)]):
        raise NotFound(f"There is no group {name!r} of a tool.", code="group_not_found")
    return entry


async def with_names(tx: Tx, org: OrgId, entries: list[Share]) -> list[NamedShare]:
    """Shares with the names of their users and groups."""
    ids = {
        entry.principal: identifier
        for entry in entries
        if (identifier := _uuid(entry.principal.partition(":")[2])) is not None
    }
    people = {user.id: user for user in await users.users_of(tx, org, list(ids.values()))}
    teams = {group.id: group for group in await groups.groups_of(tx, org, list(ids.values()))}
    named_groups = await tool_groups.tool_group_names(tx, org, list(ids.values()))
    of_tools = {group.id: group for group in named_groups}
    named: list[NamedShare] = []
    for entry in entries:
        kind, _, text = entry.principal.partition(":")
        identifier = ids.get(entry.principal)
        user = None if identifier is None else people.get(UserId(identifier))
        group = None if identifier is None else teams.get(GroupId(identifier))
        tool_group = None if identifier is None else of_tools.get(identifier)
        if kind == "user" and user is not None:
            named.append(NamedShare(entry, user.name, user.email))
        elif kind == "group" and group is not None:
            named.append(NamedShare(entry, group.name))
        elif kind == "tool_group" and tool_group is not None:
            named.append(NamedShare(entry, tool_group.full_name))
        elif entry.principal == EVERYBODY:
            named.append(NamedShare(entry, "Everyone in the organisation"))
        else:
            email = text if kind == "user_email" else None
            named.append(NamedShare(entry, text, email, exists=kind != "user" and identifier is None))
    return named


@dataclass(frozen=True)
class AccessReason:
    """An entry that lets a user see something, and the groups through which it names them, from the nearest on."""

    share: NamedShare
    through: list[str]


@dataclass(frozen=True)
class UserAccess:
    """What a user may do with an item or a base, and why."""

    base_id: BaseId
    role: BaseRole | None
    list_item: UUID | None  # the item whose list applies; None for the base's
    reasons: list[AccessReason]
    explanation: str


async def explain_access(
    tx: Tx, org: OrgId, user_id: UserId, *, base_id: BaseId | None = None, item_id: ItemId | None = None
) -> UserAccess:
    """What a user may do with an item, or with a base, and the entries that say so."""
    user = await users.require_user(tx, org, user_id)
    applied = None if item_id is None else await shares.find_applied_list(tx, item_id, org)
    if item_id is not None and applied is None:
        raise NotFound(f"There is no item {item_id}.", code="item_not_found")
    if applied is not None:
        base_id = applied.base_id
    assert base_id is not None
    base = await guards.require_base(tx, base_id, Viewer(None, org))
    list_item = None if applied is None else applied.acl_from
    denied = UserAccess(base_id, None, list_item, [], "")
    active = await users.find_active_user(tx, user_id)
    if active is None:
        return replace(denied, explanation=f"{user.name} is not active, and can do nothing.")
    if user.role == "admin":
        return replace(denied, role="owner", explanation=f"{user.name} is an admin, and sees everything.")
    return await _explain_lists(tx, active, denied, base.acl if applied is None else applied.acl)


async def _explain_lists(tx: Tx, user: ActiveUser, denied: UserAccess, acl: list[str]) -> UserAccess:
    viewer = viewer_of_user(user)
    of_base = {entry.principal: entry for entry in await shares.list_shares(tx, denied.base_id)}
    matching = [
        of_base.get(entry, Share(entry, None)) if denied.list_item is None else Share(entry, None)
        for entry in acl
        if entry in (viewer.entries or ())
    ]
    place = "the base" if denied.list_item is None else "the item or a folder above it"
    if not matching:
        return replace(
            denied, explanation=f"The access list of {place} names neither {user.name} nor a group of theirs."
        )
    own = "editor" if user.role == "editor" else "reader"
    role = await shares.base_role(tx, denied.base_id, viewer, own)
    reasons = [
        AccessReason(named, await _path_to(tx, user, named.share.principal))
        for named in await with_names(tx, user.org_id, matching)
    ]
    names = ", ".join(reason.share.name for reason in reasons)
    explanation = (
        f"The access list of {place} names {names}; that makes {user.name} {_ARTICLES[role]} {role}."
    )
    return replace(denied, role=role, reasons=reasons, explanation=explanation)


_ARTICLES = {"reader": "a", "editor": "an", "owner": "an"}


async def _path_to(tx: Tx, user: ActiveUser, principal: str) -> list[str]:
    kind, _, name = principal.partition(":")
    identifier = _uuid(name)
    if kind != "group" or identifier is None:
        return []
    return await groups.path_to_group(tx, user.id, GroupId(identifier))


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
