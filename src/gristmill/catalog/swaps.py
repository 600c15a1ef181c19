"""Swaps: the exchange of a base's chunks for those of another embedder or another chunking, while the base answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NewType
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog.base import BaseId, ChunkSetId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx

SwapId = NewType("SwapId", UUID)
SwapGate = Literal["auto", "ask", "off"]
SwapState = Literal["building", "comparing", "waiting", "switched", "refused", "cancelled"]

OPEN_STATES: tuple[SwapState, ...] = ("building", "comparing", "waiting")


@dataclass(frozen=True)
class Swap:
    """A row of `swap`."""

    id: SwapId
    base_id: BaseId
    set_id: ChunkSetId
    previous_set: ChunkSetId
    embedder: str
    previous_embedder: str
    gate: SwapGate
    state: SwapState
    is_approved: bool
    is_revert: bool
    is_refreshed: bool
    items: int
    embedded: int
    reused: int
    tokens: int
    report: dict[str, Any] | None
    error_code: str | None
    error_message: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.state in OPEN_STATES


async def insert_swap(
    tx: Tx,
    base_id: BaseId,
    *,
    set_id: ChunkSetId,
    previous_set: ChunkSetId,
    embedder: str,
    previous_embedder: str,
    gate: SwapGate,
    is_approved: bool,
    items: int,
    is_revert: bool = False,
) -> Swap:
    """Begin a swap; a base has at most one that is open."""
    return await queries.one(
        tx,
        Swap,
        "insert_swap",
        base=base_id,
        set=set_id,
        previous_set=previous_set,
        embedder=embedder,
        previous_embedder=previous_embedder,
        gate=gate,
        is_approved=is_approved,
        is_revert=is_revert,
        items=items,
    )


async def last_swap(tx: Tx, base_id: BaseId) -> Swap | None:
    """The latest swap of a base."""
    return await queries.maybe(tx, Swap, "last_swap", base=base_id)


async def find_swap(tx: Tx, swap_id: SwapId) -> Swap | None:
    """A swap."""
    return await queries.maybe(tx, Swap, "find_swap", id=swap_id)


async def change_swap(
    tx: Tx,
    swap_id: SwapId,
    before: Sequence[SwapState],
    state: SwapState,
    *,
    is_approved: bool = False,
    report: Mapping[str, Any] | None = None,
    code: str | None = None,
    message: str | None = None,
) -> Swap | None:
    """Move a swap on from one of the states `before`; None if it is in another one by now. The caller holds the base's lock."""
    return await queries.maybe(
        tx,
        Swap,
        "change_swap",
        id=swap_id,
        before=list(before),
        state=state,
        is_approved=is_approved,
        report=None if report is None else Jsonb(dict(report)),
        code=code,
        message=message,
    )


async def count_embedded(tx: Tx, swap_id: SwapId, *, embedded: int, reused: int, tokens: int) -> None:
    """Add to the counts of a swap."""
    await queries.run(tx, "count_embedded", id=swap_id, embedded=embedded, reused=reused, tokens=tokens)


async def hold_publications(tx: Tx, base_id: BaseId, time: timedelta) -> None:
    """Let the documents of a base wait for another set of chunks, for at most this time."""
    await queries.run(tx, "hold_publications", base=base_id, time=time)


# ── after the switch ─────────────────────────────────────────────────────────────────────────────────────


async def next_items_to_refresh(tx: Tx, base_id: BaseId, after: UUID, limit: int) -> list[ItemId]:
    """Documents in the order of their ids, locked until the transaction ends."""
    return await queries.values(tx, "next_items_to_refresh", base=base_id, after=after, limit=limit)


async def refresh_items(tx: Tx, set_id: ChunkSetId, items: Sequence[ItemId]) -> None:
    """Count the chunks of documents again, which the caller has locked."""
    await queries.run(tx, "refresh_items", set=set_id, items=list(items))


async def find_unrefreshed_swap(tx: Tx, base_id: BaseId) -> Swap | None:
    """The swap whose chunks answer, if the items of its base don't show their counts yet."""
    return await queries.maybe(tx, Swap, "find_unrefreshed_swap", base=base_id)


async def mark_refreshed(tx: Tx, swap: Swap, *, earlier: bool = False) -> None:
    """Note that all items have been refreshed after a swap; with `earlier`, that this is not worth it for the swaps before."""
    await queries.run(tx, "mark_refreshed", base=swap.base_id, id=swap.id, earlier=earlier)


@dataclass(frozen=True)
class UnfinishedSwap:
    """A swap without a job."""

    id: SwapId
    base_id: BaseId


async def find_unswapped(tx: Tx, base_id: BaseId | None, limit: int) -> list[UnfinishedSwap]:
    """Swaps that should go on, without a job that works on them."""
    return await queries.many(tx, UnfinishedSwap, "find_unswapped", base=base_id, limit=limit)
