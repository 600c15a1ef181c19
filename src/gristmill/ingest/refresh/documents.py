"""Check the sources of pages and files: the job `refresh_documents`.

    choose      the items that are due the longest, at most `BATCH`, in one query
    check       outside any transaction: a page by a request with its validators, a file by its fingerprint
    record      one transaction. Unchanged: the next check is noted, one statement for the whole batch. Changed: also a new
                version and its job, at bulk priority. Containers that are due get jobs of their own
    again       until nothing is due; between two batches the job returns to the queue, so that other work of the base, and other
                bases, have their turn

    the source responds                           then
    304, or the same bytes                        unchanged
    other bytes                                   a new version
    bytes that were tried, and failed             unchanged; if that is not known, they are tried once more
    an error that stays, as the item shows it     unchanged
    another error that stays                      a new version, which fails with it; the old version stays searchable
    an error that may pass                        checked again after minutes; the item shows the error

Killed before the transaction: the same sources are checked again. The requests are all that a repetition costs.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from gristmill import catalog, faults, jobs
from gristmill.catalog import Base, refresh
from gristmill.catalog.refresh import DueItem, SourceCheck
from gristmill.db import Database, Tx
from gristmill.errors import Permanent, Transient, WorkError
from gristmill.identity import scoped_digest
from gristmill.ingest.refresh.outcome import after_check, after_failure
from gristmill.ingest.render import create_renderer
from gristmill.ingest.source_changes import SOURCE_ERRORS
from gristmill.ingest.stages import Stages
from gristmill.jobs import Activity, Done, Job, NewJob, Outcome, Priority, QueueLimits, Snooze
from gristmill.operations.next_job import enqueue_next_jobs, has_room, pause_until_room
from gristmill.operations.source_factory import SourceFactory, disk_access
from gristmill.sources import threads
from gristmill.sources.directory import fingerprint_of
from gristmill.sources.rendering.renderer import DIGEST
from gristmill.work import RefreshContainer, RefreshDocuments

BATCH = 100  # sources that are checked together
_PER_HOST = 4  # requests to one host at the same time
# So many of them in a row without a response, or with one that asks for fewer requests: the host is not asked for the rest of the batch.
_OUTAGE = 4
_NO_RESPONSE = frozenset({"source_timeout", "source_unreachable", "host_unknown", "host_unresolved"})
_OUTAGE_ERRORS = _NO_RESPONSE | {"source_busy"}
_CONTAINERS = 100


@dataclass(frozen=True)
class _DocumentCheck:
    """What a check found: whether the source has changed, and its error."""

    item: DueItem
    is_changed: bool = False
    error: WorkError | None = None
    fingerprint: str | None = None  # of a file, or of a page's bytes

    @property
    def may_pass(self) -> bool:
        """Whether the check has to be repeated soon."""
        return isinstance(self.error, Transient)


class _Host:
    """The requests of a batch to one host."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places = asyncio.Semaphore(_PER_HOST)
        self._unanswered = 0
        self.outage: Transient | None = None  # why it is not asked any more

    def note(self, error: WorkError | None) -> None:
        """Note how a request ended."""
        if not isinstance(error, Transient) or error.code not in _OUTAGE_ERRORS:
            self._unanswered, self.outage = 0, None
            return
        self._unanswered += 1
        if self._unanswered >= _OUTAGE:
            problem = "did not respond to" if error.code in _NO_RESPONSE else "refused"
            message = f"{self.name} {problem} {_OUTAGE} requests in a row, and was not asked for this page. {error.message}"
            self.outage = Transient(message, code=error.code, retry_after=error.retry_after)


