"""Reads documents one by one: those that earlier runs could not read, and those that a listing named and that are not known.

They are stored without moving their streams on. A document that is gone is forgotten here; what was stored of it, pruning
finds, by a listing or because it is marked here. One that can't be read is a failure of the run. After a rate limit or an outage, what was read before is stored, and the
error ends the attempt.
"""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from gristmill import jobs
from gristmill.connectors import audience_store, change_store, document_store
from gristmill.connectors.batch_writer import BatchWriter
from gristmill.connectors.listing.details import fetch_all, fetch_with_companions
from gristmill.connectors.model import ConnectorRow, ConnectorRun
from gristmill.connectors.port import Audience, Batch, Connector, Document, DocumentRef
from gristmill.connectors.streams import closable
from gristmill.db import Database
from gristmill.jobs import Job


class DocumentReader:
    """Reads documents of a connector by their refs."""

    def __init__(self, db: Database, writer: BatchWriter) -> None:
        self._db, self._writer = db, writer

    async def read(
        self,
        job: Job,
        row: ConnectorRow,
        run: ConnectorRun,
        connector: Connector,
        refs: Sequence[DocumentRef],
        *,
        reports_changes: bool,
    ) -> None:
        """Read and store these documents. If the tool reports changes, the run may have no listing by which pruning finds those
        that are gone: they are marked."""
        for stream in dict.fromkeys(ref.stream for ref in refs):
            of_stream = [ref for ref in refs if ref.stream == stream]
            result = await fetch_all(of_stream, lambda ref: ref, partial(fetch_with_companions, connector))
            by_id = {doc.ref.source_id: doc for doc in (*result.documents, *result.later_documents)}
            documents = list(by_id.values())
            audiences = await resolve_unknown(self._db, row, connector, documents)
            # A document can be in another stream by now: an issue that was moved to another project.
            for document_stream in dict.fromkeys([stream, *(doc.ref.stream for doc in documents)]):
                batch = Batch(
                    document_stream,
                    documents=[doc for doc in documents if doc.ref.stream == document_stream],
                    failures=result.failures if document_stream == stream else (),
                    audiences=audiences,
                )
                prepared = await self._writer.prepare(connector, row, batch)
                await self._writer.save(job, row, run, prepared, advance_stream=False)
            handled_ids = {ref.source_id for ref in of_stream[: result.handled]}
            read_ids = {doc.ref.source_id for doc in documents}
            failed_ids = {failure.ref.source_id for failure in result.failures}
            gone_ids = sorted(handled_ids - read_ids - failed_ids)
            await self._forget_failures(job, row, gone_ids, gone_ids if reports_changes else [])
            if result.stopped_by is not None:
                raise result.stopped_by

    async def _forget_failures(
        self, job: Job, row: ConnectorRow, source_ids: Sequence[str], missing_ids: Sequence[str]
    ) -> None:
        """Documents that were to be read again are gone from the tool."""
        if not source_ids:
            return
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await change_store.mark_missing(tx, row.id, missing_ids)
            await document_store.delete_failures(tx, row.id, source_ids)


async def resolve_unknown(
    db: Database, row: ConnectorRow, connector: Connector, documents: Sequence[Document]
) -> list[Audience]:
    """Who sees these documents, as far as no stream has said it."""
    if row.acl is not None or not documents:
        return []
    async with db.connection() as tx:
        keys = await audience_store.unknown_audiences(
            tx, row.id, sorted({document.audience for document in documents})
        )
    if not keys:
        return []
    async with aclosing(closable(connector.resolve_access(keys))) as updates:
        return [audience async for update in updates for audience in update.audiences if audience.key in keys]
