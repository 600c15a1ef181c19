"""The work of `gristmill keys` and `gristmill audit`. They use the database directly, so that the first key can be
created before any other exists, with or without a running server."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from rich.console import Console
from rich.text import Text

from gristmill import identity
from gristmill.catalog import access
from gristmill.cli.output import new_table, print_json
from gristmill.db import Database
from gristmill.errors import Conflict, Invalid, NotFound
from gristmill.identity import ApiKey, KeyId, NewApiKey, Organisation, Role, audit

_MAX_KEYS = 500


async def create(
    db: Database, organisation: str, new: NewApiKey, owner: str | None = None
) -> tuple[ApiKey, str]:
    """Create a key in an organisation, which is created if it does not exist; returns the key and its secret. With `owner`, the
    address of a user, it belongs to them."""
    access.member(new.email, new.teams, new.groups)  # rejects principals that could never be in an ACL
    async with db.transaction() as tx:
        org = await identity.ensure_organisation(tx, organisation)
        if owner is not None:
            user = await identity.users.find_user_by(tx, org.id, "email", owner)
            if user is None:
                raise identity.users.no_such_user(owner)
            new = replace(new, user_id=user.id)
        key, secret = await identity.insert_key(tx, org.id, new)
        await audit.record(
            tx, org.id, actor="cli", role="admin", method="POST", path=f"/api/api-keys/{key.id}", status=201
        )
    return key, secret


async def revoke(db: Database, organisation: str, name: str) -> ApiKey:
    """Revoke the key with this id, prefix or name."""
    org = await _find_organisation(db, organisation)
    async with db.transaction() as tx:
        matches = [
            key for key in await identity.list_keys(tx, org.id, limit=_MAX_KEYS) if _is_named(key, name)
        ]
        if not matches:
            raise NotFound(
                f"There is no key {name!r}. `gristmill keys list` lists them.", code="key_not_found"
            )
        if len(matches) > 1:
            raise Conflict(
                f"{len(matches)} keys are named {name!r}. Pass the id of one.", code="key_ambiguous"
            )
        await identity.delete_key(tx, org.id, KeyId(matches[0].id))
        await audit.record(
            tx,
            org.id,
            actor="cli",
            role="admin",
            method="DELETE",
            path=f"/api/api-keys/{matches[0].id}",
            status=204,
        )
    return matches[0]


async def print_keys(db: Database, out: Console, *, as_json: bool) -> None:
    """Print all keys of all organisations."""
    async with db.connection() as tx:
        entries = [
            (org, key)
            for org in await identity.list_organisations(tx)
            for key in await identity.list_keys(tx, org.id, limit=_MAX_KEYS)
        ]
    if as_json:
        print_json([{"organisation": org.name, **key_json(key)} for org, key in entries], as_json)
        return
    if not entries:
        out.print("No keys yet. Create one with: gristmill keys create NAME --role admin")
        return
    table = new_table("organisation", "name", "role", "key", "principal", "expires", "last used")
    for org, key in entries:
        principals = [
            key.email or "",
            *(f"team:{name}" for name in key.teams),
            *(f"group:{name}" for name in key.groups),
        ]
        table.add_row(
            Text(org.name),
            Text(key.name),
            key.role,
            f"{key.prefix}…",
            Text(" ".join(filter(None, principals))),
            _format_time(key.expires_at),
            _format_time(key.last_used_at),
        )
    out.print(table)


def audit_filter(actor: str | None, action: str | None) -> audit.AuditFilter:
    """The filter that the options describe."""
    if action is None:
        return audit.AuditFilter(actor=actor)
    for known in get_args(audit.AuditAction):
        if known == action:
            return audit.AuditFilter(actor=actor, action=known)
    raise Invalid(f"{action!r} is not an action. Use change, export, read or sign_in.", code="bad_option")


async def print_audit(
    db: Database, out: Console, organisation: str, *, limit: int, chosen: audit.AuditFilter, as_json: bool
) -> None:
    """Print the audit log of an organisation, newest first."""
    org = await _find_organisation(db, organisation)
    async with db.connection() as tx:
        entries = await audit.find_all(tx, org.id, limit=limit, chosen=chosen)
    if as_json:
        from gristmill.server.api.schemas.keys import AuditOut  # imports the server, which takes a second

        print_json(
            [
                AuditOut.model_validate(vars(entry)).model_dump(mode="json", by_alias=True)
                for entry in entries
            ],
            as_json,
        )
        return
    if not entries:
        out.print("The audit log is empty.")
        return
    table = new_table("at", "who", "role", "what", "status", "ms", right=("ms",))
    for entry in entries:
        table.add_row(
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            Text(entry.actor),
            entry.role,
            Text(f"{entry.method} {entry.path}"),
            str(entry.status or "?"),
            str(entry.took_ms or ""),
        )
    out.print(table)


def new_key(
    name: str, role: Role, email: str | None, teams: list[str], groups: list[str], days: int | None
) -> NewApiKey:
    """The key that the options describe."""
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    return NewApiKey(
        name, role, None if email is None else email.lower(), tuple(teams), tuple(groups), expires
    )


async def _find_organisation(db: Database, name: str) -> Organisation:
    async with db.connection() as tx:
        organisation = await identity.find_organisation(tx, name)
    if organisation is None:
        raise NotFound(f"There is no organisation {name!r}.", code="organisation_not_found")
    return organisation


def _is_named(key: ApiKey, name: str) -> bool:
    try:
        return key.id == UUID(name)
    except ValueError:
        return name in (key.name, key.prefix)


def key_json(key: ApiKey) -> dict[str, Any]:
    """A key as the API shows it."""
    from gristmill.server.api.schemas.keys import KeyOut  # imports the server, which takes a second

    return KeyOut.of(key).model_dump(mode="json", by_alias=True)


def new_key_json(key: ApiKey, secret: str) -> dict[str, Any]:
    """A new key with its secret, as the API shows it."""
    from gristmill.server.api.schemas.keys import NewKeyOut  # imports the server, which takes a second

    return NewKeyOut.with_secret(key, secret).model_dump(mode="json", by_alias=True)


def _format_time(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"
