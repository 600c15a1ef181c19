"""What the tool no longer has is hidden and removed; after a complete listing only, and never a mass of it unasked.

    not named by its stream's complete listing    asked for once more: a listing by pages can step over one that is there
    of a scope that is gone or closed             pruned
    of a stream that was not spoken of            the same; the connector says Gone of what it no longer follows

The guard: when more than `MOST` documents and more than `SHARE` of all would go, none does, and the run says so. A tool that
answers with half of what it has, or credentials that see less, must not empty a base. Whoever means it allows it.
"""

from collections.abc import Sequence

from gristmill import catalog, faults
from gristmill.connectors import filing, store
from gristmill.connectors.connector import Batch, Connector, Document
from gristmill.connectors.filing import Filing
from gristmill.connectors.store import Stale
from gristmill.connectors.transport import RateLimited, Unauthorized
from gristmill.db import Database
from gristmill.errors import Gone, Unreadable
from gristmill.jobs import Job
from gristmill.operations import connection
from gristmill.operations.connection import Connector as Row
from gristmill.operations.connection import Run

MOST = 20
SHARE = 0.25
_AT_ONCE = 50


def is_mass(stale: int, documents: int) -> bool:
    """Whether so many would go that somebody has to say so."""
    return stale > MOST and stale > documents * SHARE


class Pruning:
    """Prunes for one run."""

    def __init__(self, db: Database, filing: Filing) -> None:
        self._db, self._filing = db, filing

    async def prune(self, job: Job, row: Row, run: Run, connector: Connector) -> None:
        """Remove what is gone. Killed in between, the next attempt finds the rest."""
        async with self._db.connection() as tx:
            stale = await store.stale(tx, row.id, run.id)
            total = await store.count_documents(tx, row.id)
        if is_mass(len(stale), total) and not run.allow_deletions:
            async with self._db.transaction() as tx:
                await store.queries.run(tx, "hold_deletions", run=run.id, count=len(stale))
                told = f"{len(stale)} of {total} documents seem to be gone: not deleted, for that is a mass."
                await connection.tell(tx, run.id, told, "warning")
            return
        for start in range(0, len(stale), _AT_ONCE):
            await self._prune(job, row, run, connector, stale[start : start + _AT_ONCE])

    async def _prune(
        self, job: Job, row: Row, run: Run, connector: Connector, stale: Sequence[Stale]
    ) -> None:
        gone: list[str] = []
        for candidate in stale:
            alive = await _ask(connector, candidate)
            if alive is None:
                gone.append(candidate.ref.source_id)
            else:
                # A listing that stepped over it: it is there, and as it is now.
                prepared = await self._filing.prepare(
                    connector, row, Batch(alive.ref.stream, documents=[alive])
                )
                await self._filing.save(job, row, run, prepared, counted=False)
        await faults.point("prune.asked")
        if not gone:
            return
        async with self._db.transaction() as tx:
            bases = [await catalog.take_turn(tx, base_id) for base_id in sorted(row.base_ids)]
            await filing.prune(tx, job, row, run, gone, [base for base in bases if base is not None])
            await faults.point("prune.before_commit")


async def _ask(connector: Connector, candidate: Stale) -> Document | None:
    """The document, if it is there after all."""
    if not candidate.doubtful:
        return None
    try:
        return await connector.fetch(candidate.ref)
    except (RateLimited, Unauthorized):
        raise
    except (Gone, Unreadable):
        return None
