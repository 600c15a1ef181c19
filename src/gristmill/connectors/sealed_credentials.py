"""Credentials of connectors under a new sealing key."""

from uuid import UUID

from gristmill.connectors.model import ConnectorId
from gristmill.connectors.registry import credentials_purpose
from gristmill.connectors.store import queries
from gristmill.db import Tx
from gristmill.vault import ResealedRows, SealedRow, Vault


async def reseal_credentials(tx: Tx, vault: Vault, after: UUID | None, limit: int) -> ResealedRows:
    """Seal the next values by the vault's current key that another one sealed."""
    rows = await queries.many(
        tx, SealedRow, "old_sealed_credentials", prefix=vault.prefix, after=after, limit=limit
    )
    unreadable = 0
    for row in rows:
        sealed = vault.reseal(row.sealed, credentials_purpose(ConnectorId(row.id)))
        if sealed is None:
            unreadable += 1
        else:
            await queries.run(tx, "replace_sealed_credentials", id=row.id, sealed=sealed)
    return ResealedRows(rows[-1].id if rows else None, len(rows), unreadable)
