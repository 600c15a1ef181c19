"""Dry runs: what a run would add, change and prune. Nothing is written but the result.

The tool is read as by a real run, from the same checkpoints: the documents that earlier runs could not read, the streams, and the
documents whose listed mark is another than when they were read. They are compared by hash and dropped; files are not
downloaded. Documents that a listing names and that are not known are counted, not read. Only ids and marks of listings stay in
memory. A rate limit is waited for as by any run; the dry run then starts over.

    a document …                                              counts as
    that is not known                                         add
    with another hash, or moved (moves.py)                    change
    that complete listings don't name, or of a lost scope     prune
"""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from gristmill import jobs
from gristmill.connectors import change_store, document_store, push, store
from gristmill.connectors.document_store import KnownRef
from gristmill.connectors.listing.details import fetch_all, fetch_with_companions
from gristmill.connectors.model import ConnectorRow, ConnectorRun
from gristmill.connectors.port import (
    Batch,
    Checkpoint,
    Checkpoints,
    Connector,
    ConnectorKind,
    DocumentRef,
    ListedDocument,
    Stream,
)
from gristmill.connectors.prune import is_mass_deletion
from gristmill.connectors.streams import closable
from gristmill.connectors.transport import RateLimited
from gristmill.db import Database
from gristmill.jobs import Job

MAX_RETRIED_FAILURES = 1000  # of earlier runs, in one run


async def dry_run(
    db: Database,
    job: Job,
    row: ConnectorRow,
    run: ConnectorRun,
    connector: Connector,
    kind: ConnectorKind,
) -> None:
    """Read the tool, save the plan on the run, and end run and job."""
    async with db.connection() as tx:
        streams = await document_store.find_streams(tx, row.id)
        failures = await document_store.find_earlier_failures(tx, row.id, run.id, MAX_RETRIED_FAILURES)
    planner = _Planner(db, row, connector, forgets_marks=run.force)
    await planner.read_documents(failures)
    streams = [] if run.force else streams
    checkpoints = document_store.checkpoints_of(streams, kind.checkpoint_version)
    if interrupted := document_store.streams_interrupted_before(streams, run.id, kind):
        others = {stream_row.stream for stream_row in streams} - interrupted
        checkpoints |= await planner.read_streams(checkpoints, others)
        planner.forget_listings(interrupted)
    await planner.read_streams(checkpoints)
    planner.problems += await connector.find_problems()
    plan = await planner.plan()
    async with db.transaction() as tx:
        await push.lock(tx, row.id)
        await jobs.fence(tx, job)
        processed = plan["add"] + plan["change"] + plan["unchanged"]
        await store.save_plan(tx, run.id, plan, processed)
        for problem in planner.problems:
            await store.add_log_line(tx, run.id, problem, "warning")
        message = f"Would add {plan['add']}, change {plan['change']}, prune {plan['prune']}."
        await store.add_log_line(tx, run.id, message)
        await store.end_run(tx, run.id, "success")
        await jobs.complete(tx, job)
        await push.follow_up(tx, row)


