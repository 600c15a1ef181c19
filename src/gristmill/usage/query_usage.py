"""Counts the queries that searches embed. They are collected in this process and written every few seconds, so that a search writes
nothing; a process that is killed loses what it has not written yet."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from gristmill import clock
from gristmill.db import Database
from gristmill.errors import Transient
from gristmill.identity import OrgId
from gristmill.usage.ledger import caller_name, price_of_tokens, record_queries

_INTERVAL = timedelta(seconds=5)


@dataclass(frozen=True)
class QueryKey:
    """What queries are counted by: organisation, base, caller and model."""

    org: OrgId
    base_id: UUID
    caller: str
    model: str


@dataclass
class QueryCount:
    """How many queries were embedded, their tokens and what they cost."""

    texts: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)


class QueryUsage:
    """Collects what queries cost, and writes it to the ledger from time to time."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._counts: dict[QueryKey, QueryCount] = defaultdict(QueryCount)

    def record(self, org: OrgId, base_id: UUID, model: str, tokens: int, price: float | None) -> None:
        """Count a query that was embedded for a base, by the caller of the current request."""
        count = self._counts[QueryKey(org, base_id, caller_name.get() or "system", model)]
        count.texts += 1
        count.tokens += tokens
        count.cost += price_of_tokens(tokens, price)

    async def flush(self) -> None:
        """Write what was collected. If the database is down, it is written the next time."""
        counts = self._counts
        self._counts = defaultdict(QueryCount)
        if not counts:
            return
        try:
            async with self._db.transaction() as tx:
                await record_queries(
                    tx,
                    [
                        (key.org, key.base_id, key.caller, key.model, *vars(count).values())
                        for key, count in counts.items()
                    ],
                )
        except Transient:
            for key, count in counts.items():
                again = self._counts[key]
                again.texts += count.texts
                again.tokens += count.tokens
                again.cost += count.cost

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Write every few seconds, and at the end."""
        task = asyncio.create_task(self._run(), name="query usage")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self.flush()

    async def _run(self) -> None:
        while True:
            await clock.pause(_INTERVAL)
            await self.flush()
