"""Resolves who may see what, without reading documents: the job `sync_access`, on a schedule of its own.

    when …                                    then …
    an audience is resolved                   its records have its access list from the next query on
    an audience is resolved only in part      only admins see its records: never guess
    a group of the tool has other members     they are looked up from the next query on; no record is written
    a group is resolved only in part          it lets no one see anything; other entries of the same lists do
    the tool does not mention an audience     the same
    the tool does not respond                 the job is retried; lists stay as they are, and `aclAsOf` shows their age
    the tool asks for a long wait             the job goes on after it with what was not answered yet
    a run is under way at the same time       the answer of the one that opened the connector later counts. What the run alone has
                                              named, with an older answer, is asked for again: by the refresh before it ends, or
                                              by the run (`renew_older_answers`)
    the credentials are rejected              every audience is closed: it can't be found out who may still look there

A run asks again for audiences that could not be resolved before it (`retry_unresolved`): a moment of trouble must not hide documents
until the next time that all permissions are read.

Only access lists are written, under shared locks of the bases; no chunk, no vector, no job of a document. A connector with
an access list of its own has nothing to resolve.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime

from gristmill import catalog, faults, jobs
from gristmill.connectors import audience_store, document_store, group_store, store
from gristmill.connectors.model import ConnectorId, ConnectorRow, ConnectorRun
from gristmill.connectors.port import AccessUpdate, Connector, Json
from gristmill.connectors.registry import ConnectorRegistry
from gristmill.connectors.streams import closable
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.db import Database, Tx
from gristmill.errors import SourceGone, Transient, Unreadable
from gristmill.jobs import Activity, Done, Job, Outcome, Snooze
from gristmill.work import SyncAccess


class PermissionSync:
    """Handles `sync_access`: asks tools who may see what."""

    def __init__(self, db: Database, registry: ConnectorRegistry) -> None:
        self._db, self._registry = db, registry

    async def sync(self, job: Job) -> Outcome:
        """Bring the access lists of the job's connector up to date. It waits for the tool most of the time, and uses no slot."""
        with job.during(Activity.AWAY):
            return await self._sync(job)

    async def _sync(self, job: Job) -> Outcome:
        async with self._db.connection() as tx:
            row = await store.find_connector(tx, ConnectorId(SyncAccess.of(job).connector_id))
            if row is None or row.acl is not None or not await document_store.count_documents(tx, row.id):
                return Done()
            progress = await _Progress.load(tx, job, row)
            keys = await audience_store.audiences_asked_before(tx, row.id, progress.began_at)
        try:
            async with self._registry.open_connector(row) as connector:
                await self._ask(job, row, connector, keys, progress)
                await faults.point("access.answered")
                keys += await self._ask_for_new(job, row, connector, keys, progress)
        except RateLimited as error:
            return Snooze(error.wait)
        except CredentialsRejected:
            async with self._db.connection() as tx:
                all_keys = await audience_store.audiences_asked_before(tx, row.id, row.read_at)
            await self._fail_closed(job, row, {*keys, *all_keys})
            raise
        async with self._db.connection() as tx:
            unanswered = await audience_store.audiences_asked_before(tx, row.id, progress.began_at)
        await self._fail_closed(job, row, set(keys) & set(unanswered))
        await group_store.delete_unused_groups(self._db, job, row.id)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await audience_store.mark_access_resolved(tx, row.id, progress.began_at)
            await jobs.complete(tx, job)
        return Done()

    async def _ask(
        self, job: Job, row: ConnectorRow, connector: Connector, keys: Sequence[str], progress: "_Progress"
    ) -> None:
        """Ask for these audiences, and save each answer at once. After a failed attempt, each half is asked for by itself: what gets
        no response must not keep everything behind it from being answered."""
        listing = connector.list_access(progress.position)
        if listing is not None:
            await self._save_updates(job, row, listing, keys, progress)
            return
        middle = len(keys) // 2 if job.attempt > 1 else 0
        failures: list[Transient] = []
        for some in filter(None, (keys[:middle], keys[middle:])):
            try:
                await self._save_updates(job, row, connector.resolve_access(some), some, progress)
            except RateLimited:
                raise
            except Transient as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _ask_for_new(
        self, job: Job, row: ConnectorRow, connector: Connector, keys: Sequence[str], progress: "_Progress"
    ) -> list[str]:
        """Ask for audiences that a run has named meanwhile and asked for before this refresh began; they are returned."""
        async with self._db.connection() as tx:
            older = await audience_store.audiences_asked_before(tx, row.id, progress.began_at)
        new_keys = [key for key in older if key not in keys]
        if new_keys:
            await self._save_updates(job, row, connector.resolve_access(new_keys), new_keys, progress)
        return new_keys

    async def _save_updates(
        self,
        job: Job,
        row: ConnectorRow,
        updates: AsyncIterator[AccessUpdate],
        keys: Sequence[str],
        progress: "_Progress",
    ) -> None:
        asked_keys = set(keys)
        async with aclosing(closable(updates)) as steps:
            async for update in steps:
                answered_keys = asked_keys & {audience.key for audience in update.audiences}
                async with self._db.transaction() as tx:
                    await self._lock_bases(tx, job, row)
                    await _save_update(tx, row, update)
                    if update.position is not None:
                        progress.position = update.position
                    await progress.save(tx, job)
                    if answered_keys or update.position is not None:
                        await jobs.reset_attempts(tx, [job])
                    await faults.point("access.before_commit")
                asked_keys -= answered_keys

    async def _fail_closed(self, job: Job, row: ConnectorRow, keys: set[str]) -> None:
        """Let only admins see documents of these audiences, until they are resolved again."""
        if not keys:
            return
        async with self._db.transaction() as tx:
            await self._lock_bases(tx, job, row)
            closed_keys = await audience_store.close_audiences(tx, row, sorted(keys))
            await audience_store.apply_audiences(tx, row.id, closed_keys)

    async def _lock_bases(self, tx: Tx, job: Job, row: ConnectorRow) -> None:
        await catalog.lock_bases_shared(tx, row.base_ids)
        await jobs.fence(tx, job)


