"""The ledger: what was embedded and what it cost, by day, base, caller and kind of work.

Counters are raised in the transaction that writes the chunks: killed before its commit, nothing is counted, and the texts are
embedded and counted once more; after it, both are there. Each process has a shard of the counters, so that the transactions of
different workers don't wait for each other's rows.
"""

import os
import secrets
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from gristmill.db import Tx
from gristmill.identity import OrgId
from gristmill.usage.store import queries

UsageKind = Literal["index", "image", "swap", "move", "vision", "chat", "query"]

_SHARDS = 64
_shards: dict[int, int] = {}  # by process: a fork must not use its parent's

# The caller of the request that is being served; None in a worker.
caller_name: ContextVar[str | None] = ContextVar("caller_name", default=None)


@dataclass(frozen=True)
class Spending:
    """What was embedded: texts, their tokens, and what they cost by the embedder's price; `reservation` is settled with it."""

    model: str
    texts: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    reservation: UUID | None = None


@dataclass(frozen=True)
class ItemSpending:
    """What was spent for an item."""

    item_id: UUID
    kind: UsageKind
    spending: Spending


@dataclass(frozen=True)
class UsageRow:
    """What was spent on a day, for a base, by a caller, for a kind of work. The base may be deleted by now."""

    day: date
    base_id: UUID
    base_name: str | None
    caller: str
    caller_name: str | None
    kind: UsageKind
    model: str
    texts: int
    tokens: int
    cost: Decimal


@dataclass(frozen=True)
class UsageFilter:
    """Which rows: of these days, of a base, of a caller."""

    since: date
    until: date
    base: UUID | None = None
    caller: str | None = None


def price_of_tokens(tokens: int, price: float | None) -> Decimal:
    """What tokens cost by the price of a million of them; 0 without a price."""
    return Decimal(0) if price is None else tokens * Decimal(str(price)) / 1_000_000


async def settle(tx: Tx, spent: Sequence[ItemSpending]) -> None:
    """Count what was spent for items, and end the reservations. In the transaction that writes the chunks, at its end."""
    spent = [entry for entry in spent if entry.spending.texts]
    if not spent:
        return
    reservations = [entry.spending.reservation for entry in spent if entry.spending.reservation is not None]
    if reservations:
        await queries.run(tx, "delete_reservations", ids=reservations)
    await queries.run(
        tx,
        "record_usage",
        shard=_shard(),
        items=[entry.item_id for entry in spent],
        kinds=[entry.kind for entry in spent],
        models=[entry.spending.model for entry in spent],
        texts=[entry.spending.texts for entry in spent],
        tokens=[entry.spending.tokens for entry in spent],
        costs=[entry.spending.cost for entry in spent],
    )


async def settle_base(
    tx: Tx,
    org: OrgId,
    base_id: UUID,
    kind: UsageKind,
    spending: Spending,
    *,
    cause: UUID | None = None,
    caller: str | None = None,
) -> None:
    """Count what was spent for a base as a whole, by a caller or by the one of the request `cause`; end the reservation."""
    if not spending.texts:
        return
    if spending.reservation is not None:
        await queries.run(tx, "delete_reservations", ids=[spending.reservation])
    await queries.run(
        tx,
        "record_base_usage",
        base=base_id,
        org=org,
        kind=kind,
        model=spending.model,
        shard=_shard(),
        texts=spending.texts,
        tokens=spending.tokens,
        cost=spending.cost,
        cause=cause,
        caller=caller,
    )


async def record_queries(
    tx: Tx, queries_embedded: Sequence[tuple[OrgId, UUID, str, str, int, int, Decimal]]
) -> None:
    """Count queries that searches embedded: organisation, base, caller, model, texts, tokens and cost of each."""
    orgs, bases, callers, models, texts, tokens, costs = map(list, zip(*queries_embedded, strict=True))
    await queries.run(
        tx,
        "record_queries",
        shard=_shard(),
        orgs=orgs,
        bases=bases,
        callers=callers,
        models=models,
        texts=texts,
        tokens=tokens,
        costs=costs,
    )


async def name_caller(tx: Tx, cause: UUID) -> None:
    """Record the caller of the current request as the one that items of this cause follow from."""
    caller = caller_name.get()
    if caller is not None:
        await queries.run(tx, "name_caller", cause=cause, caller=caller)


async def find_usage(tx: Tx, org: OrgId, chosen: UsageFilter, *, limit: int) -> list[UsageRow]:
    """What an organisation has spent, the newest first."""
    return await queries.many(tx, UsageRow, "usage_rows", org=org, limit=limit, **vars(chosen))


async def today(tx: Tx) -> date:
    """The current day, by the database's clock."""
    return (await queries.values(tx, "today"))[0]


def _shard() -> int:
    return _shards.setdefault(os.getpid(), secrets.randbelow(_SHARDS))


@dataclass(frozen=True)
class StoredDocument:
    """A document whose content is stored: its length, its own chunking, what its live version was made by, and how many images it
    has, described or not."""

    item_id: UUID
    content: bytes
    characters: int
    chunking: dict[str, Any]
    recipe: str | None
    images: int
    waiting_images: int


async def list_stored_documents(tx: Tx, base_id: UUID, roots: Sequence[UUID] | None) -> list[StoredDocument]:
    """The documents below these roots, or of the whole base, for an estimate of what embedding them costs."""
    return await queries.many(
        tx, StoredDocument, "stored_documents", base=base_id, roots=None if roots is None else list(roots)
    )
