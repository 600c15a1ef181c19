"""The options of `gristmill connector …`. `connector_admin`, `connector_changes` and `connector_people` do the work; they are
imported late to keep `--help` fast."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.common import AsJson, DataDir, run_with_client
from gristmill.cli.help import CommandLine
from gristmill.cli.output import console, out, print_json

connector = CommandLine(
    name="connector",
    help="Manage connectors to the tools that your team uses.",
    examples=["gristmill connector list", "gristmill connector show work"],
)
ConnectorName = Annotated[str, typer.Argument(help="Name of the connector.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Configuration of the connector; may be repeated."),
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="KEY=@FILE",
        help="Credential: KEY=@FILE, KEY=- to be prompted, or KEY=VALUE; may be repeated.",
    ),
]
Schedule = Annotated[
    str | None, typer.Option(metavar="CRON", help="When to sync, as a cron expression in UTC.")
]
AclSchedule = Annotated[
    str | None,
    typer.Option(
        "--acl-schedule", metavar="CRON", help="When to refresh the permissions, as a cron expression in UTC."
    ),
]
Acl = Annotated[
    list[str] | None,
    typer.Option(
        "--acl",
        metavar="PRINCIPAL",
        help="Who can see everything it syncs, instead of the tool's permissions: an address, the name of a group, or org:* "
        "for everyone; may be repeated.",
    ),
]


@connector.command(
    "add",
    examples=[
        "gristmill connector add github work --base team --set organizations=acme --secret token=@token.txt"
    ],
)
def connector_add(
    type: Annotated[str, typer.Argument(help="A type that `gristmill connector kinds` lists.")],  # noqa: A002
    name: Annotated[str, typer.Argument(help="Name of the new connector.")],
    base: Annotated[
        list[str], typer.Option("--base", metavar="NAME", help="Base to sync into; may be repeated.")
    ],
    setting: Settings = None,
    secret: Secrets = None,
    schedule: Schedule = None,
    acl_schedule: AclSchedule = None,
    acl: Acl = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Add a connector that syncs a source into bases."""
    from gristmill.cli import connector_admin as connectors

    credentials = connectors.parse_credentials(
        secret or []
    )  # may prompt, which no event loop should surround

    async def run(session: Any) -> None:
        created = await connectors.add(
            session,
            console(as_json),
            type,
            name,
            bases=base,
            settings=setting or [],
            credentials=credentials,
            schedule=schedule,
            acl_schedule=acl_schedule,
            acl=acl or [],
        )
        print_json(created, as_json)

    run_with_client(run, data_dir)


