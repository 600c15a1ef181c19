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
from gristmill.connectors.connector import Access
from gristmill.connectors.kinds import Tools
from gristmill.connectors.reading import generator
from gristmill.connectors.transport import RateLimited, Unauthorized
from gristmill.db import Database, Tx
from gristmill.jobs import Done, Job, Outcome, Snooze
from gristmill.operations import connection
from gristmill.operations.connection import Connector as Row
from gristmill.operations.connection import ConnectorId
from gristmill.work import SyncAccess


class Permissions:
    """Asks tools who may see what."""

    def __init__(self, db: Database, tools: Tools) -> None:
        self._db, self._tools = db, tools

    async def sync(self, job: Job) -> Outcome:
        """Bring the lists of the job's connector up to date."""
        async with self._db.connection() as tx:
            row = await connection.find(tx, ConnectorId(SyncAccess.of(job).connector_id))
            keys = [] if row is None else await store.queries.values(tx, "audience_keys", connector=row.id)
        if row is None or row.acl is not None or not keys:
            return Done()
        left = set(keys)
        try:
            async with (
                self._tools.opened(row) as connector,
                aclosing(generator(connector.access(keys))) as steps,
            ):
                async for step in steps:
                    await self._save(job, row, step)
                    left -= {audience.key for audience in step.audiences}
        except RateLimited as error:
            return Snooze(error.wait)
        except Unauthorized:
            await self._close(job, row, set(keys))
            raise
        await self._close(job, row, left)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await store.queries.run(tx, "resolved", connector=row.id)
            await jobs.complete(tx, job)
        return Done()

    async def _save(self, job: Job, row: Row, step: Access) -> None:
        async with self._db.transaction() as tx:
            await self._turns(tx, job, row)
            spreading = await store.keep_audiences(tx, row.id, step.audiences)
            await connection.spread(tx, row.id, spreading)
            if step.placed and (moved := await store.place(tx, row.id, step.placed)):
                keys = sorted({step.placed[source] for source in moved})
                await connection.spread(tx, row.id, keys, moved)
            await jobs.progressed(tx, [job])
            await faults.point("access.before_commit")

    async def _close(self, job: Job, row: Row, keys: set[str]) -> None:
        """Fail closed: nobody but admins, until it is known again."""
        if not keys:
            return
        async with self._db.transaction() as tx:
            await self._turns(tx, job, row)
            closed = await store.queries.values(tx, "fail_closed", connector=row.id, keys=sorted(keys))
            await connection.spread(tx, row.id, closed)

    async def _turns(self, tx: Tx, job: Job, row: Row) -> None:
        await catalog.share_turns(tx, row.base_ids)
        await jobs.fence(tx, job)
