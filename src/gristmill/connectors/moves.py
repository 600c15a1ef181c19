"""Moved documents keep their records: a file that was renamed in a bucket, a folder or a git repository. Those that people deleted
here stay deleted.

A listing names a document by an id that follows from its path, with a mark that is equal only for equal contents. Once the
listing is complete, an id that is new, with the mark of a document that is gone, is that document. Document and records get
the new id in one transaction under the job's lease; then the document is read again, because its title and address changed.
Killed before the commit, the next attempt finds the same moves; after it, none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog, faults, jobs
from gristmill.catalog import exclusions
from gristmill.connectors import store
from gristmill.connectors.model import ConnectorId, ConnectorRow, ConnectorRun
from gristmill.connectors.store import queries
from gristmill.db import Database, Tx
from gristmill.jobs import Job


@dataclass(frozen=True)
class _MovedDocument:
    """A document that the tool has under another id now, with equal contents."""

    old_id: str
    new_id: str


async def rename_moved(db: Database, job: Job, row: ConnectorRow, run: ConnectorRun) -> None:
    """Give documents that were moved, and their records, their new ids."""
    async with db.connection() as tx:
        if not await _find_moved(tx, row.id):
            return
    async with db.transaction() as tx:
        for base_id in sorted(row.base_ids):
            await catalog.lock_base(tx, base_id)
        await jobs.fence(tx, job)
        await store.require_unchanged(tx, row)
        moved = await _find_moved(tx, row.id)
        new_keys = {document.old_id: document.new_id for document in moved}
        await _rename_documents(tx, row.id, moved)
        for target in await store.find_containers(tx, row.id):
            if target.item_id is not None:
                await catalog.rename_records(tx, target.item_id, new_keys)
                await exclusions.rename_excluded_records(tx, target.item_id, new_keys)
        await store.add_log_line(tx, run.id, f"{len(moved)} documents were moved; they keep their records.")
        await faults.point("moves.before_commit")


async def _find_moved(tx: Tx, connector: ConnectorId) -> list[_MovedDocument]:
    """Documents that a complete listing no longer names, whose contents it names under one id that is new."""
    return await queries.many(tx, _MovedDocument, "moved_documents", connector=connector)


async def _rename_documents(tx: Tx, connector: ConnectorId, moved: Sequence[_MovedDocument]) -> None:
    """Give documents their new ids."""
    await queries.run(
        tx,
        "rename_documents",
        connector=connector,
        old_ids=[document.old_id for document in moved],
        new_ids=[document.new_id for document in moved],
    )