class DocumentRefresher:
    """Checks the sources of documents."""

    def __init__(
        self, db: Database, sources: SourceFactory, stages: Stages, limits: QueueLimits | None = None
    ) -> None:
        self._db, self._sources, self._stages, self._limits = db, sources, stages, limits
        self._renderer = create_renderer(sources, stages)

    async def refresh(self, job: Job) -> Outcome:
        """Check what is due in the job's base, or the items that it names."""
        work = RefreshDocuments.of(job)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, work.base_id)
            if base is None:
                return Done()
            if not await has_room(tx, base, self._limits):
                return pause_until_room("Checking sources continues")
            if work.item_ids:
                await refresh.run_checks_now(tx, work.item_ids)
            else:
                await self._queue_containers(tx, base)
            due = await refresh.find_due_items(
                tx, base.id, containers=False, limit=BATCH, ids=work.item_ids or None
            )
        if not due:
            return Done()
        with job.during(Activity.AWAY):
            results = await self._check(job, base, due)
        await faults.point("refresh.checked")
        await self._record(job, base, results)
        return Done() if work.item_ids else Snooze(timedelta(0))

    async def _queue_containers(self, tx: Tx, base: Base) -> None:
        containers = await refresh.find_due_items(tx, base.id, containers=True, limit=_CONTAINERS)
        await jobs.enqueue(
            tx, *(NewJob(RefreshContainer(base.id, item.id), lane=base.lane) for item in containers)
        )

    # ── checking ─────────────────────────────────────────────────────────────────────────────────────────

    async def _check(self, job: Job, base: Base, due: Sequence[DueItem]) -> list[_DocumentCheck]:
        """Check sources: those of different hosts together, of one host a few at a time. One that is down would hold up the others
        for as long as each of its pages takes to time out."""
        hosts: dict[str, _Host] = {}

        async def check(item: DueItem) -> _DocumentCheck:
            if item.status not in ("completed", "failed"):
                return _DocumentCheck(item)  # a version that reads the source is on its way
            name = _host_of(item)
            host = hosts.setdefault(name, _Host(name))
            async with host.places:
                if host.outage is not None:
                    return _DocumentCheck(item, error=host.outage)
                try:
                    result = await (
                        self._check_page(job, base, item)
                        if item.type == "url"
                        else self._check_file(job, item)
                    )
                except WorkError as error:
                    host.note(error)
                    return _DocumentCheck(item, _is_news(item, error), error)
                host.note(None)
            return replace(result, is_changed=_must_retry(result)) if item.status == "failed" else result

        async with asyncio.TaskGroup() as tasks:
            checks = [tasks.create_task(check(item)) for item in due]
        return [check.result() for check in checks]

    async def _check_page(self, job: Job, base: Base, item: DueItem) -> _DocumentCheck:
        validators = {name: value for name, value in (item.validators or {}).items() if name != "reader"}
        source = replace(self._sources.url_source(item.source["url"]), validators=validators)
        original = await self._renderer.read(
            source, item.render or base.render, jobs.requester(job), self._stages.sources
        )
        if original.unchanged:
            return _DocumentCheck(item, fingerprint=_page_fingerprint(item.validators or {}, item.original))
        digest = await threads.run_blocking(lambda: hashlib.sha256(original.data).digest())
        scoped = scoped_digest(base.org_id, digest)
        fingerprint = _page_fingerprint(original.metadata, scoped)
        return _DocumentCheck(item, item.original != scoped, fingerprint=fingerprint)

    async def _check_file(self, job: Job, item: DueItem) -> _DocumentCheck:
        path = Path(item.source["path"])
        source = self._sources.file_source(path, disk_access(self._sources.disk, item.source))
        async with self._stages.sources.place(jobs.requester(job)):
            await source.probe()
            fingerprint = fingerprint_of(await threads.run_blocking(path.stat))
        return _DocumentCheck(item, item.fingerprint != fingerprint, fingerprint=fingerprint)

    # ── recording ────────────────────────────────────────────────────────────────────────────────────────

    async def _record(self, job: Job, base: Base, results: Sequence[_DocumentCheck]) -> None:
        changed = [result for result in results if result.is_changed and not result.may_pass]
        async with self._db.transaction() as tx:
            if changed:
                open_base = await catalog.lock_base(tx, base.id)
                await jobs.fence(tx, job)
                if open_base is None:
                    return
                ids = [result.item.id for result in changed]
                requested = await catalog.request_version(tx, ids, cause=job.id)
                await enqueue_next_jobs(tx, open_base, requested, Priority.BULK)
                await refresh.set_fingerprints(
                    tx, {result.item.id: result.fingerprint for result in changed if result.fingerprint}
                )
            else:
                await jobs.fence(tx, job)
            now = await refresh.database_time(tx)
            await refresh.record_checks(tx, [_next_check(result, now) for result in results])
            await faults.point("refresh.before_commit")


def _host_of(item: DueItem) -> str:
    url = item.source.get("url", "")
    return url.split("/", 3)[2] if url.count("/") > 2 else ""


def _must_retry(result: _DocumentCheck) -> bool:
    """Whether a failed document is tried again, now that its source can be read: if that was the reason, or if it is not the one
    that failed. Its last good version does not count: a source may be again as it was then."""
    item = result.item
    if item.error_code == "interrupted" and item.fingerprint is None:
        return False  # its base wants a person to decide
    return item.error_code in SOURCE_ERRORS or item.fingerprint != result.fingerprint


def _page_fingerprint(validators: Mapping[str, str], digest: bytes | None) -> str | None:
    """By what a page is recognised as the one that failed: its bytes, or, if it was rendered, its text."""
    return validators.get(DIGEST) or (None if digest is None else digest.hex())


def _is_news(item: DueItem, error: WorkError) -> bool:
    """Whether an error is one that the item does not show yet."""
    return isinstance(error, Permanent) and (item.status, item.error_code) != ("failed", error.code)


def _next_check(result: _DocumentCheck, now: datetime) -> SourceCheck:
    if result.error is not None and result.may_pass:
        return after_failure(result.item, now, result.error)
    return after_check(result.item, now, is_changed=result.is_changed)
