"""Prepares a batch for `batch_writer.py`, before any transaction: finds out what changed, and downloads what is not stored yet.

a download …                     then …
of a document's own file fails   the document is a failure, and the next run tries it again
of an attachment fails           its document is stored without it, and read again by the next run
is refused for good              the attachment is left out, and the run's log says so
meets a long rate limit          the documents before it are stored, and the run continues with the others after the limit:
                                 each limit lets it get further
the credentials are rejected     nothing is stored
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gristmill.connectors import document_store
from gristmill.connectors.document_store import KnownDocument
from gristmill.connectors.markup import strip_unstorable
from gristmill.connectors.model import ConnectorRow
from gristmill.connectors.port import Attachment, Batch, Connector, Document, ReadFailure
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.db import Database
from gristmill.errors import Permanent, Transient
from gristmill.operations import uploads
from gristmill.sources.blobs import Blob, BlobStore


@dataclass
class PreparedBatch:
    """A batch, with what was known of its documents and the attachments that were downloaded. A rate limit that ended the
    downloads is `stopped_by`; the batch then has only the documents that came before it, and says nothing of its stream."""

    batch: Batch
    known: dict[str, KnownDocument]
    missing_ids: set[str] = field(default_factory=set[str])  # documents that a base has no record of
    blobs: dict[tuple[str, str], Blob] = field(default_factory=dict[tuple[str, str], Blob])
    failures: list[ReadFailure] = field(default_factory=list[ReadFailure])  # attachments to try again
    skipped: list[str] = field(default_factory=list[str])  # attachments that can't be stored
    stopped_by: RateLimited | None = None

    @property
    def source_ids(self) -> list[str]:
        """The ids of its documents, and of those that could not be read."""
        failures = (*self.batch.failures, *self.failures)
        documents = [document.ref.source_id for document in self.batch.documents]
        return [*documents, *(failure.ref.source_id for failure in failures)]

    def is_changed(self, document: Document) -> bool:
        """Whether a document differs from what is known of it."""
        known = self.known.get(document.ref.source_id)
        return known is None or known.hash != document_store.digest(document)

    def needs_files(self, document: Document) -> bool:
        """Whether its file and attachments have to be downloaded: it changed, or a base does not have it yet."""
        return document.ref.source_id in self.missing_ids or self.is_changed(document)


class BatchPreparer:
    """Finds out what of a batch is new, and downloads it."""

    def __init__(self, db: Database, blobs: BlobStore, attachment_limit: int) -> None:
        self._db, self._blobs, self._attachment_limit = db, blobs, attachment_limit

    async def prepare(self, connector: Connector, row: ConnectorRow, batch: Batch) -> PreparedBatch:
        """Find out what changed, and download the files and attachments of changed documents."""
        source_ids = [document.ref.source_id for document in batch.documents]
        async with self._db.connection() as tx:
            prepared = PreparedBatch(
                batch, await document_store.find_documents(tx, row.id, source_ids) if source_ids else {}
            )
            with_files = {
                document.ref.source_id
                for document in batch.documents
                if document.file or document.attachments
            }
            stored = await document_store.find_fully_stored(tx, row.id, sorted(with_files))
            prepared.missing_ids = with_files - stored
            with_attachments = [
                document.ref.source_id
                for document in batch.documents
                if document.attachments and prepared.needs_files(document)
            ]
            present = await document_store.find_attachments(tx, row.id, with_attachments)
        ready: list[Document] = []
        failures = list(batch.failures)
        for document in batch.documents:
            needs_files = prepared.needs_files(document)
            attachments = [
                attachment
                for attachment in document.attachments
                if needs_files and (document.ref.source_id, attachment.source_id) not in present
            ]
            file = document.file if needs_files else None
            try:
                failure = await self._download_all(connector, row, document, attachments, file, prepared)
            except RateLimited as error:
                prepared.stopped_by = error
                break
            if failure is None:
                ready.append(document)
            else:
                failures.append(failure)
        prepared.batch = replace(batch, documents=ready, failures=failures)
        if prepared.stopped_by is not None:
            prepared.batch = Batch(
                batch.stream, documents=ready, failures=failures, audiences=batch.audiences
            )
        return prepared

    async def _download_all(
        self,
        connector: Connector,
        row: ConnectorRow,
        document: Document,
        attachments: Sequence[Attachment],
        file: Attachment | None,
        prepared: PreparedBatch,
    ) -> ReadFailure | None:
        """Download what is new of a document. Without the file that it is there is nothing to store: it becomes a failure."""
        for attachment in attachments:
            await self._download_attachment(connector, row, document, attachment, prepared)
        if file is None:
            return None
        try:
            blob = await self._download(connector, row, file)
        except (RateLimited, CredentialsRejected):
            raise
        except (Permanent, Transient) as error:
            return ReadFailure(document.ref, error.code, error.message)
        prepared.blobs[(document.ref.source_id, file.source_id)] = blob
        return None

    async def _download_attachment(
        self,
        connector: Connector,
        row: ConnectorRow,
        document: Document,
        attachment: Attachment,
        prepared: PreparedBatch,
    ) -> None:
        key, name = (document.ref.source_id, attachment.source_id), strip_unstorable(attachment.name)
        try:
            prepared.blobs[key] = await self._download(connector, row, attachment)
        except (RateLimited, CredentialsRejected):
            raise
        except Permanent as error:
            prepared.skipped.append(f"{name} of {document.ref.source_id}: {error.message}")
        except Transient as error:
            prepared.failures.append(ReadFailure(document.ref, error.code, f"{name}: {error.message}"))

    async def _download(self, connector: Connector, row: ConnectorRow, attachment: Attachment) -> Blob:
        if attachment.size is not None and attachment.size > self._attachment_limit:
            raise Permanent(
                f"{strip_unstorable(attachment.name)} has {attachment.size:,} bytes; the limit is {self._attachment_limit:,}.",
                code="attachment_too_large",
            )
        return await uploads.store_upload(
            self._db, self._blobs, lambda: connector.download(attachment), self._attachment_limit, row.org_id
        )
