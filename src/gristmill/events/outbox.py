"""Records events in the transaction that makes them true: an event exists exactly if what it reports happened.

record            events, in order
mark_base_busy    the base is not ready from now on; under its exclusive lock
announce_ready    the base became ready, if it just did; last before the commit, by every transaction that ends work on it
"""

import json
from collections.abc import Iterable
from uuid import UUID

from gristmill.catalog import BaseId
from gristmill.db import Tx
from gristmill.events import store
from gristmill.events.event import Event, KnowledgeSpaceAllDocumentsIngested


async def record(tx: Tx, *events: Event, cause: UUID | None = None) -> None:
    """Record `events` with the transaction; without a `cause`, each has that of its item."""
    if events:
        await store.insert_events(tx, "[" + ",".join(_event_json(event, cause) for event in events) + "]")


async def announce_ready(tx: Tx, bases: Iterable[BaseId], cause: UUID | None = None) -> None:
    """Record each base that became ready by this transaction. In the order of their ids, because each stays locked."""
    for base_id in sorted(set(bases)):
        if (counts := await store.mark_ready_if_idle(tx, base_id)) is not None:
            await record(
                tx, KnowledgeSpaceAllDocumentsIngested(base_id, counts.completed, counts.failed), cause=cause
            )


def _event_json(event: Event, cause: UUID | None) -> str:
    subject = event.subject
    return json.dumps(
        {
            "base": str(event.base_id),
            "type": event.type,
            "subject": None if subject is None else str(subject),
            "cause": None if cause is None else str(cause),
            "data": event.data(),
        }
    )
