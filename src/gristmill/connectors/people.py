"""Maps accounts of a tool to email addresses, many at once: from a CSV file, or by the users of the organisation.

Accounts whose address the tool shows need no mapping: their documents are visible to whoever signs in with that address. The others
are listed here until they are mapped, and see nothing meanwhile.

    a CSV file    a row for each account: its id (`userId`) or, if that is unique, its name (`name`), and its `email`. An empty
                  address removes the mapping. Rows that can't be followed are reported, the others are saved; of an account
                  with two addresses, none is
    users         an account whose id or name is the user name, the external id or the address of exactly one active user, as
                  the identity provider knows them. Display names are not compared: two people may share one

Each is one transaction under shared locks of the bases; access follows at once.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gristmill import catalog
from gristmill.catalog.access import parse_acl
from gristmill.connectors import audience_store, store
from gristmill.connectors.model import ConnectorId, ConnectorIdentity
from gristmill.connectors.store import queries
from gristmill.db import Database, Tx
from gristmill.errors import Invalid, NotFound

MAX_ROWS = 20_000
_COLUMNS = {"userid": "user_id", "user_id": "user_id", "name": "name", "email": "email"}


@dataclass(frozen=True)
class RowFailure:
    """A row of a CSV file that was not followed, and why."""

    line: int
    code: str
    message: str


@dataclass(frozen=True)
class MappingResult:
    """The accounts whose mapping changed or would change, how many stay as they were, and the rows that were not followed."""

    mapped: Sequence[ConnectorIdentity]
    unchanged: int = 0
    failed: Sequence[RowFailure] = field(default_factory=list[RowFailure])


async def import_csv(
    db: Database, connector_id: ConnectorId, text: str, *, dry_run: bool = False
) -> MappingResult:
    """Map accounts to the addresses that a CSV file has for them."""
    rows = _parse_rows(text)
    async with db.transaction() as tx:
        identities = await _lock(tx, connector_id)
        emails, failed = _resolve_rows(rows, identities)
        changes = {user: email for user, email in emails.items() if _email_of(identities, user) != email}
        mapped = [_with_email(identities, user, email) for user, email in changes.items()]
        if not dry_run:
            await _save(tx, connector_id, changes)
    return MappingResult(mapped, len(emails) - len(changes), failed)


async def match_users(db: Database, connector_id: ConnectorId, *, dry_run: bool = False) -> MappingResult:
    """Map accounts without an address to the users that the identity provider knows by the same name, id or address."""
    async with db.transaction() as tx:
        await _lock(tx, connector_id)
        matches = await queries.many(tx, ConnectorIdentity, "matching_users", connector=connector_id)
        if not dry_run:
            await _save(tx, connector_id, {match.user_id: match.email for match in matches})
    return MappingResult(matches)


async def _lock(tx: Tx, connector_id: ConnectorId) -> dict[str, ConnectorIdentity]:
    """Lock the bases of a connector; its accounts by id."""
    connector = await store.find_connector(tx, connector_id)
    if connector is None:
        raise NotFound(f"There is no connector {connector_id}.", code="connector_not_found")
    await catalog.lock_bases_shared(tx, connector.base_ids)
    identities = await queries.many(tx, ConnectorIdentity, "all_identities", connector=connector_id)
    return {identity.user_id: identity for identity in identities}


async def _save(tx: Tx, connector_id: ConnectorId, emails: Mapping[str, str | None]) -> None:
    if not emails:
        return
    users = sorted(emails)
    await queries.run(
        tx, "map_identities", connector=connector_id, users=users, emails=[emails[user] for user in users]
    )
    keys = await queries.values(tx, "audiences_of_users", connector=connector_id, users=users)
    await audience_store.apply_audiences(tx, connector_id, keys)


def _parse_rows(text: str) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file by the names of its columns, each with its line."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as error:
        raise Invalid(f"The CSV file can't be read: {error}.", code="bad_csv") from None
    lines = [(number, cells) for number, cells in lines if any(cells)]
    header = [_COLUMNS.get(cell.lower(), "") for cell in lines[0][1]] if lines else []
    if "email" not in header or not {"user_id", "name"} & set(header):
        raise Invalid(
            "The first line of the CSV file must name its columns: userId or name, and email.", code="bad_csv"
        )
    if len(lines) > MAX_ROWS + 1:
        raise Invalid(
            f"The CSV file has more than {MAX_ROWS:,} rows. Import it in several parts.", code="bad_csv"
        )
    return [(number, dict(zip(header, cells, strict=False))) for number, cells in lines[1:]]


def _resolve_rows(
    rows: Sequence[tuple[int, Mapping[str, str]]], identities: Mapping[str, ConnectorIdentity]
) -> tuple[dict[str, str | None], list[RowFailure]]:
    """The address for each account, and the rows that name none."""
    by_name: dict[str, list[str]] = {}
    for identity in identities.values():
        by_name.setdefault(identity.name.lower(), []).append(identity.user_id)
    emails: dict[str, str | None] = {}
    failed: list[RowFailure] = []
    line_by_user: dict[str, int] = {}
    conflicting: set[str] = set()
    for line, row in rows:
        users = [row["user_id"]] if row.get("user_id") else by_name.get(row.get("name", "").lower(), [])
        try:
            email = _parse_email(row.get("email", ""))
        except Invalid:
            failed.append(RowFailure(line, "bad_email", "The address is not an email address."))
            continue
        if len(users) == 1:
            first_line = line_by_user.setdefault(users[0], line)
            if emails.setdefault(users[0], email) != email:
                conflicting.add(users[0])
                message = f"Line {first_line} has another address for this account. Keep one of the two."
                failed.append(RowFailure(line, "conflicting_rows", message))
        elif users:
            message = f"{len(users)} accounts have this name. Add a column userId."
            failed.append(RowFailure(line, "ambiguous_account", message))
        else:
            message = "No account has this name. Check it, or add a column userId."
            failed.append(RowFailure(line, "unknown_account", message))
    # Either could be wrong, and would give someone else access.
    return {user: email for user, email in emails.items() if user not in conflicting}, failed


def _parse_email(text: str) -> str | None:
    if not text:
        return None
    if "@" not in text:
        raise Invalid("Not an email address.", code="bad_csv")
    (entry,) = parse_acl([f"user_email:{text}"], field="email")
    return entry.partition(":")[2]


def _email_of(identities: Mapping[str, ConnectorIdentity], user: str) -> str | None:
    return identities[user].email if user in identities else None


def _with_email(
    identities: Mapping[str, ConnectorIdentity], user: str, email: str | None
) -> ConnectorIdentity:
    return ConnectorIdentity(user, identities[user].name if user in identities else "", email)
