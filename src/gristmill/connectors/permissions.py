"""Resolves who may see what, without reading documents: the job `sync_access`, on a schedule of its own.

    when …                                    then …
    an audience is resolved                   its records have its access list from the next query on
    an audience is resolved only in part      only admins see its records: never guess
    the tool does not mention an audience     the same
    the tool does not respond                 the job is retried; lists stay as they are, and `aclAsOf` shows their age
    the credentials are rejected              every audience is closed: it can't be found out who may still look there

Only access lists are written, under shared locks of the bases; no chunk, no vector, no job of a document. A connector with
an access list of its own has nothing to resolve.
"""

from contextlib import aclosing

from gristmill import catalog, faults, jobs
from gristmill.connectors import audience_store, store
from gristmill.connectors.model import ConnectorId, ConnectorRow
from gristmill.connectors.port import AccessUpdate
from gristmill.connectors.registry import ConnectorRegistry
from gristmill.connectors.streams import closable
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.db import Database, Tx
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
            keys = [] if row is None else await audience_store.audience_keys(tx, row.id)
        if row is None or row.acl is not None or not keys:
            return Done()
        unresolved = set(keys)
        try:
            async with (
                self._registry.open_connector(row) as connector,
                aclosing(closable(connector.resolve_access(keys))) as updates,
            ):
                async for update in updates:
                    await self._save_update(job, row, update)
                    unresolved -= {audience.key for audience in update.audiences}
        except RateLimited as error:
            return Snooze(error.wait)
        except CredentialsRejected:
            await self._fail_closed(job, row, set(keys))
            raise
        await self._fail_closed(job, row, unresolved)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await audience_store.mark_access_resolved(tx, row.id)
            await jobs.complete(tx, job)
        return Done()

    async def _save_update(self, job: Job, row: ConnectorRow, update: AccessUpdate) -> None:
        async with self._db.transaction() as tx:
            await self._lock_bases(tx, job, row)
            changed_keys = await audience_store.save_audiences(tx, row.id, update.audiences)
            await audience_store.apply_audiences(tx, row.id, changed_keys)
            if update.audience_by_source and (
                moved_ids := await audience_store.set_document_audiences(
                    tx, row.id, update.audience_by_source
                )
            ):
                keys = sorted({update.audience_by_source[source] for source in moved_ids})
                await audience_store.apply_audiences(tx, row.id, keys, moved_ids)
            await jobs.reset_attempts(tx, [job])
            await faults.point("access.before_commit")

    async def _fail_closed(self, job: Job, row: ConnectorRow, keys: set[str]) -> None:
        """Let only admins see documents of these audiences, until they are resolved again."""
        if not keys:
            return
        async with self._db.transaction() as tx:
            await self._lock_bases(tx, job, row)
            closed_keys = await audience_store.close_audiences(tx, row.id, sorted(keys))
            await audience_store.apply_audiences(tx, row.id, closed_keys)

    async def _lock_bases(self, tx: Tx, job: Job, row: ConnectorRow) -> None:
        await catalog.lock_bases_shared(tx, row.base_ids)
        await jobs.fence(tx, job)
