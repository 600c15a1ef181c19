"""A rehearsal: what a run would add, change and prune, with nothing written but that.

The tool is read as a run would read it, from the same marks; documents are compared by hash and let go. Ids of listings are
held, nothing else. A limit of the tool is waited for as by any run, and the rehearsal then begins anew.
"""

from collections import Counter
from contextlib import aclosing

from psycopg.types.json import Jsonb

from gristmill import jobs
from gristmill.connectors import store
from gristmill.connectors.port import Connector, Stream
from gristmill.connectors.prune import is_mass_deletion
from gristmill.connectors.reading import closable
from gristmill.db import Database, Tx
from gristmill.jobs import Job
from gristmill.operations import connection
from gristmill.operations.connection import ConnectorRow as Row
from gristmill.operations.connection import ConnectorRun


async def dry_run(
    db: Database, job: Job, row: Row, run: ConnectorRun, connector: Connector, checkpoint_version: int
) -> None:
    """Find out, save the plan on the run, and end both."""
    async with db.connection() as tx:
        stream_rows = await store.streams(tx, row.id)
    counts = Counter[str]()
    ids_by_stream: dict[Stream, set[str]] = {}
    listed_streams: set[Stream] = set()
    async with aclosing(
        closable(connector.sync(store.checkpoints_of(stream_rows, checkpoint_version)))
    ) as batches:
        async for batch in batches:
            ids = ids_by_stream.setdefault(batch.stream, set())
            source_ids = [document.ref.source_id for document in batch.documents]
            async with db.connection() as tx:
                known = await store.find_documents(tx, row.id, source_ids)
            for document in batch.documents:
                old = known.get(document.ref.source_id)
                fate = (
                    "add" if old is None else "change" if old.hash != store.digest(document) else "unchanged"
                )
                counts[fate] += document.ref.source_id not in ids or fate != "unchanged"
                counts["characters"] += len(document.body) if fate in ("add", "change") else 0
            counts["errors"] += len(batch.failures)
            ids |= {*source_ids, *batch.present_ids}
            if batch.listing in ("whole", "at_once"):
                listed_streams.add(batch.stream)
    async with db.transaction() as tx:
        await jobs.fence(tx, job)
        total = await store.count_documents(tx, row.id)
        prune_count = await _count_gone(tx, row, ids_by_stream, listed_streams)
        plan = {
            "add": counts["add"],
            "change": counts["change"],
            "unchanged": counts["unchanged"],
            "prune": prune_count,
            "errors": counts["errors"],
            "characters": counts["characters"],
            "held": is_mass_deletion(prune_count, total),
        }
        processed = counts["add"] + counts["change"] + counts["unchanged"]
        await store.queries.run(tx, "save_plan", run=run.id, plan=Jsonb(plan), processed=processed)
        message = f"Would add {plan['add']}, change {plan['change']}, prune {prune_count}."
        await connection.add_log_line(tx, run.id, message)
        await connection.end_run(tx, run.id, "success")
        await jobs.complete(tx, job)


async def _count_gone(
    tx: Tx, row: Row, ids_by_stream: dict[Stream, set[str]], listed_streams: set[Stream]
) -> int:
    """How many known documents no complete listing named, or are of a stream that was not spoken of."""
    count = 0
    for document in await store.find_document_refs(tx, row.id):
        ids = ids_by_stream.get(document.stream)
        count += ids is None or (document.stream in listed_streams and document.source_id not in ids)
    return count
