"""The options of `gristmill user …` and `gristmill group …`. `user_admin` does the work; it is imported late to keep `--help` fast."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from gristmill.cli.common import AsJson, DataDir, load_settings, run_async
from gristmill.cli.help import CommandLine
from gristmill.cli.key_commands import OrgName
from gristmill.cli.output import console, out, print_json
from gristmill.errors import Invalid

Result = TypeVar("Result")
user_cli = CommandLine(
    help="Create, list, change and delete users, directly in the database.",
    examples=["gristmill user create ann@example.org --role admin --password-stdin"],
)
group_cli = CommandLine(
    help="Create, list, change and delete groups of users, directly in the database.",
    examples=["gristmill group create Research", "gristmill group add Research ann@example.org"],
)
Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="Email address of the user.")]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
UserRoleName = Annotated[str, typer.Option("--role", metavar="ROLE", help="admin, editor or reader.")]
FromStandardInput = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]


@user_cli.command("create", local=True, examples=["gristmill user create ann@example.org --name 'Ann Lee'"])
def create_user(
    address: Address,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name that others see.")] = None,
    role: UserRoleName = "reader",
    password_stdin: FromStandardInput = False,
    org: OrgName = "local",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Create a user. Without a password they sign in through the OpenID provider."""
    from gristmill.cli import user_admin

    chosen, password = _role(role), _read_password() if password_stdin else None
    user = _run(lambda db: user_admin.create_user(db, org, address, name, chosen, password), data_dir)
    _report(f"Created {user.email} ({user.role}).", user_admin.user_json(user), as_json)


@user_cli.command("list", local=True, examples=["gristmill user list"])
def list_users(org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the users of an organisation."""
    from gristmill.cli import user_admin

    _run(lambda db: user_admin.print_users(db, out, org, as_json=as_json), data_dir)


@user_cli.command("show", local=True, examples=["gristmill user show ann@example.org"])
def show_user(
    address: Address, org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Show a user with their groups and keys."""
    from gristmill.cli import user_admin
    from gristmill.cli.output import details

    shown = _run(lambda db: user_admin.show_user(db, org, address), data_dir)
    if as_json:
        print_json(shown, as_json)
    else:
        out.print(details(shown))


@user_cli.command(
    "change", local=True, examples=["gristmill user change ann@example.org --name 'Ann Lee' --role editor"]
)
def change_user(
    address: Address,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="New name that others see.")] = None,
    email: Annotated[str | None, typer.Option(metavar="ADDRESS", help="New email address.")] = None,
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="admin, editor or reader.")] = None,
    password_stdin: FromStandardInput = False,
    org: OrgName = "local",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Change the name, address, role or password of a user. A new password ends their sessions."""
    from gristmill.cli import user_admin

    chosen = None if role is None else _role(role)
    password = _read_password() if password_stdin else None
    user = _run(
        lambda db: user_admin.change_user(
            db, org, address, name=name, new_email=email, role=chosen, password=password
        ),
        data_dir,
    )
    _report(f"Changed {user.email}.", user_admin.user_json(user), as_json)


@user_cli.command("deactivate", local=True, examples=["gristmill user deactivate ann@example.org"])
def deactivate_user(
    address: Address, org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """End the sessions of a user, and refuse their keys until they are activated again."""
    from gristmill.cli import user_admin

    user = _run(lambda db: user_admin.change_user(db, org, address, active=False), data_dir)
    _report(f"Deactivated {user.email}.", user_admin.user_json(user), as_json)


@user_cli.command("activate", local=True, examples=["gristmill user activate ann@example.org"])
def activate_user(
    address: Address, org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Let a user sign in again, and accept their keys."""
    from gristmill.cli import user_admin

    user = _run(lambda db: user_admin.change_user(db, org, address, active=True), data_dir)
    _report(f"Activated {user.email}.", user_admin.user_json(user), as_json)


