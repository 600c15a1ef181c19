"""What listings and reports of changes say of documents that are known: one function per statement, in the caller's transaction.

A missing document is verified, then pruned, by this run or a later one (prune.py). One that has to be read again is noted among the
documents that are not read yet. Both survive a kill: they are saved with the checkpoint that passes them.
"""

from collections.abc import Mapping, Sequence

from gristmill.connectors.document_store import NOT_READ
from gristmill.connectors.model import ConnectorId, RunId
from gristmill.connectors.port import Batch, Stream
from gristmill.connectors.store import queries
from gristmill.db import Tx


async def save_changes(tx: Tx, connector: ConnectorId, run: RunId, batch: Batch) -> None:
    """Save what a batch reports of documents that it does not contain."""
    await mark_missing(tx, connector, batch.gone)
    if below := await find_below(tx, connector, batch.stream, batch.folders):
        await queries.run(tx, "note_unread", connector=connector, run=run, sources=below, **NOT_READ)


async def mark_missing(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> None:
    """Record that the tool reports documents as gone."""
    if sources:
        await queries.run(tx, "mark_documents_missing", connector=connector, sources=list(sources))


async def mark_unlisted_missing(tx: Tx, connector: ConnectorId, stream: Stream, listing: int) -> None:
    """Record that a complete listing did not name documents."""
    await queries.run(
        tx,
        "mark_unlisted_missing",
        connector=connector,
        scope=stream.scope,
        kind=stream.kind,
        listing=listing,
    )


async def find_missing(tx: Tx, connector: ConnectorId) -> set[str]:
    """The ids of missing documents that were not pruned yet."""
    return set(await queries.values(tx, "missing_documents", connector=connector))


async def find_below(
    tx: Tx, connector: ConnectorId, stream: Stream, folders: Mapping[str, str | None]
) -> list[str]:
    """The ids of documents that were read in one of these folders when it had another mark; in any case if it has none now."""
    if not folders:
        return []
    return await queries.values(
        tx,
        "documents_below",
        connector=connector,
        scope=stream.scope,
        kind=stream.kind,
        folders=list(folders),
        marks=list(folders.values()),
    )
