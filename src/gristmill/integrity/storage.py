"""How much room the installation takes: the database, the uploads, and each base of an organisation.

Sizes of bases are estimates: their chunks are in one table, so that a base has its share of it by the number of its chunks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from gristmill.db import Queries, Tx
from gristmill.identity import OrgId

queries = Queries(__package__ or "gristmill.integrity")


@dataclass(frozen=True)
class BaseStorage:
    """A base with the room it takes: `chunk_bytes` of texts and vectors, `index_bytes` of the embedded index."""

    id: UUID
    name: str
    status: str
    embedder: str
    dimensions: int
    index_kind: str
    items: int
    chunks: int
    chunk_bytes: int
    index_bytes: int
    upload_bytes: int


@dataclass(frozen=True)
class StorageTotals:
    """The room that the whole installation takes. `upload_bytes` are in the store of uploads, all else is in the database."""

    database_bytes: int
    chunk_bytes: int
    index_bytes: int
    content_bytes: int
    uploads: int
    upload_bytes: int


async def storage_totals(tx: Tx) -> StorageTotals:
    """The room that the whole installation takes."""
    return await queries.one(tx, StorageTotals, "storage_totals")


async def storage_of_bases(tx: Tx, org: OrgId, limit: int) -> Sequence[BaseStorage]:
    """The bases of an organisation, the largest first."""
    return await queries.many(tx, BaseStorage, "storage_of_bases", org=org, limit=limit)
