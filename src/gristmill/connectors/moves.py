"""Moved documents keep their records: a file that was renamed in a bucket, a folder or a git repository.

A listing names a document by an id that follows from its path, with a mark that is equal only for equal contents. Once the
listing is complete, an id that is new, with the mark of a document that is gone, is that document. Document and records get
the new id in one transaction under the job's lease; then the document is read again, because its title and address changed.
Killed before the commit, the next attempt finds the same moves; after it, none.
"""

from gristmill import catalog, faults, jobs
from gristmill.connectors import document_store, store
from gristmill.connectors.model import ConnectorRow, ConnectorRun
from gristmill.db import Database
from gristmill.jobs import Job


async def rename_moved(db: Database, job: Job, row: ConnectorRow, run: ConnectorRun) -> None:
    """Give documents that were moved, and their records, their new ids."""
    async with db.connection() as tx:
        if not await document_store.find_moved(tx, row.id):
            return
    async with db.transaction() as tx:
        for base_id in sorted(row.base_ids):
            await catalog.lock_base(tx, base_id)
        await jobs.fence(tx, job)
        moved = await document_store.find_moved(tx, row.id)
        new_keys = {document.old_id: document.new_id for document in moved}
        await document_store.rename_documents(tx, row.id, moved)
        for target in await store.find_containers(tx, row.id):
            if target.item_id is not None:
                await catalog.rename_records(tx, target.item_id, new_keys)
        await store.add_log_line(tx, run.id, f"{len(moved)} documents were moved; they keep their records.")
        await faults.point("moves.before_commit")
