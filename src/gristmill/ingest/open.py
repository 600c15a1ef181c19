"""Open jobs: many `index_document` jobs at once become tasks, in one transaction.

A job waits while a budget of its base is used up: its document is not even read. It is refused if its base does not resume interrupted jobs automatically, or if the base's embedder has changed. It has
nothing to do if its base is gone or its version is no longer wanted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gristmill import catalog, jobs
from gristmill.catalog import Base, BaseId, DocumentToRead, ItemId
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError, Invalid, LeaseLost, Permanent
from gristmill.ingest.base_changes import SWITCH_DELAY
from gristmill.ingest.chunk import RECIPE, token_limit, token_overlap
from gristmill.ingest.inspect_original import PAGE_READER, TEXT_READER
from gristmill.ingest.processors import Processor
from gristmill.ingest.read import READER
from gristmill.ingest.task import IndexTask, base_of
from gristmill.jobs import Job, Snooze
from gristmill.operations.source_factory import SourceFactory
from gristmill.search import publish
from gristmill.usage import QuotaExceeded, items_over_quota, waits_for_budgets
from gristmill.work import IndexDocument


class EmbedderChanged(Permanent):
    """The base's embedder is not the one that made its vectors: nothing in the base can be indexed."""

    code = "embedder_changed"


@dataclass(frozen=True)
class Refusal:
    """Why a job can't be worked on."""

    error: Exception


OpenedJob = IndexTask | Refusal | Snooze | None


async def embedder_of(tx: Tx, base: Base, embedders: Embedders) -> Embedder:
    """The base's embedder. Raises EmbedderChanged if it is missing or gives other vectors by now."""
    try:
        embedder = await embedders.find(tx, base.embedder, base.org_id)
    except Invalid as error:
        raise EmbedderChanged(
            f"{error.message} Create {base.embedder!r} again, or add it to the settings again and restart: the base then"
            " recovers by itself."
        ) from error
    if embedder.identity != base.embedder_identity:
        raise EmbedderChanged(
            f"The embedder {base.embedder!r} has changed since this base's vectors were made. "
            "Restore its settings and restart: the base then recovers by itself. Or create a new base."
        )
    return embedder


class JobOpener:
    """Turns jobs into tasks."""

    def __init__(
        self,
        db: Database,
        embedders: Embedders,
        sources: SourceFactory,
        processors: Mapping[str, Processor],
    ) -> None:
        self._db, self._embedders, self._sources, self._processors = db, embedders, sources, processors

    async def open(self, claimed: Sequence[Job]) -> list[OpenedJob]:
        """For each job its task, why it is refused or waits, or None if there is nothing to do."""
        results: dict[Job, OpenedJob] = dict.fromkeys(claimed)
        async with self._db.transaction() as tx:
            await catalog.lock_bases_shared(tx, [base_of(job) for job in claimed])
            fenced = await jobs.fence_all(tx, claimed)
            bases = await catalog.find_bases(tx, [base_of(job) for job in claimed])
            states = await catalog.index_states(tx, list(bases))
            waits = await waits_for_budgets(tx, [(base.org_id, base.id) for base in bases.values()])
            embedders = {base.id: await self._embedder(tx, base) for base in bases.values()}
            wanted: dict[ItemId, Job] = {}
            for job in claimed:
                base = bases.get(base_of(job))
                if job.id not in fenced:
                    lost = f"This worker no longer holds the lease of job {job.id}."
                    results[job] = Refusal(LeaseLost(lost))
                elif base is not None and states[base.id].is_switching:
                    # It would be embedded with an embedder that is about to be replaced.
                    results[job] = Snooze(SWITCH_DELAY)
                elif base is not None and (wait := waits.get(base.id)) is not None:
                    results[job] = Snooze(wait.retry_after or timedelta(0), wait)
                elif base is not None and (error := _blocking_error(job, base, embedders)) is not None:
                    results[job] = Refusal(error)
                elif base is not None:
                    wanted[IndexDocument.of(job).item_id] = job
            versions = [(item_id, IndexDocument.of(job).version) for item_id, job in wanted.items()]
            excess = {base_id: await items_over_quota(tx, base_id) for base_id in bases}
            for item in await catalog.begin_reading(tx, versions) if versions else []:
                job = wanted[item.id]
                count, reason = excess[base_of(job)]
                if count > 0 and item.live_content is None:
                    excess[base_of(job)] = count - 1, reason
                    results[job] = Refusal(Permanent(reason, code=QuotaExceeded.code))
                    continue
                base, embedder = bases[base_of(job)], embedders[base_of(job)]
                assert not isinstance(embedder, EmbedderChanged)
                results[job] = await self._task(tx, job, base, embedder, item)
        return [results[job] for job in claimed]

    async def _embedder(self, tx: Tx, base: Base) -> Embedder | EmbedderChanged:
        try:
            return await embedder_of(tx, base, self._embedders)
        except EmbedderChanged as error:
            return error

    async def _task(
        self, tx: Tx, job: Job, base: Base, embedder: Embedder, item: DocumentToRead
    ) -> IndexTask:
        recipe = recipe_of(embedder, {**base.chunking, **item.chunking})
        validators = self._validators_to_send(base, item) if item.live_recipe == recipe else {}
        source = self._sources.for_item(item, note=item.body, blob=item.blob_name, validators=validators)
        version = item.wanted_version
        written: set[int] = set()
        if item.begun_content is not None:
            written = await publish.existing_chunk_indexes(tx, base.chunk_set, item.id, version)
        return IndexTask(job, base, item, version, embedder, source, recipe, frozenset(written))

    def _validators_to_send(self, base: Base, item: DocumentToRead) -> dict[str, str]:
        """The validators that let a web server answer "not modified", if the same bytes would give the same version."""
        validators = dict(item.live_validators or {})
        reader = validators.pop("reader", None)
        processor = self._processors.get(base.file_processor or "")
        is_same_reader = (
            reader == processor.identity if processor else reader in (TEXT_READER, PAGE_READER, READER)
        )
        return validators if is_same_reader and base.asset_reuse != "force" else {}


def _blocking_error(
    job: Job, base: Base, embedders: Mapping[BaseId, Embedder | EmbedderChanged]
) -> GristmillError | None:
    if job.interrupted and base.on_restart == "park":
        return Permanent(
            "Indexing was interrupted, and this base does not resume automatically. Recover the base to continue.",
            code="interrupted",
        )
    embedder = embedders[base.id]
    return embedder if isinstance(embedder, EmbedderChanged) else None


def recipe_of(embedder: Embedder, chunking: dict[str, Any]) -> str:
    """What decides how content is chunked and embedded: the same recipe and content give the same chunks."""
    recipe = [RECIPE, token_limit(embedder, chunking), embedder.identity]
    overlap = token_overlap(embedder, chunking)
    return json.dumps([*recipe, overlap] if overlap else recipe)
