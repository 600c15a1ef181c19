"""Reserve what texts cost before they are embedded, of the budgets of their base and organisation (usage/budgets.py)."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.embedding import Embedder, Embedders
from gristmill.ingest.chunk import TextChunk
from gristmill.ingest.task import IndexTask
from gristmill.ingest.tokens import token_counter
from gristmill.jobs import Job, Snooze
from gristmill.usage import Budgets, Grant, SpendingRequest

_FEW_TEXTS = 8  # counted on the event loop: handing them to a thread takes longer


class Purse:
    """Reserves and gives back, by the prices of the embedders."""

    def __init__(self, db: Database, embedders: Embedders) -> None:
        self._budgets, self._embedders = Budgets(db), embedders

    async def reserve_for_tasks(
        self, embedder: Embedder, chunks: Mapping[IndexTask, Sequence[TextChunk]]
    ) -> Mapping[IndexTask, Grant]:
        """For each document, how many of its chunks may be embedded."""
        counts = await _token_counts(embedder, [chunk for of_task in chunks.values() for chunk in of_task])
        requests = [
            _request(task.job, task.base, [next(counts) for _ in of_task]) for task, of_task in chunks.items()
        ]
        return dict(zip(chunks, await self._reserve(embedder, requests), strict=True))

    async def reserve_for_job(self, embedder: Embedder, job: Job, base: Base, texts: Sequence[str]) -> Grant:
        """How many of the texts of a job may be embedded. Raises BudgetUsedUp if not even the first."""
        (grant,) = await self._reserve(embedder, [_request(job, base, await _count(embedder, texts))])
        if texts and not grant.count and grant.wait is not None:
            raise grant.wait
        return grant

    async def release(self, reservations: Sequence[UUID]) -> None:
        """Give back what was not spent."""
        await self._budgets.release(reservations)

    async def _reserve(self, embedder: Embedder, requests: Sequence[SpendingRequest]) -> list[Grant]:
        price = self._embedders.price_of(embedder) if requests else None
        return await self._budgets.reserve(embedder.name, price, requests)


def snooze_without_budget(grants: Mapping[IndexTask, Grant]) -> None:
    """End the attempts of documents that have to wait for a budget, after what they got is written."""
    for task, grant in grants.items():
        if grant.wait is not None:
            task.completion.finish(Snooze(grant.wait.retry_after or timedelta(0), grant.wait))


def _request(job: Job, base: Base, token_counts: list[int]) -> SpendingRequest:
    return SpendingRequest(job.id, job.lease, base.org_id, base.id, token_counts)


async def _token_counts(embedder: Embedder, chunks: Sequence[TextChunk]) -> Iterator[int]:
    """The tokens of each chunk. Only those that the chunker did not make are counted here."""
    counted = iter(await _count(embedder, [chunk.text for chunk in chunks if chunk.tokens is None]))
    return (next(counted) if chunk.tokens is None else chunk.tokens for chunk in chunks)


async def _count(embedder: Embedder, texts: Sequence[str]) -> list[int]:
    if not texts:
        return []
    counter = token_counter(embedder.tokenizer)
    return (
        counter.counts(texts) if len(texts) <= _FEW_TEXTS else await asyncio.to_thread(counter.counts, texts)
    )
