"""Report how far documents are to the table `progress`: one statement every 300 ms, and none while nothing changes.

Reading and chunking count for 60 percent, embedding and writing for 40. Within a version the percentage never falls. A
worker that lost a job no longer reports about it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gristmill import catalog, clock
from gristmill.catalog import LeasedVersion
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.ingest.task import IndexTask, WaitReason

log = logging.getLogger(__name__)

EVERY = timedelta(milliseconds=300)


@dataclass(frozen=True)
class DocumentProgress:
    """How far a document is, and what it waits for."""

    percent: float
    waiting_for: WaitReason | None
    has_chunks: bool


class ProgressReporter:
    """Reports about the documents that are being indexed."""

    def __init__(self, db: Database, progress_of: Callable[[IndexTask], DocumentProgress]) -> None:
        self._db, self._progress_of = db, progress_of
        self._reported: dict[IndexTask, DocumentProgress | None] = {}
        self._shown_as_reading: set[IndexTask] = set()
        self._run_task: asyncio.Task[None] | None = None

    def watch(self, task: IndexTask) -> None:
        """Report about the document from now on."""
        self._reported[task] = None
        self._shown_as_reading.add(task)
        if self._run_task is None or self._run_task.done():
            self._run_task = asyncio.create_task(self._run(), name="progress")

    def forget(self, task: IndexTask) -> None:
        """Stop reporting about the document."""
        self._reported.pop(task, None)
        self._shown_as_reading.discard(task)

    async def _run(self) -> None:
        while self._reported:
            await clock.pause(EVERY)
            try:
                if changed := self._changed():
                    await self._report(changed)
            except DatabaseUnavailable:
                continue  # reported again with the next pass
            except Exception:  # a bug: without this loop no document would show its progress any more
                log.exception("progress could not be reported")

    def _changed(self) -> dict[IndexTask, DocumentProgress]:
        changed: dict[IndexTask, DocumentProgress] = {}
        for task, reported in self._reported.items():
            progress = self._progress_of(task)
            is_same = reported is not None and _visible_percent(reported) == _visible_percent(progress)
            if not is_same and not task.completion.is_done:
                changed[task] = progress
        return changed

    async def _report(self, changed: Mapping[IndexTask, DocumentProgress]) -> None:
        async with self._db.connection() as tx:
            await catalog.record_progress(tx, [_row(*entry) for entry in changed.items()])
            await self._begin_embedding(tx, [task for task in changed if changed[task].has_chunks])
        for task, progress in changed.items():
            if task in self._reported:
                self._reported[task] = progress

    async def _begin_embedding(self, tx: Tx, tasks: Sequence[IndexTask]) -> None:
        """Move documents with chunks from reading to embedding. This happens here, every 300 ms, rather than in the embed
        stage, because a short document ends before that and is spared a write of its row."""
        by_item = {task.item.id: task for task in tasks}
        versions = [
            LeasedVersion(task.item.id, task.version, task.job.id, task.job.lease)
            for task in tasks
            if task in self._shown_as_reading
        ]
        for item_id in await catalog.begin_embedding(tx, versions):
            self._shown_as_reading.discard(by_item[item_id])


def _visible_percent(progress: DocumentProgress) -> tuple[float, WaitReason | None]:
    return progress.percent, progress.waiting_for


def _row(task: IndexTask, progress: DocumentProgress) -> dict[str, Any]:
    reason = progress.waiting_for
    return {
        "id": str(task.item.id),
        "version": task.version,
        "percent": progress.percent,
        "note": reason and reason.message,
        "note_code": reason and reason.code,
        "next_in": reason and max(0.0, reason.until - time.monotonic()),
        "job": str(task.job.id),
        "lease": str(task.job.lease),
    }