@user_cli.command("delete", local=True, examples=["gristmill user delete ann@example.org"])
def delete_user(
    address: Address, org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Delete a user with their keys, sessions and memberships. What they added stays."""
    from gristmill.cli import user_admin

    user = _run(lambda db: user_admin.delete_user(db, org, address), data_dir)
    _report(f"Deleted {user.email}.", user_admin.user_json(user), as_json)


@group_cli.command("create", local=True, examples=["gristmill group create Research"])
def create_group(
    group: GroupName, org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Create a group without members."""
    from gristmill.cli import user_admin

    created = _run(lambda db: user_admin.create_group(db, org, group), data_dir)
    _report(f"Created {created.name} (group:{created.id}).", user_admin.group_json(created), as_json)


@group_cli.command("list", local=True, examples=["gristmill group list"])
def list_groups(org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the groups of an organisation."""
    from gristmill.cli import user_admin

    _run(lambda db: user_admin.print_groups(db, out, org, as_json=as_json), data_dir)


@group_cli.command("members", local=True, examples=["gristmill group members Research"])
def list_members(
    group: GroupName, org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """List the direct members of a group."""
    from gristmill.cli import user_admin

    _run(lambda db: user_admin.print_members(db, out, org, group, as_json=as_json), data_dir)


@group_cli.command("rename", local=True, examples=["gristmill group rename Research Science"])
def rename_group(
    group: GroupName,
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="New name.")],
    org: OrgName = "local",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Rename a group. What is shared with it stays shared."""
    from gristmill.cli import user_admin

    renamed = _run(lambda db: user_admin.rename_group(db, org, group, new_name), data_dir)
    _report(f"Renamed {group} to {renamed.name}.", user_admin.group_json(renamed), as_json)


@group_cli.command("delete", local=True, examples=["gristmill group delete Research"])
def delete_group(
    group: GroupName, org: OrgName = "local", as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Delete a group. Its members stay, and lose what they saw only through it."""
    from gristmill.cli import user_admin

    deleted = _run(lambda db: user_admin.delete_group(db, org, group), data_dir)
    _report(f"Deleted {deleted.name}.", user_admin.group_json(deleted), as_json)


Members = Annotated[
    list[str], typer.Argument(metavar="MEMBERS", help="Addresses of users, and names of groups.")
]


@group_cli.command("add", local=True, examples=["gristmill group add Research ann@example.org Interns"])
def add_members(
    group: GroupName,
    members: Members,
    org: OrgName = "local",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Add users and groups to a group."""
    _change_members(group, members, org, as_json, data_dir, add=True)


@group_cli.command("remove", local=True, examples=["gristmill group remove Research ann@example.org"])
def remove_members(
    group: GroupName,
    members: Members,
    org: OrgName = "local",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Remove users and groups from a group."""
    _change_members(group, members, org, as_json, data_dir, add=False)


def _change_members(
    group: str, members: list[str], org: str, as_json: bool, data_dir: Path | None, *, add: bool
) -> None:
    from gristmill.cli import user_admin

    changed = _run(lambda db: user_admin.change_members(db, org, group, members, add=add), data_dir)
    _report(f"{changed.name} has {changed.member_count} members.", user_admin.group_json(changed), as_json)


def _run(work: Callable[[Any], Awaitable[Result]], data_dir: Path | None) -> Result:
    from gristmill.cli.open_database import open_database

    async def run() -> Result:
        async with open_database(current) as db:
            return await work(db)

    current = load_settings(quiet=True, data_dir=data_dir)
    return run_async(run())


def _report(sentence: str, value: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(value, as_json)
    console(as_json).print(sentence, highlight=False, markup=False)


def _role(role: str) -> Any:
    if role not in ("admin", "editor", "reader"):
        raise Invalid(f"{role!r} is not a role. Use admin, editor or reader.", code="bad_role")
    return role


def _read_password() -> str:
    """The first line of standard input, so that the password is not in the shell's history."""
    return sys.stdin.readline().rstrip("\r\n")
