"""The governor's tables: what is left of each provider's limits, and which process holds a portion."""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from gristmill.db import Queries, Tx
from gristmill.embedding.pacing import OtherHolders, ProviderLimits, ProviderState, new_provider, refill

queries = Queries(__package__ or "gristmill.embedding")


class _ProviderRow(NamedTuple):
    requests: float
    tokens: float
    concurrency: float
    strikes: int
    paused: float
    elapsed: float


async def lock_provider(tx: Tx, key: str, limits: ProviderLimits) -> ProviderState:
    """Lock the provider until the transaction ends, and return its current state. A new one is inserted first."""
    row = await queries.maybe(tx, _ProviderRow, "lock_provider", key=key)
    if row is None:
        initial = new_provider(limits)
        await queries.run(
            tx,
            "insert_provider",
            key=key,
            requests=initial.requests,
            tokens=initial.tokens,
            concurrency=initial.concurrency,
        )
        row = await queries.one(tx, _ProviderRow, "lock_provider", key=key)
    provider = ProviderState(row.requests, row.tokens, row.concurrency, row.strikes, row.paused)
    return refill(provider, limits, row.elapsed)


async def other_holders(tx: Tx, key: str, holder: UUID) -> OtherHolders:
    """The other processes that use the provider. The caller holds its lock."""
    return await queries.one(tx, OtherHolders, "other_holders", key=key, holder=holder)


async def save_provider(tx: Tx, key: str, provider: ProviderState) -> None:
    """Save the state of a locked provider."""
    await queries.run(
        tx,
        "save_provider",
        key=key,
        requests=provider.requests,
        tokens=provider.tokens,
        concurrency=provider.concurrency,
        strikes=provider.strikes,
        paused=provider.paused,
    )


async def hold_portion(tx: Tx, key: str, holder: UUID, slots: int, lifetime: timedelta) -> None:
    """Hold `slots` for `lifetime`. A process that waits for slots holds 0."""
    await queries.run(tx, "hold_portion", key=key, holder=holder, slots=slots, lifetime=lifetime)


async def drop_portion(tx: Tx, key: str, holder: UUID) -> None:
    """Give up the portion."""
    await queries.run(tx, "drop_portion", key=key, holder=holder)
