"""The options of `gristmill keys …` and `gristmill audit`. `key_admin` does the work; it is imported late to keep
`--help` fast."""

from typing import Annotated

import typer

from gristmill.cli.common import AsJson, DataDir, load_settings, run_async
from gristmill.cli.help import CommandLine
from gristmill.cli.output import console, out, print_json
from gristmill.errors import Invalid

key_cli = CommandLine(
    help="Create, list and revoke API keys, directly in the database.",
    examples=["gristmill keys create website --role reader"],
)

OrgName = Annotated[
    str, typer.Option("--org", metavar="NAME", help="Organisation; created if it does not exist.")
]


@key_cli.command(
    "create",
    local=True,
    examples=[
        "gristmill keys create website --role reader",
        "gristmill keys create ann --role editor --email ann@example.org --days 90",
    ],
)
def create_key(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    role: Annotated[str, typer.Option(metavar="ROLE", help="admin, editor, reader or scim.")] = "reader",
    org: OrgName = "local",
    email: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Email of the person whose permissions the key has.")
    ] = None,
    team: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Team whose permissions the key has; may be repeated."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Group whose permissions the key has; may be repeated."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="User that the key belongs to; it acts as them and ends with them."
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, max=36_500, metavar="NUMBER", help="Days until it expires; never by default."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Create a key and print its secret, which is not shown again."""
    from gristmill.cli import key_admin as keys
    from gristmill.cli.open_database import open_database
    from gristmill.identity import ApiKey

    if role not in ("admin", "editor", "reader", "scim"):
        raise Invalid(f"{role!r} is not a role. Use admin, editor, reader or scim.", code="bad_role")
    if user and (email or team or group or role == "scim"):
        raise Invalid(
            "A user's key can't have an email, team or group of its own, or the role scim. Pass --user alone, or leave it out.",
            code="bad_option",
        )
    new = keys.new_key(name, role, email, team or [], group or [], days)

    async def run() -> tuple[ApiKey, str]:
        async with open_database(current) as db:
            return await keys.create(db, org, new, user)

    current = load_settings(quiet=True, data_dir=data_dir)
    created, secret = run_async(run())
    if as_json:
        print_json({"organisation": org, **keys.new_key_json(created, secret)}, as_json)
    console(as_json).print(secret, highlight=False)


@key_cli.command("list", local=True, examples=["gristmill keys list"])
def list_keys(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List all keys with the first characters of their secrets."""
    from gristmill.cli import key_admin as keys
    from gristmill.cli.open_database import open_database

    async def run() -> None:
        async with open_database(current) as db:
            await keys.print_keys(db, out, as_json=as_json)

    current = load_settings(quiet=True, data_dir=data_dir)
    run_async(run())


@key_cli.command("revoke", local=True, examples=["gristmill keys revoke website"])
def revoke_key(
    key: Annotated[
        str, typer.Argument(help="Name, id, or first characters of the secret as `list` shows them.")
    ],
    org: OrgName = "local",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Revoke a key and end its browser sessions."""
    from gristmill.cli import key_admin as keys
    from gristmill.cli.open_database import open_database
    from gristmill.identity import ApiKey

    async def run() -> ApiKey:
        async with open_database(current) as db:
            return await keys.revoke(db, org, key)

    current = load_settings(quiet=True, data_dir=data_dir)
    revoked = run_async(run())
    if as_json:
        print_json({"organisation": org, **keys.key_json(revoked)}, as_json)
    console(as_json).print(f"Revoked {revoked.prefix}….")


def audit(
    org: Annotated[str, typer.Option("--org", metavar="NAME", help="Organisation.")] = "local",
    actor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only callers whose name contains this.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only change, export, read or sign_in.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=500, metavar="NUMBER", help="Maximum number of entries.")
    ] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show who changed, exported and, with `audit_reads`, read what, and who signed in, newest first."""
    from gristmill.cli import key_admin as keys
    from gristmill.cli.open_database import open_database

    chosen = keys.audit_filter(actor, action)

    async def run() -> None:
        async with open_database(current) as db:
            await keys.print_audit(db, out, org, limit=limit, chosen=chosen, as_json=as_json)

    current = load_settings(quiet=True, data_dir=data_dir)
    run_async(run())
