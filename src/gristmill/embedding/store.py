"""The tables of the governor: what is left of each provider's limits, and who holds a portion of it."""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from gristmill.db import Queries, Tx
from gristmill.embedding.pacing import Limits, Others, Provider, refill, unused

queries = Queries(__package__ or "gristmill.embedding")


class _Row(NamedTuple):
    requests: float
    tokens: float
    concurrency: float
    strikes: int
    paused: float
    elapsed: float


async def lock(tx: Tx, key: str, limits: Limits) -> Provider:
    """The provider as it is now, kept from others until the transaction ends; an unknown one is entered."""
    row = await queries.maybe(tx, _Row, "provider_lock", key=key)
    if row is None:
        fresh = unused(limits)
        await queries.run(
            tx,
            "provider_enter",
            key=key,
            requests=fresh.requests,
            tokens=fresh.tokens,
            concurrency=fresh.concurrency,
        )
        row = await queries.one(tx, _Row, "provider_lock", key=key)
    provider = Provider(row.requests, row.tokens, row.concurrency, row.strikes, row.paused)
    return refill(provider, limits, row.elapsed)


async def others(tx: Tx, key: str, holder: UUID) -> Others:
    """Who else uses the provider; read after it is locked."""
    return await queries.one(tx, Others, "provider_others", key=key, holder=holder)


async def save(tx: Tx, key: str, provider: Provider) -> None:
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


async def hold(tx: Tx, key: str, holder: UUID, slots: int, lasts: timedelta) -> None:
    """Hold `slots`, or wait for some with none, for as long as `lasts`."""
    await queries.run(tx, "portion_save", key=key, holder=holder, slots=slots, lasts=lasts)


async def drop(tx: Tx, key: str, holder: UUID) -> None:
    """Hold nothing any more."""
    await queries.run(tx, "portion_drop", key=key, holder=holder)