@dataclass
class _Progress:
    """How far a job is, kept in the job's result from one attempt to the next: when it began, and where a listing goes on."""

    began_at: datetime
    position: Json

    @classmethod
    async def load(cls, tx: Tx, job: Job, row: ConnectorRow) -> "_Progress":
        """What earlier attempts have saved. A job whose first answer was not saved yet begins now."""
        saved = await jobs.load_result(tx, job)
        began_at = datetime.fromisoformat(saved["beganAt"]) if saved else row.read_at
        return cls(began_at, saved.get("position", {}))

    async def save(self, tx: Tx, job: Job) -> None:
        """Save it with what it says."""
        await jobs.save_result(tx, job, {"beganAt": self.began_at.isoformat(), "position": self.position})


async def _save_update(tx: Tx, row: ConnectorRow, update: AccessUpdate) -> None:
    changed_keys = await audience_store.save_audiences(tx, row, update.audiences)
    await audience_store.apply_audiences(tx, row.id, changed_keys)
    if not update.audience_by_source:
        return
    if moved_ids := await audience_store.set_document_audiences(tx, row, update.audience_by_source):
        keys = sorted({update.audience_by_source[source] for source in moved_ids})
        await audience_store.apply_audiences(tx, row.id, keys, moved_ids)


async def renew_older_answers(db: Database, job: Job, registry: ConnectorRegistry, row: ConnectorRow) -> None:
    """A refresh has ended during the run: ask again for audiences that the run has named with older answers."""
    async with db.connection() as tx:
        current = await store.find_connector(tx, row.id)
        if row.acl is not None or current is None or current.acl_as_of is None:
            return
        keys = await audience_store.audiences_asked_before(tx, row.id, current.acl_as_of)
    if not keys:
        return
    with suppress(SourceGone, Unreadable):  # the next refresh tries again, and closes what it can't find out
        # Not by the connector of the run: it remembers answers.
        async with registry.open_connector(current) as connector:
            await _save_answers(db, job, row, current, connector.resolve_access(keys))


async def _save_answers(
    db: Database, job: Job, row: ConnectorRow, current: ConnectorRow, updates: AsyncIterator[AccessUpdate]
) -> None:
    async with aclosing(closable(updates)) as steps:
        async for update in steps:
            async with db.transaction() as tx:
                await catalog.lock_bases_shared(tx, row.base_ids)
                await jobs.fence(tx, job)
                await store.require_unchanged(tx, row)
                await _save_update(tx, current, update)


async def retry_unresolved(
    db: Database, job: Job, row: ConnectorRow, run: ConnectorRun, connector: Connector
) -> None:
    """Ask the tool again who may see documents whose audience could not be resolved, and which the run's streams did not name."""
    if row.acl is not None:
        return
    async with db.connection() as tx:
        unresolved = await audience_store.audiences_unresolved_before(tx, row.id, run.started_at)
    keys = [key for key in unresolved if key not in connector.unresolvable_audiences]
    if not keys:
        return
    try:
        async with aclosing(closable(connector.resolve_access(keys))) as updates:
            audiences = [entry async for update in updates for entry in update.audiences if entry.key in keys]
    except (SourceGone, Unreadable):
        return  # only admins see them until it can be found out; the run reports it
    async with db.transaction() as tx:
        await catalog.lock_bases_shared(tx, row.base_ids)
        await jobs.fence(tx, job)
        changed_keys = await audience_store.save_audiences(tx, row, audiences)
        await audience_store.apply_audiences(tx, row.id, changed_keys)
