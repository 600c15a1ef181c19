"""Reserve what texts cost before they are embedded, of the budgets of their base and organisation (usage/budgets.py)."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.embedding import Embedder, Embedders
from gristmill.ingest.task import IndexTask
from gristmill.ingest.tokens import token_counter
from gristmill.jobs import Job
from gristmill.usage import Budgets, Grant, SpendingRequest

_FEW_TEXTS = 8  # counted on the event loop: handing them to a thread takes longer


class Purse:
    """Reserves and gives back, by the prices of the embedders."""

    def __init__(self, db: Database, embedders: Embedders) -> None:
        self._budgets, self._embedders = Budgets(db), embedders

    async def reserve_for_tasks(
        self, embedder: Embedder, texts: Mapping[IndexTask, Sequence[str]]
    ) -> Mapping[IndexTask, Grant]:
        """For each document, how many of its texts may be embedded."""
        requests = [(task.job, task.base, task_texts) for task, task_texts in texts.items()]
        return dict(zip(texts, await self._reserve(embedder, requests), strict=True))

    async def reserve_for_job(self, embedder: Embedder, job: Job, base: Base, texts: Sequence[str]) -> Grant:
        """How many of the texts of a job may be embedded. Raises BudgetUsedUp if not even the first."""
        (grant,) = await self._reserve(embedder, [(job, base, texts)])
        if texts and not grant.count and grant.wait is not None:
            raise grant.wait
        return grant

    async def release(self, reservations: Sequence[UUID]) -> None:
        """Give back what was not spent."""
        await self._budgets.release(reservations)

    async def _reserve(
        self, embedder: Embedder, wanted: Sequence[tuple[Job, Base, Sequence[str]]]
    ) -> list[Grant]:
        texts = [text for _, _, job_texts in wanted for text in job_texts]
        if not texts:
            return await self._budgets.reserve(embedder.name, None, [])
        counter = token_counter(embedder.tokenizer)
        counts = iter(
            counter.counts(texts)
            if len(texts) <= _FEW_TEXTS
            else await asyncio.to_thread(counter.counts, texts)
        )
        requests = [
            SpendingRequest(job.id, job.lease, base.org_id, base.id, [next(counts) for _ in job_texts])
            for job, base, job_texts in wanted
        ]
        return await self._budgets.reserve(embedder.name, self._embedders.price_of(embedder), requests)