class _Planner:
    """Compares what the tool has with what is known of it."""

    def __init__(self, db: Database, row: ConnectorRow, connector: Connector, *, forgets_marks: bool) -> None:
        self._db, self._row, self._connector, self._forgets_marks = db, row, connector, forgets_marks
        self._fates: dict[str, str] = {}  # of the documents that were read
        self._failed_ids: set[str] = set()
        self._characters = 0
        self._listed: dict[Stream, dict[str, ListedDocument]] = {}
        self._complete: set[Stream] = set()
        self._lost: set[Stream] = set()
        self._gone_ids: set[str] = set()  # as the tool reports
        self._below_ids: set[str] = set()  # in folders that changed
        self.problems: list[str] = []  # why streams can't be read

    async def read_documents(self, refs: Sequence[DocumentRef]) -> None:
        """Read documents one by one."""

        for stream in dict.fromkeys(ref.stream for ref in refs):
            of_stream = [ref for ref in refs if ref.stream == stream]
            result = await fetch_all(
                of_stream, lambda ref: ref, partial(fetch_with_companions, self._connector)
            )
            if result.stopped_by is not None:
                raise result.stopped_by
            await self._note(Batch(stream, documents=result.documents, failures=result.failures))

    async def read_streams(
        self, checkpoints: Checkpoints, finished: Collection[Stream] = ()
    ) -> dict[Stream, Checkpoint]:
        """Read the streams that are not finished; how far they were read."""
        reached: dict[Stream, Checkpoint] = {}
        async with aclosing(closable(self._connector.sync(checkpoints, finished))) as batches:
            async for batch in batches:
                if batch.stream in finished:
                    continue
                if isinstance(batch.unavailable, RateLimited):
                    raise batch.unavailable
                await self._note(batch)
                if batch.checkpoint is not None:
                    reached[batch.stream] = batch.checkpoint
        return reached

    def forget_listings(self, streams: Collection[Stream]) -> None:
        """These streams are listed once more: only that listing says what is gone."""
        for stream in streams:
            self._listed.pop(stream, None)
            self._complete.discard(stream)

    async def _note(self, batch: Batch) -> None:
        async with self._db.connection() as tx:
            known = await document_store.find_documents(
                tx, self._row.id, [document.ref.source_id for document in batch.documents]
            )
        for document in batch.documents:
            old, source_id = known.get(document.ref.source_id), document.ref.source_id
            fate = "add" if old is None else "change"
            if old is not None and old.hash == document_store.digest(document):
                fate = "unchanged"
            self._characters += (
                len(document.body) if fate != "unchanged" and source_id not in self._fates else 0
            )
            self._fates[source_id] = fate
            self._failed_ids.discard(source_id)
        self._failed_ids |= {failure.ref.source_id for failure in batch.failures}
        listed = self._listed.setdefault(batch.stream, {})
        listed |= {document.ref.source_id: ListedDocument(document.ref) for document in batch.documents}
        listed |= {entry.ref.source_id: entry for entry in batch.present}
        if batch.problem or batch.unavailable is not None:
            reason = batch.problem or f"{batch.unavailable}"
            self.problems.append(f"{batch.stream.scope} {batch.stream.kind}: {reason}")
        if batch.is_listing_complete:
            self._complete.add(batch.stream)
        if batch.lost:
            self._lost.add(batch.stream)
        self._gone_ids |= set(batch.gone)
        if batch.folders:
            async with self._db.connection() as tx:
                self._below_ids |= set(
                    await change_store.find_below(tx, self._row.id, batch.stream, batch.folders)
                )

    async def plan(self) -> dict[str, int | bool]:
        """What a run would do."""
        async with self._db.connection() as tx:
            known = {
                ref.source_id: replace(ref, mark=None) if self._forgets_marks else ref
                for ref in await document_store.find_known_refs(tx, self._row.id)
            }
        gone = self._find_gone(known.values())
        new = [
            entry
            for listed in self._listed.values()
            for source_id, entry in listed.items()
            if source_id not in known and source_id not in self._fates and source_id not in self._failed_ids
        ]
        moved = _count_moved(gone, new)
        unread = self._find_unread(known, new)
        await self.read_documents(unread)
        counts = Counter(self._fates.values())
        # What lay in a folder that is gone is not named by itself.
        gone_ids = {ref.source_id for ref in gone} | (
            {ref.source_id for ref in unread} & known.keys() - self._fates.keys() - self._failed_ids
        )
        prune_count = len(gone_ids) - moved
        return {
            "add": counts["add"] + sum(not entry.companion_ids for entry in new) - moved,
            "change": counts["change"] + moved,
            "unchanged": counts["unchanged"],
            "prune": prune_count,
            "errors": len(self._failed_ids) + len(self.problems),
            "characters": self._characters,
            "held": is_mass_deletion(prune_count, len(known)),
        }

    def _find_unread(self, known: dict[str, KnownRef], new: Sequence[ListedDocument]) -> list[DocumentRef]:
        """Known documents whose mark is another one now, that were missing until now, or whose folder changed; and new ones that may
        come with others."""
        entries = [entry for entry in new if entry.companion_ids]
        for listed in self._listed.values():
            entries += [
                entry
                for source_id, entry in listed.items()
                if source_id in known
                and (entry.mark not in (None, known[source_id].mark) or known[source_id].is_missing)
                and source_id not in self._fates
                and source_id not in self._failed_ids
            ]
        refs = {
            source_id: replace(entry.ref, source_id=source_id)
            for entry in entries
            for source_id in (entry.ref.source_id, *entry.companion_ids)
        }
        unnamed = self._below_ids - self._gone_ids - self._fates.keys() - self._failed_ids
        refs |= {source_id: known[source_id].ref for source_id in unnamed if source_id in known}
        return list(refs.values())

    def _find_gone(self, known: Collection[KnownRef]) -> list[KnownRef]:
        """Known documents that a complete listing did not name or the tool reports as gone, now or before, whose scope is lost, or of
        a stream that was not reported on."""
        named_ids = set(self._fates).union(*self._listed.values())
        for listed in self._listed.values():
            named_ids |= {companion for entry in listed.values() for companion in entry.companion_ids}
        return [
            ref
            for ref in known
            if ref.stream in self._lost
            or (
                ref.source_id not in named_ids
                and (
                    ref.stream in self._complete
                    or ref.stream not in self._listed
                    or ref.source_id in self._gone_ids
                    or ref.is_missing
                )
            )
        ]


def _count_moved(gone: Sequence[KnownRef], new: Sequence[ListedDocument]) -> int:
    """How many new documents are one that is gone, by their contents."""
    old_marks = Counter((ref.stream, ref.mark) for ref in gone)
    new_marks = Counter((entry.ref.stream, entry.mark) for entry in new if entry.can_move and entry.mark)
    return sum(count == old_marks[mark] == 1 for mark, count in new_marks.items())
