"""Documents that got no response in a run are read again before it ends.

The tool may have been down for minutes while only these documents were being read. So before a run goes on to pruning, it asks the tool:

    it does not respond     the run is retried, like any run whose tool does not respond
    it responds             the documents count as unread, and are read again, at most twice
    they fail again         they stay failures, and the next run tries them: the tool is not down

Killed before the commit, the next attempt finds the same documents; after it, it reads them as unread ones.
"""

from contextlib import suppress

from gristmill import faults, jobs
from gristmill.connectors import store
from gristmill.connectors.document_store import NOT_READ
from gristmill.connectors.model import ConnectorId, ConnectorRow, ConnectorRun, RunId
from gristmill.connectors.registry import ConnectorRegistry
from gristmill.connectors.store import RunProgress, queries
from gristmill.db import Database, Tx
from gristmill.errors import Permanent
from gristmill.jobs import Job

MAX_ROUNDS = 2


async def make_unread(
    db: Database, registry: ConnectorRegistry, job: Job, row: ConnectorRow, run: ConnectorRun
) -> bool:
    """Make documents of this run that got no response unread; whether there are any. Transient while the tool is down."""
    async with db.connection() as tx:
        if not await _has_unanswered(tx, row.id, run.id):
            return False
    # Not by the connector of the run: it remembers responses, and would send no request.
    async with registry.open_connector(row) as connector:
        with suppress(Permanent):  # a response, even if it is a refusal
            await connector.check()
    async with db.transaction() as tx:
        await jobs.fence(tx, job)
        count = await _reset_unanswered(tx, row.id, run.id)
        # They are counted again if they fail again.
        await store.add_progress(tx, row.id, run.id, RunProgress(errors=-count))
        await store.add_log_line(tx, run.id, f"{count} documents got no response; they are read again.")
        await faults.point("unanswered.before_commit")
    return True


async def _has_unanswered(tx: Tx, connector: ConnectorId, run: RunId) -> bool:
    """Whether documents of this run got no response."""
    return await queries.values(tx, "has_unanswered", connector=connector, run=run) == [True]


async def _reset_unanswered(tx: Tx, connector: ConnectorId, run: RunId) -> int:
    """Make documents of this run that got no response unread; how many."""
    return await queries.run(
        tx, "reset_unanswered", connector=connector, run=run, message=NOT_READ["message"]
    )
