"""The tables of the governor: what is left of each provider's limits, and who holds a portion of it."""

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
    """The provider as it is now, kept from others until the transaction ends; an unknown one is entered."""
    row = await queries.maybe(tx, _ProviderRow, "provider_lock", key=key)
    if row is None:
        initial = new_provider(limits)
        await queries.run(
            tx,
            "provider_enter",
            key=key,
            requests=initial.requests,
            tokens=initial.tokens,
            concurrency=initial.concurrency,
        )
        row = await queries.one(tx, _ProviderRow, "provider_lock", key=key)
    provider = ProviderState(row.requests, row.tokens, row.concurrency, row.strikes, row.paused)
    return refill(provider, limits, row.elapsed)


async def other_holders(tx: Tx, key: str, holder: UUID) -> OtherHolders:
    """Who else uses the provider; read after it is locked."""
    return await queries.one(tx, OtherHolders, "provider_others", key=key, holder=holder)


async def save_provider(tx: Tx, key: str, provider: ProviderState) -> None:
    """Write a locked provider back."""
    await queries.run(
        tx,
        "provider_save",
        key=key,
        requests=provider.requests,
        tokens=provider.tokens,
        concurrency=provider.concurrency,
        strikes=provider.strikes,
        paused=provider.paused,
    )


async def hold_portion(tx: Tx, key: str, holder: UUID, slots: int, lifetime: timedelta) -> None:
    """Hold `slots`, or wait for some with none, for as long as `lasts`."""
    await queries.run(tx, "portion_save", key=key, holder=holder, slots=slots, lasts=lifetime)


async def drop_portion(tx: Tx, key: str, holder: UUID) -> None:
    """Hold nothing any more."""
    await queries.run(tx, "portion_drop", key=key, holder=holder)
