"""`gristmill base …`: create, list, show, rename, share and delete bases, through the API."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from gristmill.cli.common import AsJson, BaseName, DataDir, run_with_client
from gristmill.cli.help import CommandLine
from gristmill.cli.output import confirm, console, details, new_table, plural, print_json

base_cli = CommandLine(
    name="base",
    help="Create, list, show, rename, share and delete bases.",
    examples=["gristmill base create handbook", "gristmill base list"],
)


@base_cli.command(
    "create", examples=["gristmill base create handbook", "gristmill base create 手册 --language zh"]
)
def create_base(
    name: Annotated[str, typer.Argument(help="Name of the new base.")],
    embedder: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Embedder of its texts; by default the one of the settings."),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE", help="A language of its texts, such as zh: chooses the embedder. Repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Create an empty base. `gristmill add` creates a base too, if it does not exist."""

    async def run(session: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"name": name, "languages": language or []}
        if embedder is not None:
            body["embedder"] = embedder
        return await session.call("POST", "/knowledge-bases", json=body)

    print_json(run_with_client(run, data_dir), as_json)
    console(as_json).print(f"Created [bold]{escape(name)}[/bold].")


@base_cli.command("list", examples=["gristmill base list", "gristmill base list --json"])
def list_bases(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the bases. `gristmill status` also shows their queues."""
    from gristmill.cli import status

    async def run(session: Any) -> list[dict[str, Any]]:
        return await status.find_bases(session, None)

    bases = run_with_client(run, data_dir)
    print_json(bases, as_json)
    console(as_json).print(status.base_table(bases))


@base_cli.command("show", examples=["gristmill base show handbook"])
def show_base(name: BaseName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show a base: its items by status, embedder, chunking and settings."""
    from gristmill.cli import status
    from gristmill.cli.add import print_suggestion

    async def run(session: Any) -> list[dict[str, Any]]:
        return await status.find_bases(session, name)

    (base,) = run_with_client(run, data_dir)
    print_json(base, as_json)
    console(as_json).print(details(base))
    print_suggestion(console(as_json), base)


@base_cli.command("rename", examples=["gristmill base rename handbook manual"])
def rename_base(
    name: BaseName,
    new_name: Annotated[str, typer.Argument(help="Its new name.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Rename a base."""
    from gristmill.cli.add import base_id_by_name

    async def run(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        return await session.call("PATCH", f"/knowledge-bases/{base_id}", json={"name": new_name})

    print_json(run_with_client(run, data_dir), as_json)
    console(as_json).print(f"Renamed [bold]{escape(name)}[/bold] to [bold]{escape(new_name)}[/bold].")


@base_cli.command(
    "delete", examples=["gristmill base delete handbook", "gristmill base delete handbook --yes"]
)
def delete_base(
    name: BaseName,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Delete a base with everything in it. This can't be undone."""
    from gristmill.cli.add import base_id_by_name

    messages = console(as_json)

    async def find(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        return await session.call("GET", f"/knowledge-bases/{base_id}")

    async def delete(session: Any) -> dict[str, Any]:
        job = await session.client.delete_base(base["id"])
        messages.print(f"Deleted [bold]{escape(base['name'])}[/bold].")
        if not session.is_remote:
            messages.print("No server is running. Its data is removed when `gristmill serve` runs.")
        return {"id": base["id"], "name": base["name"], **job}

    base = run_with_client(find, data_dir)
    items = plural(sum(base["itemCounts"].values()), "item")
    if not yes and not confirm(
        f"Delete {base['name']} with {items}? This can't be undone.", "Deleting a base"
    ):
        messages.print("Nothing was deleted.")
        raise typer.Exit(1)
    print_json(run_with_client(delete, data_dir), as_json)


SharedWith = Annotated[
    str,
    typer.Argument(metavar="WITH", help="Address of a person, or name of a group; or org:* for everyone."),
]


@base_cli.command("share", examples=["gristmill base share handbook ann@example.org --role editor"])
def share_base(
    name: BaseName,
    shared_with: SharedWith,
    role: Annotated[str, typer.Option(metavar="ROLE", help="reader, editor or owner.")] = "reader",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Share a base with a person or a group, or change what they may do."""
    from gristmill.cli.add import base_id_by_name
    from gristmill.cli.principals import principal_entry

    async def run(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        body = {"principal": principal_entry(shared_with), "role": role}
        return await session.call("PUT", f"/knowledge-bases/{base_id}/shares", json=body)

    share = run_with_client(run, data_dir)
    print_json(share, as_json)
    console(as_json).print(f"{escape(share['name'])} is {role} of [bold]{escape(name)}[/bold].")


@base_cli.command("unshare", examples=["gristmill base unshare handbook Research"])
def unshare_base(
    name: BaseName, shared_with: SharedWith, as_json: AsJson = False, data_dir: DataDir = None
) -> None:
    """Stop sharing a base with a person or a group."""
    from gristmill.cli.add import base_id_by_name
    from gristmill.cli.principals import principal_entry

    async def run(session: Any) -> None:
        base_id = await base_id_by_name(session, name, create=False)
        query = {"principal": principal_entry(shared_with)}
        await session.call("DELETE", f"/knowledge-bases/{base_id}/shares", params=query)

    run_with_client(run, data_dir)
    print_json({"principal": principal_entry(shared_with)}, as_json)
    console(as_json).print(f"[bold]{escape(name)}[/bold] is no longer shared with {escape(shared_with)}.")


@base_cli.command("shares", examples=["gristmill base shares handbook"])
def list_shares(name: BaseName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List with whom a base is shared."""
    from gristmill.cli.add import base_id_by_name

    async def run(session: Any) -> dict[str, Any]:
        base_id = await base_id_by_name(session, name, create=False)
        return await session.call("GET", f"/knowledge-bases/{base_id}/shares")

    shares = run_with_client(run, data_dir)["items"]
    print_json(shares, as_json)
    if not shares:
        console(as_json).print("Only admins see this base. Share it with: gristmill base share NAME WITH")
        return
    table = new_table("name", "address", "role", "entry")
    for share in shares:
        role = share["role"] or "their own"
        table.add_row(escape(share["name"]), share["email"] or "", role, escape(share["principal"]))
    console(as_json).print(table)
