"""Deletes documents that the tool no longer has: only after a complete listing, and never many at once without permission.

    a document …
    that its stream's complete listing did not name   is verified: paging can step over a document that is there
    of a scope that is gone or closed                 is pruned
    of a stream that the run did not report on        is verified; the connector raises SourceGone when it no longer follows it

Verified is gone if the tool says that it does not exist, or that these credentials may not read it. Any other error is an error of
the run, and the document stays: an answer that can't be understood may come from a proxy or a log-in page.

The guard: when more than `MASS_DELETION_COUNT` documents and more than `MASS_DELETION_SHARE` of all would be deleted, none
is, and the run reports it. A tool that returns half of what it has, or credentials that see less, must not empty a base. A
user who means it syncs with `allowDeletions`.
"""

from collections.abc import Sequence

from gristmill import catalog, faults, jobs
from gristmill.connectors import batch_writer, document_store, store
from gristmill.connectors.batch_writer import BatchWriter
from gristmill.connectors.document_reader import resolve_unknown
from gristmill.connectors.document_store import StaleDocument
from gristmill.connectors.model import ConnectorRow, ConnectorRun
from gristmill.connectors.port import Batch, Connector, Document, ReadFailure
from gristmill.connectors.transport import FORBIDDEN, CredentialsRejected, RateLimited
from gristmill.db import Database
from gristmill.errors import SourceGone, Unreadable
from gristmill.jobs import Job

MASS_DELETION_COUNT = 20
MASS_DELETION_SHARE = 0.25
_BATCH_SIZE = 50


def is_mass_deletion(stale: int, documents: int) -> bool:
    """Whether so many documents would be deleted that a user has to allow it."""
    return stale > MASS_DELETION_COUNT and stale > documents * MASS_DELETION_SHARE


class Pruner:
    """Prunes the documents of a connector."""

    def __init__(self, db: Database, writer: BatchWriter) -> None:
        self._db, self._writer = db, writer

    async def prune(self, job: Job, row: ConnectorRow, run: ConnectorRun, connector: Connector) -> None:
        """Delete what is gone. After a kill, the next attempt finds the rest."""
        async with self._db.connection() as tx:
            stale = await document_store.find_stale_documents(tx, row.id, run.id)
            total = await document_store.count_documents(tx, row.id)
        if is_mass_deletion(len(stale), total) and not run.allow_deletions:
            await faults.point("prune.guarded")
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.require_unchanged(tx, row)
                await store.hold_deletions(tx, run.id, len(stale))
                message = f"{len(stale)} of {total} documents seem to be gone: not deleted, because they are so many."
                await store.add_log_line(tx, run.id, message, "warning")
            return
        for start in range(0, len(stale), _BATCH_SIZE):
            await self._prune(job, row, run, connector, stale[start : start + _BATCH_SIZE])

    async def _prune(
        self,
        job: Job,
        row: ConnectorRow,
        run: ConnectorRun,
        connector: Connector,
        stale: Sequence[StaleDocument],
    ) -> None:
        gone_ids: list[str] = []
        for candidate in stale:
            result = await _fetch_again(connector, candidate)
            if result is None:
                gone_ids.append(candidate.ref.source_id)
                continue
            if isinstance(result, ReadFailure):
                batch = Batch(candidate.ref.stream, failures=[result])
            else:  # the listing stepped over it: store it as it is now
                audiences = await resolve_unknown(self._db, row, connector, [result])
                batch = Batch(result.ref.stream, documents=[result], audiences=audiences)
            prepared = await self._writer.prepare(connector, row, batch)
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


async def _fetch_again(connector: Connector, candidate: StaleDocument) -> Document | ReadFailure | None:
    """The document, or why it is not known whether the tool still has it; None if it is gone."""
    if not candidate.must_verify:
        return None
    try:
        return await connector.fetch(candidate.ref)
    except (RateLimited, CredentialsRejected):
        raise
    except SourceGone:
        return None
    except Unreadable as error:
        if error.code == FORBIDDEN:
            return None
        return ReadFailure(candidate.ref, error.code, error.message)
