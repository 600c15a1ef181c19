"""The work of `gristmill connector people`, through the API."""

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gristmill.cli.client_session import ClientSession, Refused
from gristmill.cli.connector_admin import connector_by_name
from gristmill.cli.output import new_table


async def list_accounts(session: ClientSession, name: str, *, unmapped: bool) -> list[dict[str, Any]]:
    """The accounts of a connector's tool whose address it does not show."""
    connector = await connector_by_name(session, name)
    pages = session.client.pages(f"/connectors/{connector['id']}/identities", unmapped=unmapped)
    return [account async for account in pages]


async def list_groups(session: ClientSession, name: str) -> list[dict[str, Any]]:
    """The groups of a connector's tool that access lists name."""
    connector = await connector_by_name(session, name)
    return [group async for group in session.client.pages(f"/connectors/{connector['id']}/groups")]


def group_table(groups: Sequence[Mapping[str, Any]]) -> Table | Text:
    """A table of groups and how many members they have."""
    if not groups:
        return Text("Access lists name no groups of this tool.")
    table = new_table("group", "members", "entry in access lists", right=("members",))
    for group in groups:
        members = str(group["memberCount"]) if group["complete"] else "not known"
        table.add_row(Text(group["name"]), members, Text(group["entry"]))
    return table


def account_table(accounts: Sequence[Mapping[str, Any]]) -> Table | Text:
    """A table of accounts and their addresses."""
    if not accounts:
        return Text("No accounts without an address of their own: there is nothing to map.")
    table = new_table("account", "name", "email")
    for account in accounts:
        table.add_row(Text(account["userId"]), Text(account["name"]), Text(account["email"] or "not mapped"))
    return table


def to_csv(accounts: Sequence[Mapping[str, Any]]) -> str:
    """A CSV file of accounts, as `--import` reads it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["userId", "name", "email"])
    writer.writerows([account["userId"], account["name"], account["email"] or ""] for account in accounts)
    return text.getvalue()


def read_csv(file: str) -> str:
    """The text of a CSV file, or of standard input."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Refused(f"{file} can't be read: {error.strerror}", code="bad_csv") from error
    except UnicodeDecodeError as error:
        raise Refused(
            f"{file} is not in UTF-8. Save it as CSV in UTF-8, then import it again.", code="bad_csv"
        ) from error


async def map_accounts(
    session: ClientSession, out: Console, name: str, text: str | None, *, dry_run: bool
) -> dict[str, Any]:
    """Map accounts by the text of a CSV file, or by users of the organisation."""
    connector = await connector_by_name(session, name)
    path = f"/connectors/{connector['id']}/identities/{'match' if text is None else 'import'}"
    body: dict[str, Any] = {"dryRun": dry_run, **({} if text is None else {"csv": text})}
    result = await session.call("POST", path, json=body)
    for account in result["mapped"]:
        label = account["name"] or account["userId"]
        out.print(f"{escape(label)} → {escape(account['email'] or 'not mapped')}")
    for failure in result["failed"]:
        out.print(f"[red]Line {failure['line']}: {escape(failure['message'])}[/red] ({failure['code']})")
    verb = "Would map" if dry_run else "Mapped"
    out.print(
        f"{verb} {len(result['mapped'])}, unchanged {result['unchanged']}, failed {len(result['failed'])}."
    )
    return result
