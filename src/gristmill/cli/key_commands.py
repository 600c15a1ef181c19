"""`gristmill keys …` and `gristmill audit`, as they are typed."""

from typing import Annotated

import typer

from gristmill.cli.common import AsJson, DataDir, console, load_settings, out, print_json, run_async
from gristmill.errors import Invalid

key_cli = typer.Typer(no_args_is_help=True, help="Make, show and revoke API keys, on the database itself.")

OrgName = Annotated[str, typer.Option("--org", help="Organisation; made when there is none.")]


@key_cli.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    role: Annotated[str, typer.Option(help="admin, editor or reader.")] = "reader",
    org: OrgName = "local",
    email: Annotated[str | None, typer.Option(help="Whose eyes the key has.")] = None,
    team: Annotated[list[str] | None, typer.Option(help="A team of the principal; may be repeated.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A group of the principal; may be repeated.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, help="Days until it expires; never by default.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Make a key, and print its secret: the only time that it is shown."""
    from gristmill.cli import key_admin as keys

    if role not in ("admin", "editor", "reader"):
        raise Invalid(f"{role!r} is no role; take admin, editor or reader.", code="bad_role")
    new = keys.new_key(name, role, email, team or [], group or [], days)

    async def run() -> str:
        async with keys.open_database(current) as db:
            return (await keys.create(db, org, new))[1]

    current = load_settings(quiet=True, data_dir=data_dir)
    secret = run_async(run())
    print_json({"key": secret}, as_json)
    console(as_json).print(secret, highlight=False)


@key_cli.command("list")
def list_keys(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show all keys, by the beginning of their secrets."""
    from gristmill.cli import key_admin as keys

    async def run() -> None:
        async with keys.open_database(current) as db:
            await keys.print_keys(db, out, as_json=as_json)

    current = load_settings(quiet=True, data_dir=data_dir)
    run_async(run())


@key_cli.command("revoke")
def revoke_key(
    key: Annotated[
        str, typer.Argument(help="Its name, id, or the beginning of its secret as `list` shows it.")
    ],
    org: OrgName = "local",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Revoke a key, with the sessions that it opened."""
    from gristmill.cli import key_admin as keys

    async def run() -> str:
        async with keys.open_database(current) as db:
            return (await keys.revoke(db, org, key)).prefix

    current = load_settings(quiet=True, data_dir=data_dir)
    prefix = run_async(run())
    print_json({"revoked": prefix}, as_json)
    console(as_json).print(f"Revoked {prefix}….")


def audit(
    org: Annotated[str, typer.Option("--org", help="Whose log.")] = "local",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most rows to show.")] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show what may have changed something, and who asked for it, newest first."""
    from gristmill.cli import key_admin as keys

    async def run() -> None:
        async with keys.open_database(current) as db:
            await keys.print_audit(db, out, org, limit=limit, as_json=as_json)

    current = load_settings(quiet=True, data_dir=data_dir)
    run_async(run())
