"""What documents do when their base changes while they are being indexed.

    it moves to another index              the attempt ends, and the next one writes for both
    other chunks are about to take over    the document waits: it would be made with an embedder that is being replaced
    other chunks have taken over           the attempt ends, and the next one makes such

None of the last two counts as an attempt.
"""

from collections.abc import Sequence
from datetime import timedelta

from gristmill import catalog
from gristmill.db import Tx
from gristmill.errors import Transient
from gristmill.ingest.task import IndexTask
from gristmill.jobs import Snooze

SWITCH_DELAY = timedelta(milliseconds=500)  # of documents whose base is about to get other chunks


async def end_outdated_attempts(tx: Tx, tasks: Sequence[IndexTask]) -> None:
    """End the attempts of documents whose base has changed since they were opened. The caller holds the bases' locks."""
    states = await catalog.index_states(tx, [task.base.id for task in tasks])
    for task in tasks:
        if (state := states.get(task.base.id)) is None:
            continue
        if not state.indexes <= task.base.indexes:
            message = "The base is moving to another index."
            task.completion.fail(Transient(message, code="index_moved", retry_after=timedelta(0)))
        elif state.is_switching:
            task.completion.finish(Snooze(SWITCH_DELAY))
        elif state.chunk_set != task.base.chunk_set:
            task.completion.finish(Snooze(timedelta(0)))
