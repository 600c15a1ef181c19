"""Groups of users and of other groups. A group is `group:{id}` in access lists, whatever its members are.

Who belongs to a group is computed from the user upwards when a request arrives (`user_groups` in the database), so a group of any
size costs one entry in a list, and a change of members applies from the next request on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType
from uuid import UUID

from psycopg.errors import UniqueViolation

from gristmill.db import Tx
from gristmill.errors import Conflict, Invalid, NotFound
from gristmill.identity.organisation import OrgId
from gristmill.identity.store import queries
from gristmill.identity.users import Source, UserId

GroupId = NewType("GroupId", UUID)


@dataclass(frozen=True)
class Group:
    """A row of `user_group`, with the number of its direct members."""

    id: GroupId
    org_id: OrgId
    name: str
    source: Source
    external_id: str | None
    member_count: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class GroupMember:
    """A direct member of a group."""

    id: UUID
    type: Literal["user", "group"]
    name: str
    email: str | None
    active: bool
    source: Source


async def insert_group(
    tx: Tx, org: OrgId, name: str, *, source: Source = "local", external_id: str | None = None
) -> Group:
    """Create a group. Raises `Conflict` when its name or external id is taken."""
    group = await queries.maybe(
        tx, Group, "insert_group", org=org, name=name, source=source, external_id=external_id
    )
    if group is None:
        raise _name_conflict(name)
    return group


async def change_group(
    tx: Tx, group: Group, *, name: str, external_id: str | None, source: Source | None = None
) -> Group:
    """Change the name and the external id of a group."""
    try:
        return await queries.one(
            tx,
            Group,
            "change_group",
            org=group.org_id,
            id=group.id,
            name=name,
            external_id=external_id,
            source=source or group.source,
        )
    except UniqueViolation:
        raise _name_conflict(name) from None
    except LookupError:
        raise no_such_group(group.id) from None


async def find_group(tx: Tx, org: OrgId, group_id: GroupId) -> Group | None:
    """A group of an organisation."""
    return await queries.maybe(tx, Group, "find_group", org=org, id=group_id)


async def require_group(tx: Tx, org: OrgId, group_id: GroupId) -> Group:
    """The same, but raises `NotFound`."""
    group = await find_group(tx, org, group_id)
    if group is None:
        raise no_such_group(group_id)
    return group


async def find_group_by(
    tx: Tx, org: OrgId, *, name: str | None = None, external_id: str | None = None
) -> Group | None:
    """The group with all of these."""
    return await queries.maybe(tx, Group, "find_group_by", org=org, name=name, external_id=external_id)


async def list_groups(
    tx: Tx, org: OrgId, *, limit: int, after: GroupId | None = None, text: str | None = None
) -> list[Group]:
    """Groups in the order of their creation; with `text`, those that have it in their name."""
    return await queries.many(tx, Group, "list_groups", org=org, limit=limit, after=after, text=text)


async def groups_page(tx: Tx, org: OrgId, *, offset: int, limit: int) -> list[Group]:
    """Groups in the order of their creation, from a position."""
    return await queries.many(tx, Group, "groups_page", org=org, offset=offset, limit=limit)


async def count_groups(tx: Tx, org: OrgId) -> int:
    """The number of groups of an organisation."""
    return (await queries.values(tx, "count_groups", org=org))[0]


async def groups_of(tx: Tx, org: OrgId, ids: list[UUID]) -> list[Group]:
    """Those of these groups that belong to the organisation."""
    return await queries.many(tx, Group, "groups_of", org=org, ids=ids)


async def direct_groups(tx: Tx, user_id: UserId) -> list[Group]:
    """The groups that have this user as a direct member."""
    return await queries.many(tx, Group, "direct_groups", user=user_id)


async def path_to_group(tx: Tx, user_id: UserId, group_id: GroupId) -> list[str]:
    """The names of groups through which a user belongs to a group, from the nearest to that group itself."""
    return await queries.values(tx, "path_to_group", user=user_id, group=group_id)


async def delete_group(tx: Tx, org: OrgId, group_id: GroupId) -> bool:
    """Delete a group. Its members stay; what was shared with it is not visible to them any more."""
    return bool(await queries.values(tx, "delete_group", org=org, id=group_id))


async def list_members(
    tx: Tx, group_id: GroupId, *, limit: int | None, after: UUID | None = None
) -> list[GroupMember]:
    """Direct members of a group, by id."""
    return await queries.many(tx, GroupMember, "list_members", group=group_id, limit=limit, after=after)


async def add_members(
    tx: Tx, group: Group, *, users: Sequence[UUID] = (), groups: Sequence[UUID] = (), source: Source = "local"
) -> None:
    """Add users and groups of the same organisation; others are left out. Raises `Invalid` for a group that contains this one."""
    if groups:
        if (await queries.values(tx, "would_be_cycle", group=group.id, ids=list(groups)))[0]:
            raise Invalid(
                f"{group.name} can't be a member of itself, nor of a group that it contains. Choose other groups.",
                code="group_cycle",
            )
        await queries.run(
            tx, "add_group_members", group=group.id, org=group.org_id, ids=list(groups), source=source
        )
    if users:
        await queries.run(
            tx, "add_user_members", group=group.id, org=group.org_id, ids=list(users), source=source
        )


async def remove_members(tx: Tx, group: Group, ids: Sequence[UUID]) -> None:
    """Remove users and groups from a group."""
    await queries.run(tx, "remove_members", group=group.id, ids=list(ids))


async def keep_members(tx: Tx, group: Group, ids: Sequence[UUID]) -> None:
    """Remove all members of a group but these."""
    await queries.run(tx, "keep_members", group=group.id, ids=list(ids))


async def replace_groups_of_user(tx: Tx, user_id: UserId, groups: Sequence[UUID], source: Source) -> None:
    """Make the memberships of a user that come from `source` these; those from other sources stay."""
    await queries.run(tx, "leave_groups", user=user_id, source=source, groups=list(groups))
    await queries.run(tx, "join_groups", user=user_id, source=source, groups=list(groups))


def no_such_group(group_id: object) -> NotFound:
    """The error for an unknown group."""
    return NotFound(f"There is no group {str(group_id)!r}.", code="group_not_found")


def _name_conflict(name: str) -> Conflict:
    return Conflict(f"A group named {name!r} exists already. Choose another name.", code="group_exists")
