"""How far documents are, told in a table that every process sees: one statement each 300 ms, and none when nothing moves.

Reading and cutting are 60 of 100, embedding and writing the other 40; within a version it never falls. A worker that
lost a job tells nothing about it any more.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from gristmill import catalog, clock
from gristmill.catalog import LeasedVersion
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.ingest.document import Document

EVERY = timedelta(milliseconds=300)


class ProgressReporter:
    """Tells about the documents that are under way."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._documents: dict[Document, tuple[float, str | None]] = {}
        self._shown_as_reading: set[Document] = set()
        self._task: asyncio.Task[None] | None = None

    def watch(self, document: Document) -> None:
        """Tell about the document from now on, as long as it takes."""
        self._documents[document] = (-1.0, None)
        self._shown_as_reading.add(document)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="progress")

    def forget(self, document: Document) -> None:
        """The document has ended, or is somebody else's."""
        self._documents.pop(document, None)
        self._shown_as_reading.discard(document)

    async def _run(self) -> None:
        while self._documents:
            await clock.pause(EVERY)
            moved = [
                document
                for document, reported in self._documents.items()
                if (document.progress, document.note) != reported and not document.ended.done()
            ]
            if not moved:
                continue
            rows = [_row(document) for document in moved]
            with contextlib.suppress(DatabaseUnavailable):  # it is told again in a moment
                async with self._db.connection() as tx:
                    await catalog.record_progress(tx, rows)
                    await self._begin_embedding(tx, moved)
                for document, row in zip(moved, rows, strict=True):
                    if document in self._documents:
                        self._documents[document] = (row["percent"], row["note"])

    async def _begin_embedding(self, tx: Tx, documents: Sequence[Document]) -> None:
        """Move documents from reading to embedding that have their first chunks. Here, every 300 ms, and not in the embedding
        stage: a short document ends before that, and is spared a write of its row."""
        begun = {document.item.id: document for document in documents if document.count > 0}
        versions = [
            LeasedVersion(document.item.id, document.version, document.job.id, document.job.lease)
            for document in begun.values()
            if document in self._shown_as_reading
        ]
        for item_id in await catalog.begin_embedding(tx, versions):
            self._shown_as_reading.discard(begun[item_id])


def _row(document: Document) -> dict[str, Any]:
    return {
        "id": str(document.item.id),
        "version": document.version,
        "percent": document.progress,
        "note": document.note,
        "job": str(document.job.id),
        "lease": str(document.job.lease),
    }
