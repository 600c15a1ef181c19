"""A rehearsal: what a run would add, change and prune, with nothing written but that.

The tool is read as a run would read it, from the same marks; documents are compared by hash and let go. Ids of listings are
held, nothing else. A limit of the tool is waited for as by any run, and the rehearsal then begins anew.
"""

from collections import Counter
from contextlib import aclosing

from psycopg.types.json import Jsonb

from gristmill import jobs
from gristmill.connectors import store
from gristmill.connectors.connector import Connector, Stream
from gristmill.connectors.pruning import is_mass
from gristmill.connectors.reading import generator
from gristmill.db import Database, Tx
from gristmill.jobs import Job
from gristmill.operations import connection
from gristmill.operations.connection import Connector as Row
from gristmill.operations.connection import Run


async def rehearse(
    db: Database, job: Job, row: Row, run: Run, connector: Connector, mark_version: int
) -> None:
    """Find out, save the plan on the run, and end both."""
    async with db.connection() as tx:
        rows = await store.streams(tx, row.id)
    found = Counter[str]()
    named: dict[Stream, set[str]] = {}
    whole: set[Stream] = set()
    async with aclosing(generator(connector.sync(store.marks_of(rows, mark_version)))) as batches:
        async for batch in batches:
            ids = named.setdefault(batch.stream, set())
            sources = [document.ref.source_id for document in batch.documents]
            async with db.connection() as tx:
                known = await store.known(tx, row.id, sources)
            for document in batch.documents:
                old = known.get(document.ref.source_id)
                fate = (
                    "add" if old is None else "change" if old.hash != store.digest(document) else "unchanged"
                )
                found[fate] += document.ref.source_id not in ids or fate != "unchanged"
                found["characters"] += len(document.body) if fate in ("add", "change") else 0
            found["errors"] += len(batch.failures)
            ids |= {*sources, *batch.present}
            if batch.listing in ("whole", "at_once"):
                whole.add(batch.stream)
    async with db.transaction() as tx:
        await jobs.fence(tx, job)
        total = await store.count_documents(tx, row.id)
        prune = await _gone(tx, row, named, whole)
        plan = {
            "add": found["add"],
            "change": found["change"],
            "unchanged": found["unchanged"],
            "prune": prune,
            "errors": found["errors"],
            "characters": found["characters"],
            "held": is_mass(prune, total),
        }
        processed = found["add"] + found["change"] + found["unchanged"]
        await store.queries.run(tx, "save_plan", run=run.id, plan=Jsonb(plan), processed=processed)
        told = f"Would add {plan['add']}, change {plan['change']}, prune {prune}."
        await connection.tell(tx, run.id, told)
        await connection.end_run(tx, run.id, "success")
        await jobs.complete(tx, job)


async def _gone(tx: Tx, row: Row, named: dict[Stream, set[str]], whole: set[Stream]) -> int:
    """How many known documents no complete listing named, or are of a stream that was not spoken of."""
    count = 0
    for known in await store.all_known(tx, row.id):
        ids = named.get(known.stream)
        count += ids is None or (known.stream in whole and known.source_id not in ids)
    return count
