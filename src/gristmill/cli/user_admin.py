"""The work of `gristmill user` and `gristmill group`. They use the database directly, so that the first user can be created before
anyone can sign in, with or without a running server. Each change is in the audit log."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.text import Text

from gristmill import identity
from gristmill.catalog import access
from gristmill.cli.output import new_table, print_json
from gristmill.db import Database, Tx
from gristmill.errors import NotFound
from gristmill.identity import Group, OrgId, User, UserFields, UserRole, audit, groups, passwords, users

_PAGE = 500


async def create_user(
    db: Database, organisation: str, email: str, name: str | None, role: UserRole, password: str | None
) -> User:
    """Create a user in an organisation, which is created if it does not exist."""
    access.member(email)  # rejects an address that no access list can name
    password_hash = None if password is None else await passwords.hash_password(password)
    fields = UserFields(email.lower(), name or email.partition("@")[0], role)
    async with db.transaction() as tx:
        org = (await identity.ensure_organisation(tx, organisation)).id
        user = await users.insert_user(tx, org, fields, password_hash=password_hash)
        await _record(tx, org, "POST", "/api/users", 201)
    return user


async def change_user(
    db: Database,
    organisation: str,
    email: str,
    *,
    name: str | None = None,
    new_email: str | None = None,
    role: UserRole | None = None,
    active: bool | None = None,
    password: str | None = None,
) -> User:
    """Change a user; what is None stays. A new password ends their sessions."""
    if new_email is not None:
        access.member(new_email)
    password_hash = None if password is None else await passwords.hash_password(password)
    async with db.transaction() as tx:
        old = await _find_user(tx, await _find_org(tx, organisation), email)
        fields = users.fields_of(old)
        changed = replace(
            fields,
            name=name or fields.name,
            email=(new_email or fields.email).lower(),
            user_name=new_email if new_email and old.user_name.lower() == old.email else fields.user_name,
            role=role or fields.role,
            active=fields.active if active is None else active,
        )
        if password_hash is not None:
            await users.set_password(tx, old.org_id, old.id, password_hash)
            await users.end_user_sessions(tx, old.id)
        user = await users.change_user(tx, old.org_id, old.id, changed)
        await _record(tx, old.org_id, "PATCH", f"/api/users/{old.id}", 200)
    return user


async def delete_user(db: Database, organisation: str, email: str) -> User:
    """Delete a user with their keys, sessions and memberships."""
    async with db.transaction() as tx:
        user = await _find_user(tx, await _find_org(tx, organisation), email)
        await users.delete_user(tx, user.org_id, user.id)
        await _record(tx, user.org_id, "DELETE", f"/api/users/{user.id}", 204)
    return user


async def print_users(db: Database, out: Console, organisation: str, *, as_json: bool) -> None:
    """Print all users of an organisation."""
    async with db.connection() as tx:
        org = await _find_org(tx, organisation)
        page = everyone = await users.list_users(tx, org, limit=_PAGE)
        while len(page) == _PAGE:
            page = await users.list_users(tx, org, limit=_PAGE, after=page[-1].id)
            everyone = [*everyone, *page]
    if as_json:
        print_json([user_json(user) for user in everyone], as_json)
        return
    if not everyone:
        out.print(
            "No users yet. Create one with: gristmill user create ADDRESS --role admin --password-stdin"
        )
        return
    table = new_table("address", "name", "role", "active", "from", "signed in")
    for user in everyone:
        table.add_row(
            Text(user.email),
            Text(user.name),
            user.role,
            "yes" if user.active else "no",
            user.source,
            "" if user.signed_in_at is None else f"{user.signed_in_at:%Y-%m-%d %H:%M}",
        )
    out.print(table)


async def show_user(db: Database, organisation: str, email: str) -> dict[str, Any]:
    """A user with their groups and keys, as JSON."""
    async with db.connection() as tx:
        user = await _find_user(tx, await _find_org(tx, organisation), email)
        direct = await groups.direct_groups(tx, user.id)
        keys = await identity.list_user_keys(tx, user.id)
    return {
        **user_json(user),
        "groups": [group.name for group in direct],
        "keys": [f"{key.prefix}… {key.name}" for key in keys],
    }


async def create_group(db: Database, organisation: str, name: str) -> Group:
    """Create a group."""
    async with db.transaction() as tx:
        org = (await identity.ensure_organisation(tx, organisation)).id
        group = await groups.insert_group(tx, org, name)
        await _record(tx, org, "POST", "/api/groups", 201)
    return group


async def rename_group(db: Database, organisation: str, name: str, new_name: str) -> Group:
    """Rename a group."""
    async with db.transaction() as tx:
        group = await _find_group(tx, await _find_org(tx, organisation), name)
        changed = await groups.change_group(tx, group, name=new_name, external_id=group.external_id)
        await _record(tx, group.org_id, "PATCH", f"/api/groups/{group.id}", 200)
    return changed


async def delete_group(db: Database, organisation: str, name: str) -> Group:
    """Delete a group."""
    async with db.transaction() as tx:
        group = await _find_group(tx, await _find_org(tx, organisation), name)
        await groups.delete_group(tx, group.org_id, group.id)
        await _record(tx, group.org_id, "DELETE", f"/api/groups/{group.id}", 204)
    return group


async def change_members(
    db: Database, organisation: str, name: str, members: Sequence[str], *, add: bool
) -> Group:
    """Add members to a group, or remove them: addresses of users, and names of groups."""
    async with db.transaction() as tx:
        org = await _find_org(tx, organisation)
        group = await _find_group(tx, org, name)
        people = [(await _find_user(tx, org, each)).id for each in members if "@" in each]
        children = [(await _find_group(tx, org, each)).id for each in members if "@" not in each]
        if add:
            await groups.add_members(tx, group, users=people, groups=children)
        else:
            await groups.remove_members(tx, group, [*people, *children])
        await _record(tx, org, "POST" if add else "DELETE", f"/api/groups/{group.id}/members", 200)
        return await groups.require_group(tx, org, group.id)


async def print_groups(db: Database, out: Console, organisation: str, *, as_json: bool) -> None:
    """Print the groups of an organisation."""
    async with db.connection() as tx:
        page = everything = await groups.list_groups(tx, await _find_org(tx, organisation), limit=_PAGE)
        while len(page) == _PAGE:
            page = await groups.list_groups(tx, page[-1].org_id, limit=_PAGE, after=page[-1].id)
            everything = [*everything, *page]
    if as_json:
        print_json([group_json(group) for group in everything], as_json)
        return
    if not everything:
        out.print("No groups yet. Create one with: gristmill group create NAME")
        return
    table = new_table("name", "members", "from", "id", right=("members",))
    for group in everything:
        table.add_row(Text(group.name), str(group.member_count), group.source, str(group.id))
    out.print(table)


async def print_members(db: Database, out: Console, organisation: str, name: str, *, as_json: bool) -> None:
    """Print the direct members of a group."""
    async with db.connection() as tx:
        group = await _find_group(tx, await _find_org(tx, organisation), name)
        members = await groups.list_members(tx, group.id, limit=None)
    if as_json:
        print_json([{**vars(member), "id": str(member.id)} for member in members], as_json)
        return
    if not members:
        out.print("No members yet. Add one with: gristmill group add GROUP ADDRESS_OR_GROUP")
        return
    table = new_table("type", "name", "address", "active", "from")
    for member in members:
        active = "yes" if member.active else "no"
        table.add_row(member.type, Text(member.name), Text(member.email or ""), active, member.source)
    out.print(table)


def user_json(user: User) -> dict[str, Any]:
    """A user as the API shows it."""
    from gristmill.server.api.schemas.users import UserOut  # imports the server, which takes a second

    return UserOut.of(user).model_dump(mode="json", by_alias=True)


def group_json(group: Group) -> dict[str, Any]:
    """A group as the API shows it."""
    from gristmill.server.api.schemas.users import GroupOut  # imports the server, which takes a second

    return GroupOut.of(group).model_dump(mode="json", by_alias=True)


async def _find_org(tx: Tx, name: str) -> OrgId:
    organisation = await identity.find_organisation(tx, name)
    if organisation is None:
        raise NotFound(f"There is no organisation {name!r}.", code="organisation_not_found")
    return organisation.id


async def _find_user(tx: Tx, org: OrgId, email: str) -> User:
    user = await users.find_user_by(tx, org, "email", email)
    if user is None:
        raise users.no_such_user(email)
    return user


async def _find_group(tx: Tx, org: OrgId, name: str) -> Group:
    group = await groups.find_group_by(tx, org, name=name)
    if group is None:
        raise groups.no_such_group(name)
    return group


async def _record(tx: Tx, org: OrgId, method: str, path: str, status: int) -> None:
    await audit.record(tx, org, actor="cli", role="admin", method=method, path=path, status=status)
