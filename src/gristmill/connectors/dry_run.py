"""Dry runs: what a run would add, change and prune. Nothing is written but the result.

The tool is read as by a real run, from the same checkpoints; documents are compared by hash and dropped. Only the ids of
listings stay in memory. A rate limit is waited for as by any run; the dry run then starts over.
"""

from collections import Counter
from contextlib import aclosing

from gristmill import jobs
from gristmill.connectors import document_store, push, store
from gristmill.connectors.model import ConnectorRow, ConnectorRun
from gristmill.connectors.port import Connector, Stream
from gristmill.connectors.prune import is_mass_deletion
from gristmill.connectors.streams import closable
from gristmill.db import Database, Tx
from gristmill.jobs import Job


async def dry_run(
    db: Database,
    job: Job,
    row: ConnectorRow,
    run: ConnectorRun,
    connector: Connector,
    checkpoint_version: int,
) -> None:
    """Read the tool, save the plan on the run, and end run and job."""
    async with db.connection() as tx:
        stream_rows = await document_store.find_streams(tx, row.id)
    counts = Counter[str]()
    ids_by_stream: dict[Stream, set[str]] = {}
    listed_streams: set[Stream] = set()
    async with aclosing(
        closable(connector.sync(document_store.checkpoints_of(stream_rows, checkpoint_version)))
    ) as batches:
        async for batch in batches:
            ids = ids_by_stream.setdefault(batch.stream, set())
            source_ids = [document.ref.source_id for document in batch.documents]
            listed_ids = {listed.ref.source_id for listed in batch.present}
            async with db.connection() as tx:
                known = await document_store.find_documents(tx, row.id, [*source_ids, *listed_ids])
            for document in batch.documents:
                old = known.get(document.ref.source_id)
                fate = (
                    "add"
                    if old is None
                    else "change"
                    if old.hash != document_store.digest(document)
                    else "unchanged"
                )
                counts[fate] += document.ref.source_id not in ids or fate != "unchanged"
                counts["characters"] += len(document.body) if fate in ("add", "change") else 0
            counts["errors"] += len(batch.failures)
            # What the tool lists and we don't have would be read, whatever its date.
            failed_ids = {failure.ref.source_id for failure in batch.failures}
            counts["add"] += len(listed_ids - known.keys() - ids - failed_ids - set(source_ids))
            counts["change"] += sum(
                listed.mark is not None and listed.mark != known[listed.ref.source_id].mark
                for listed in batch.present
                if listed.ref.source_id in known and listed.ref.source_id not in failed_ids
            )
            ids |= set(source_ids)
            for listed in batch.present:
                ids |= {listed.ref.source_id, *listed.companion_ids}
            if batch.is_listing_complete:
                listed_streams.add(batch.stream)
    async with db.transaction() as tx:
        await push.lock(tx, row.id)
        await jobs.fence(tx, job)
        total = await document_store.count_documents(tx, row.id)
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
        await store.save_plan(tx, run.id, plan, processed)
        message = f"Would add {plan['add']}, change {plan['change']}, prune {prune_count}."
        await store.add_log_line(tx, run.id, message)
        await store.end_run(tx, run.id, "success")
        await jobs.complete(tx, job)
        await push.follow_up(tx, row)


async def _count_gone(
    tx: Tx, row: ConnectorRow, ids_by_stream: dict[Stream, set[str]], listed_streams: set[Stream]
) -> int:
    """How many known documents a complete listing did not name, or belong to a stream that was not reported on."""
    count = 0
    for document in await document_store.find_document_refs(tx, row.id):
        ids = ids_by_stream.get(document.stream)
        count += ids is None or (document.stream in listed_streams and document.source_id not in ids)
    return count