@connector.command("kinds", examples=["gristmill connector kinds", "gristmill connector kinds s3"])
def connector_kinds(
    type: Annotated[str | None, typer.Argument(help="Show the settings of this type.")] = None,  # noqa: A002
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List the types of connectors, or the settings and secrets of one."""
    from gristmill.cli import connector_admin as connectors

    async def run(session: Any) -> None:
        kinds = await connectors.list_kinds(session, type)
        print_json(kinds, as_json)
        console(as_json).print(connectors.kind_table(kinds, with_settings=type is not None))

    run_with_client(run, data_dir)


@connector.command(
    "new", examples=["gristmill connector new tracker", "gristmill connector new tracker --folder ~/code"]
)
def connector_new(
    name: Annotated[str, typer.Argument(help="Name of the new type, in small letters.")],
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write it.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write a package with a connector of your own: a plugin that works, with a test."""
    from gristmill.cli.new_connector import write_connector

    target = write_connector(name, folder.expanduser())
    print_json({"folder": str(target)}, as_json)
    console(as_json).print(
        f"Wrote {target}. Change src/gristmill_{name}/__init__.py for your tool, then install it beside Gristmill: "
        f"pip install -e {target}",
        soft_wrap=True,
    )


@connector.command("list", examples=["gristmill connector list"])
def connector_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the connectors and the status of their last runs."""
    from gristmill.cli import connector_admin as connectors

    async def run(session: Any) -> None:
        connectors_found = await connectors.list_connectors(session)
        print_json(connectors_found, as_json)
        console(as_json).print(connectors.connector_table(connectors_found))

    run_with_client(run, data_dir)


@connector.command("show", examples=["gristmill connector show work"])
def connector_show(name: ConnectorName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show a connector and its last runs; always as JSON."""
    from gristmill.cli import connector_admin as connectors

    run_with_client(lambda session: connectors.show(session, out, name), data_dir)


@connector.command(
    "change",
    examples=[
        "gristmill connector change work --secret token=@token.txt",
        "gristmill connector change work --set organizations=acme,mill --schedule '0 4 * * *'",
        "gristmill connector change work --acl ann@example.org --acl Research",
        "gristmill connector change work --base team --detach",
    ],
)
def connector_change(
    name: ConnectorName,
    new_name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="New name.")] = None,
    base: Annotated[
        list[str] | None,
        typer.Option(
            "--base",
            metavar="NAME",
            help="Base to sync into from now on; may be repeated. One that is left out is no longer synced into: --purge deletes "
            "the connector's documents there, --detach keeps them as they are.",
        ),
    ] = None,
    no_base: Annotated[bool, typer.Option("--no-base", help="Sync into no base from now on.")] = False,
    purge: Annotated[
        bool | None,
        typer.Option(
            "--purge/--detach", help="Delete its documents in bases that are left out, or keep them."
        ),
    ] = None,
    setting: Settings = None,
    secret: Secrets = None,
    schedule: Schedule = None,
    acl_schedule: AclSchedule = None,
    acl: Acl = None,
    tool_permissions: Annotated[
        bool,
        typer.Option(
            "--tool-permissions",
            help="Follow the tool's permissions again, instead of --acl. Some tools have none: everyone sees their documents.",
        ),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Change the settings, credentials or schedules of a connector, who can see its documents, and the bases it syncs into. Settings that are not
    named stay; credentials are replaced as a whole, so pass all of them."""
    from gristmill.cli import connector_admin as connectors
    from gristmill.cli import connector_changes as changes
    from gristmill.cli.client_session import Refused

    if base and no_base:
        raise Refused("Pass either --base or --no-base.", code="bad_option")
    options = changes.ConnectorOptions(
        name=new_name,
        settings=setting or [],
        credentials=connectors.parse_credentials(secret or []),  # may prompt
        schedule=schedule,
        acl_schedule=acl_schedule,
        acl=acl,
        tool_permissions=tool_permissions,
        bases=[] if no_base else base or None,
        on_detach=None if purge is None else "purge" if purge else "detach",
    )
    print_json(
        run_with_client(lambda session: changes.change(session, console(as_json), name, options), data_dir),
        as_json,
    )


@connector.command("check", examples=["gristmill connector check work"])
def connector_check(name: ConnectorName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Check a connector with its tool: credentials, and whether all that is set is there. Exit with 1 if it can't connect."""
    from gristmill.cli import connector_changes as changes

    check = run_with_client(lambda session: changes.check(session, console(as_json), name), data_dir)
    print_json(check, as_json)
    if not check["ok"]:
        raise typer.Exit(1)


@connector.command("sign-in", examples=["gristmill connector sign-in drive"])
def connector_sign_in(name: ConnectorName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Print the address at which a person lets a connector read on their behalf (Google Drive, SharePoint, mail)."""
    from gristmill.cli import connector_admin as connectors

    print_json(
        run_with_client(lambda session: connectors.begin_sign_in(session, console(as_json), name), data_dir),
        as_json,
    )


@connector.command("pause", examples=["gristmill connector pause work"])
def connector_pause(name: ConnectorName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Stop the scheduled runs of a connector."""
    from gristmill.cli import connector_admin as connectors

    print_json(
        run_with_client(
            lambda session: connectors.pause_or_resume(session, console(as_json), name, "pause"), data_dir
        ),
        as_json,
    )


@connector.command("resume", examples=["gristmill connector resume work"])
def connector_resume(name: ConnectorName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Resume the scheduled runs of a connector."""
    from gristmill.cli import connector_admin as connectors

    print_json(
        run_with_client(
            lambda session: connectors.pause_or_resume(session, console(as_json), name, "resume"), data_dir
        ),
        as_json,
    )


@connector.command(
    "people",
    examples=[
        "gristmill connector people work --unmapped",
        "gristmill connector people work --csv > people.csv",
        "gristmill connector people work --import people.csv",
    ],
)
def connector_people(
    name: ConnectorName,
    groups: Annotated[
        bool, typer.Option("--groups", help="List the groups of the tool that access lists name instead.")
    ] = False,
    unmapped: Annotated[bool, typer.Option("--unmapped", help="Only accounts without an address.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a CSV file, to fill in and import.")] = False,
    file: Annotated[
        str | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Map accounts by a CSV file with the columns userId or name, and email; - for standard input.",
        ),
    ] = None,
    match: Annotated[
        bool,
        typer.Option(
            "--match",
            help="Map accounts that have the user name, the external id or the address of one user.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what --import or --match would map.")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List accounts of a tool whose email address it does not show, and map them to addresses."""
    from gristmill.cli import connector_people as people

    async def run(session: Any) -> None:
        if groups:
            tool_groups = await people.list_groups(session, name)
            print_json(tool_groups, as_json)
            console(as_json).print(people.group_table(tool_groups))
            return
        if file is None and not match:
            accounts = await people.list_accounts(session, name, unmapped=unmapped)
            print_json(accounts, as_json)
            if as_csv and not as_json:
                out.print(people.to_csv(accounts), end="", markup=False, highlight=False, soft_wrap=True)
            else:
                console(as_json).print(people.account_table(accounts))
            return
        text = None if file is None else people.read_csv(file)
        print_json(await people.map_accounts(session, console(as_json), name, text, dry_run=dry_run), as_json)

    run_with_client(run, data_dir)


@connector.command(
    "push",
    examples=["gristmill connector push work", "gristmill connector push work --new-secret"],
)
def connector_push(
    name: ConnectorName,
    new_secret: Annotated[
        bool,
        typer.Option(
            "--new-secret", help="Create the secret, or another one in its place. It is shown once."
        ),
    ] = False,
    off: Annotated[bool, typer.Option("--off", help="Accept no pushes any more.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show where a tool reports changes, so that a run starts at once, or set it up."""
    from gristmill.cli import connector_admin as connectors

    action = "off" if off else "new" if new_secret else "show"
    print_json(
        run_with_client(
            lambda session: connectors.set_up_push(session, console(as_json), name, action), data_dir
        ),
        as_json,
    )


@connector.command("delete", examples=["gristmill connector delete work --detach"])
def connector_delete(
    name: ConnectorName,
    purge: Annotated[
        bool | None, typer.Option("--purge/--detach", help="Delete its documents, or keep them.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Delete a connector. Choose what happens to its documents: --purge or --detach."""
    from gristmill.cli import connector_admin as connectors
    from gristmill.cli.client_session import Refused

    if purge is None:
        raise Refused("Pass --purge to delete its documents, or --detach to keep them.", code="bad_option")
    on_delete = "purge" if purge else "detach"
    print_json(
        run_with_client(
            lambda session: connectors.delete(session, console(as_json), name, on_delete), data_dir
        ),
        as_json,
    )
