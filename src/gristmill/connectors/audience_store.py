"""Who may see a connector's documents: one function per statement, in the caller's transaction."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gristmill.connectors.model import ConnectorId
from gristmill.connectors.port import Audience
from gristmill.connectors.store import queries
from gristmill.db import Tx

_MAX_NAME = 200


async def save_audiences(tx: Tx, connector: ConnectorId, audiences: Sequence[Audience]) -> list[str]:
    """Save audiences as they are now; the keys of those whose access list has changed and is to be applied."""
    if not audiences:
        return []
    users = {user: name for audience in audiences for user, name in audience.users.items()}
    await queries.run(
        tx,
        "save_identities",
        connector=connector,
        users=list(users),
        names=[name[:_MAX_NAME] for name in users.values()],
    )
    rows = [
        {
            "key": audience.key,
            "everybody": audience.everybody,
            "emails": sorted(audience.emails),
            "users": sorted(audience.users),
            "groups": sorted(audience.groups),
            "complete": audience.complete,
        }
        for audience in {audience.key: audience for audience in audiences}.values()
    ]
    return await queries.values(tx, "save_audiences", connector=connector, audiences=json.dumps(rows))


@dataclass(frozen=True)
class _AudienceAcl:
    key: str
    acl: list[str]


async def audience_acls(tx: Tx, connector: ConnectorId, keys: Sequence[str]) -> dict[str, list[str]]:
    """The access lists of audiences; an unknown audience has an empty one."""
    rows = await queries.many(tx, _AudienceAcl, "audience_acls", connector=connector, keys=list(keys))
    return {key: [] for key in keys} | {row.key: row.acl for row in rows}


@dataclass(frozen=True)
class UnresolvedAudience:
    """An audience of which the tool did not say who it is, and how many documents it has."""

    key: str
    documents: int


async def find_unresolved_audiences(tx: Tx, connector: ConnectorId) -> list[UnresolvedAudience]:
    """The audiences whose documents only admins see because they could not be resolved."""
    return await queries.many(tx, UnresolvedAudience, "unresolved_audiences", connector=connector)


async def unknown_audiences(tx: Tx, connector: ConnectorId, keys: Sequence[str]) -> list[str]:
    """Those of the audiences that were never resolved."""
    return await queries.values(tx, "unknown_audiences", connector=connector, keys=list(keys))


async def audience_keys(tx: Tx, connector: ConnectorId) -> list[str]:
    """The audiences that documents name."""
    return await queries.values(tx, "audience_keys", connector=connector)


async def audiences_of_user(tx: Tx, connector: ConnectorId, user_id: str) -> list[str]:
    """The audiences that an account is part of."""
    return await queries.values(tx, "audiences_of_user", connector=connector, user=user_id)


async def set_document_audiences(
    tx: Tx, connector: ConnectorId, audience_by_source: Mapping[str, str]
) -> list[str]:
    """Give documents these audiences; the ids of the documents that had others."""
    return await queries.values(
        tx,
        "set_document_audiences",
        connector=connector,
        sources=list(audience_by_source),
        audiences=list(audience_by_source.values()),
    )


async def apply_audiences(
    tx: Tx, connector: ConnectorId, keys: Sequence[str], sources: Sequence[str] | None = None
) -> int:
    """Write the access lists of audiences onto records, of all documents or of `sources`; how many records changed."""
    source_list = None if sources is None else list(sources)
    changed = await queries.values(
        tx, "apply_audiences", connector=connector, keys=list(keys), sources=source_list
    )
    return changed[0]


async def apply_connector_acl(tx: Tx, connector: ConnectorId) -> None:
    """Write the connector's own access list, or its audiences' lists if it has none, onto containers and records."""
    await queries.values(tx, "apply_connector_acl", connector=connector)


async def close_audiences(tx: Tx, connector: ConnectorId, keys: Sequence[str]) -> list[str]:
    """Mark audiences as unresolved, so that only admins see their documents; the keys of those that were resolved."""
    return await queries.values(tx, "close_audiences", connector=connector, keys=list(keys))


async def delete_unused_audiences(tx: Tx, connector: ConnectorId) -> None:
    """Delete audiences that no document names any more."""
    await queries.run(tx, "delete_unused_audiences", connector=connector)


async def mark_access_resolved(tx: Tx, connector: ConnectorId) -> None:
    """Record that all permissions were resolved just now."""
    await queries.run(tx, "mark_access_resolved", connector=connector)
