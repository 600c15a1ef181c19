"""Who may see what, asked of the tool without reading documents: the job `sync_access`, on a schedule of its own.

    an audience that is resolved            its records have its list from the next query on
    one that is resolved only in part       nobody but admins sees its records: never guess
    one that the tool says nothing of       the same
    the tool does not answer                tried again; lists stay as they are, and `aclAsOf` tells their age
    the credentials are refused             every audience is closed: whoever may look there no longer can't be asked

Only lists are written, in shared turns of the bases; no chunk, vector or job of a document. Where the connector has a list
of its own, there is nothing to ask.
"""

from contextlib import aclosing

from gristmill import catalog, faults, jobs
from gristmill.connectors import store
from gristmill.connectors.port import AccessUpdate
from gristmill.connectors.reading import closable
from gristmill.connectors.registry import ConnectorRegistry
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.db import Database, Tx
from gristmill.jobs import Done, Job, Outcome, Snooze
from gristmill.operations import connection
from gristmill.operations.connection import ConnectorId
from gristmill.operations.connection import ConnectorRow as Row
from gristmill.work import SyncAccess


class PermissionSync:
    """Asks tools who may see what."""

    def __init__(self, db: Database, registry: ConnectorRegistry) -> None:
        self._db, self._registry = db, registry

    async def sync(self, job: Job) -> Outcome:
        """Bring the lists of the job's connector up to date."""
        async with self._db.connection() as tx:
            row = await connection.find_connector(tx, ConnectorId(SyncAccess.of(job).connector_id))
            keys = [] if row is None else await store.queries.values(tx, "audience_keys", connector=row.id)
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
            await store.queries.run(tx, "resolved", connector=row.id)
            await jobs.complete(tx, job)
        return Done()

    async def _save_update(self, job: Job, row: Row, update: AccessUpdate) -> None:
        async with self._db.transaction() as tx:
            await self._lock_bases(tx, job, row)
            changed_keys = await store.save_audiences(tx, row.id, update.audiences)
            await connection.apply_audiences(tx, row.id, changed_keys)
            if update.audience_by_source and (
                moved_ids := await store.set_document_audiences(tx, row.id, update.audience_by_source)
            ):
                keys = sorted({update.audience_by_source[source] for source in moved_ids})
                await connection.apply_audiences(tx, row.id, keys, moved_ids)
            await jobs.reset_attempts(tx, [job])
            await faults.point("access.before_commit")

    async def _fail_closed(self, job: Job, row: Row, keys: set[str]) -> None:
        """Fail closed: nobody but admins, until it is known again."""
        if not keys:
            return
        async with self._db.transaction() as tx:
            await self._lock_bases(tx, job, row)
            closed_keys = await store.queries.values(tx, "fail_closed", connector=row.id, keys=sorted(keys))
            await connection.apply_audiences(tx, row.id, closed_keys)

    async def _lock_bases(self, tx: Tx, job: Job, row: Row) -> None:
        await catalog.lock_bases_shared(tx, row.base_ids)
        await jobs.fence(tx, job)
