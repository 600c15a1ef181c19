"""Embedders that organisations made, in the caller's transaction. Keys are encrypted by the vault before they get here.

Whoever uses an embedder for something that stays, such as a new base, holds its row: it can then be neither changed nor
deleted until that is committed. Whoever changes or deletes one locks its row, and then looks at what uses it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, NewType
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.db import Tx
from gristmill.embedding.store import queries
from gristmill.identity import OrgId
from gristmill.vault import ResealedRows, SealedRow, Vault

EmbedderId = NewType("EmbedderId", UUID)


@dataclass(frozen=True)
class EmbedderRow:
    """A row of `embedder`."""

    id: EmbedderId
    org_id: OrgId
    name: str
    kind: str
    config: dict[str, Any]
    api_key: bytes | None
    private: bool
    revision: int
    created_at: datetime
    updated_at: datetime


class _Revision(NamedTuple):
    id: EmbedderId
    revision: int


def key_purpose(embedder_id: EmbedderId) -> str:
    """What an embedder's key is encrypted for: it can't be decrypted as anything else."""
    return f"embedder:{embedder_id}"


async def insert(
    tx: Tx,
    embedder_id: EmbedderId,
    org: OrgId,
    *,
    name: str,
    kind: str,
    config: Mapping[str, Any],
    api_key: bytes | None,
    private: bool,
) -> EmbedderRow | None:
    """Create an embedder; None if the organisation has one of that name."""
    return await queries.maybe(
        tx,
        EmbedderRow,
        "insert_embedder",
        id=embedder_id,
        org=org,
        name=name,
        kind=kind,
        config=Jsonb(config),
        api_key=api_key,
        private=private,
    )


async def update(
    tx: Tx, embedder_id: EmbedderId, *, config: Mapping[str, Any], api_key: bytes | None, private: bool
) -> EmbedderRow:
    """Change an embedder that the caller has locked."""
    return await queries.one(
        tx,
        EmbedderRow,
        "update_embedder",
        id=embedder_id,
        config=Jsonb(config),
        api_key=api_key,
        private=private,
    )


async def delete(tx: Tx, embedder_id: EmbedderId) -> None:
    """Delete an embedder that the caller has locked."""
    await queries.run(tx, "delete_embedder", id=embedder_id)


async def lock(tx: Tx, org: OrgId, name: str) -> EmbedderRow | None:
    """One embedder, locked until the transaction ends: to change or delete it."""
    return await queries.maybe(tx, EmbedderRow, "lock_embedder", org=org, name=name)


async def hold(tx: Tx, org: OrgId, name: str) -> EmbedderRow | None:
    """One embedder, which stays as it is until the transaction ends: to use it."""
    return await queries.maybe(tx, EmbedderRow, "hold_embedder", org=org, name=name)


async def find_all(tx: Tx, org: OrgId) -> list[EmbedderRow]:
    """All embedders of an organisation, by name."""
    return await queries.many(tx, EmbedderRow, "embedders", org=org)


async def revisions(tx: Tx, org: OrgId) -> dict[EmbedderId, int]:
    """The revision of each embedder of an organisation."""
    return {row.id: row.revision for row in await queries.many(tx, _Revision, "embedder_revisions", org=org)}


async def names_among(tx: Tx, names: Sequence[str]) -> list[str]:
    """Those of the names that a stored embedder of any organisation has."""
    return await queries.values(tx, "embedder_names", names=list(names))


async def count_locked(tx: Tx, org: OrgId) -> int:
    """How many embedders an organisation has; no other transaction creates one of its embedders until this one ends."""
    await queries.values(tx, "lock_embedder_creation", org=org)
    return (await queries.values(tx, "count_embedders", org=org))[0]


async def set_default(tx: Tx, org: OrgId, name: str) -> None:
    """Choose the embedder of an organisation's new bases."""
    await queries.run(tx, "set_default_embedder", org=org, name=name)


async def reset_default(tx: Tx, org: OrgId, name: str) -> None:
    """Leave the embedder of an organisation's new bases to the settings again, if it is this one."""
    await queries.run(tx, "reset_default_embedder", org=org, name=name)


async def default_name(tx: Tx, org: OrgId) -> str | None:
    """The name of the embedder that an organisation chose for its new bases."""
    return next(iter(await queries.values(tx, "default_embedder", org=org)), None)


async def reseal_keys(tx: Tx, vault: Vault, after: UUID | None, limit: int) -> ResealedRows:
    """Seal the next values by the vault's current key that another one sealed."""
    rows = await queries.many(
        tx, SealedRow, "old_sealed_embedder_keys", prefix=vault.prefix, after=after, limit=limit
    )
    unreadable = 0
    for row in rows:
        sealed = vault.reseal(row.sealed, key_purpose(EmbedderId(row.id)))
        if sealed is None:
            unreadable += 1
        else:
            await queries.run(tx, "replace_sealed_embedder_key", id=row.id, sealed=sealed)
    return ResealedRows(rows[-1].id if rows else None, len(rows), unreadable)
