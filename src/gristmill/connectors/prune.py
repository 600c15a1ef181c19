"""What the tool no longer has is hidden and removed; after a complete listing only, and never a mass of it unasked.

    not named by its stream's complete listing    asked for once more: a listing by pages can step over one that is there
    of a scope that is gone or closed             pruned
    of a stream that was not spoken of            the same; the connector says Gone of what it no longer follows

The guard: when more than `MOST` documents and more than `SHARE` of all would go, none does, and the run says so. A tool that
answers with half of what it has, or credentials that see less, must not empty a base. Whoever means it allows it.
"""

from collections.abc import Sequence

from gristmill import catalog, faults
from gristmill.connectors import batch_writer, store
from gristmill.connectors.batch_writer import BatchWriter
from gristmill.connectors.port import Batch, Connector, Document
from gristmill.connectors.store import StaleDocument
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.db import Database
from gristmill.errors import SourceGone, Unreadable
from gristmill.jobs import Job
from gristmill.operations import connection
from gristmill.operations.connection import ConnectorRow as Row
from gristmill.operations.connection import ConnectorRun

MASS_DELETION_COUNT = 20
MASS_DELETION_SHARE = 0.25
_BATCH_SIZE = 50


def is_mass_deletion(stale: int, documents: int) -> bool:
    """Whether so many would go that somebody has to say so."""
    return stale > MASS_DELETION_COUNT and stale > documents * MASS_DELETION_SHARE


class Pruner:
    """Prunes for one run."""

    def __init__(self, db: Database, writer: BatchWriter) -> None:
        self._db, self._writer = db, writer

    async def prune(self, job: Job, row: Row, run: ConnectorRun, connector: Connector) -> None:
        """Remove what is gone. Killed in between, the next attempt finds the rest."""
        async with self._db.connection() as tx:
            stale = await store.find_stale_documents(tx, row.id, run.id)
            total = await store.count_documents(tx, row.id)
        if is_mass_deletion(len(stale), total) and not run.allow_deletions:
            async with self._db.transaction() as tx:
                await store.queries.run(tx, "hold_deletions", run=run.id, count=len(stale))
                message = (
                    f"{len(stale)} of {total} documents seem to be gone: not deleted, for that is a mass."
                )
                await connection.add_log_line(tx, run.id, message, "warning")
            return
        for start in range(0, len(stale), _BATCH_SIZE):
            await self._prune(job, row, run, connector, stale[start : start + _BATCH_SIZE])

    async def _prune(
        self, job: Job, row: Row, run: ConnectorRun, connector: Connector, stale: Sequence[StaleDocument]
    ) -> None:
        gone_ids: list[str] = []
        for candidate in stale:
            document = await _fetch_again(connector, candidate)
            if document is None:
                gone_ids.append(candidate.ref.source_id)
            else:
                # A listing that stepped over it: it is there, and as it is now.
                prepared = await self._writer.prepare(
                    connector, row, Batch(document.ref.stream, documents=[document])
                )
                await self._writer.save(job, row, run, prepared, advance_stream=False)
        await faults.point("prune.asked")
        if not gone_ids:
            return
        async with self._db.transaction() as tx:
            bases = [await catalog.lock_base(tx, base_id) for base_id in sorted(row.base_ids)]
            await batch_writer.remove_documents(
                tx, job, row, run, gone_ids, [base for base in bases if base is not None]
            )
            await faults.point("prune.before_commit")


async def _fetch_again(connector: Connector, candidate: StaleDocument) -> Document | None:
    """The document, if it is there after all."""
    if not candidate.doubtful:
        return None
    try:
        return await connector.fetch(candidate.ref)
    except (RateLimited, CredentialsRejected):
        raise
    except (SourceGone, Unreadable):
        return None
