"""Who may see a connector's documents: one function per statement, in the caller's transaction."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gristmill.connectors import group_store
from gristmill.connectors.document_store import NOT_READ
from gristmill.connectors.model import ConnectorId, ConnectorRow
from gristmill.connectors.port import Audience, Document
from gristmill.connectors.store import queries
from gristmill.db import Tx

_MAX_NAME = 200
_READERS_CHANGED = {
    "code": "readers_changed",
    "message": "Its readers changed at the tool while it was read. The next run reads it again.",
}


async def save_audiences(tx: Tx, row: ConnectorRow, audiences: Sequence[Audience]) -> list[str]:
    """Save audiences as they are since `row` was read, with the groups that they name; the keys of those whose access list has
    changed and is to be applied. A later answer stays."""
    if not audiences:
        return []
    groups = {group.id: group for audience in audiences for group in audience.tool_groups}
    await group_store.save_groups(tx, row, groups.values())
    named = (*audiences, *groups.values())
    users = {user: name for each in named for user, name in each.users.items()}
    await queries.run(
        tx,
        "save_identities",
        connector=row.id,
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
            "tool_groups": sorted({group.id for group in audience.tool_groups}),
        }
        for audience in {audience.key: audience for audience in audiences}.values()
    ]
    return await queries.values(
        tx, "save_audiences", connector=row.id, audiences=json.dumps(rows), asked_at=row.read_at
    )


@dataclass(frozen=True)
class _AudienceAcl:
    key: str
    acl: list[str]


async def audience_acls(tx: Tx, connector: ConnectorId, keys: Sequence[str]) -> dict[str, list[str]]:
    """The access lists of audiences; an unknown audience has an empty one."""
    rows = await queries.many(tx, _AudienceAcl, "audience_acls", connector=connector, keys=list(keys))
    return {key: [] for key in keys} | {row.key: row.acl for row in rows}


async def audiences_unresolved_before(tx: Tx, connector: ConnectorId, before: datetime) -> list[str]:
    """The keys of audiences that could not be resolved, and were not asked for since an instant."""
    return await queries.values(tx, "audiences_unresolved_before", connector=connector, before=before)


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


async def close_unknown(tx: Tx, row: ConnectorRow, keys: Collection[str]) -> None:
    """Let only admins see documents of audiences that were never resolved, until they are: a record that had another audience before
    would keep its access list."""
    unknown = await unknown_audiences(tx, row.id, sorted(keys)) if keys else []
    await save_audiences(tx, row, [Audience(key, complete=False) for key in unknown])


async def audiences_asked_before(tx: Tx, connector: ConnectorId, before: datetime) -> list[str]:
    """The audiences that documents name and that were not asked for since an instant."""
    return await queries.values(tx, "audiences_asked_before", connector=connector, before=before)


@dataclass(frozen=True)
class _DocumentAudience:
    source_id: str
    audience: str


async def effective_audiences(tx: Tx, row: ConnectorRow, documents: Sequence[Document]) -> dict[str, str]:
    """The audience of each document, by source id: an answer of after `row` was read counts in place of what it says."""
    sources = [document.ref.source_id for document in documents]
    newer = await queries.many(
        tx, _DocumentAudience, "newer_audiences", connector=row.id, sources=sources, asked_at=row.read_at
    )
    said = {document.ref.source_id: document.audience for document in documents}
    return said | {entry.source_id: entry.audience for entry in newer}


async def audiences_of_user(tx: Tx, connector: ConnectorId, user_id: str) -> list[str]:
    """The audiences that an account is part of."""
    return await queries.values(tx, "audiences_of_user", connector=connector, user=user_id)


async def set_document_audiences(
    tx: Tx, row: ConnectorRow, audience_by_source: Mapping[str, str]
) -> list[str]:
    """Give documents the audiences that they have since `row` was read; the ids of the documents that had others. Those with marks
    are read again by the next run."""
    return await queries.values(
        tx,
        "set_document_audiences",
        connector=row.id,
        asked_at=row.read_at,
        sources=list(audience_by_source),
        audiences=list(audience_by_source.values()),
        **NOT_READ,
    )


async def note_older_audiences(tx: Tx, row: ConnectorRow, documents: Sequence[Document]) -> None:
    """Note documents that were read since `row` was and whose audience is that of a later answer: the next run reads them again."""
    await queries.run(
        tx,
        "note_older_audiences",
        connector=row.id,
        asked_at=row.read_at,
        sources=[document.ref.source_id for document in documents],
        audiences=[document.audience for document in documents],
        **_READERS_CHANGED,
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


async def close_audiences(tx: Tx, row: ConnectorRow, keys: Sequence[str]) -> list[str]:
    """Mark audiences as unresolved since `row` was read, so that only admins see their documents; the keys of those that
    were not asked for later."""
    return await queries.values(
        tx, "close_audiences", connector=row.id, keys=list(keys), asked_at=row.read_at
    )


async def delete_unused_audiences(tx: Tx, connector: ConnectorId) -> None:
    """Delete audiences that no document names any more."""
    await queries.run(tx, "delete_unused_audiences", connector=connector)


async def mark_access_resolved(tx: Tx, connector: ConnectorId, as_of: datetime) -> None:
    """Record that all permissions are those of an instant, or newer."""
    await queries.run(tx, "mark_access_resolved", connector=connector, as_of=as_of)
