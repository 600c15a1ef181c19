"""One governor per provider key: requests, tokens and concurrency, shared by all workers through PostgreSQL.

    run(request) ─▶ a portion in hand? ── no ─▶ one short transaction: lock the provider, decide (pacing.py), hold
                     │ yes                        │ Wait: sleep if it is short, else Paced
                     ▼                            ▼
                  the request ── Transient ─▶ the pause is written for everybody ─▶ again if it is short, else Paced
                     │ answer
                     ▼
                  counted, and told with the next transaction

The database is not asked for each request: a process holds a portion, renews it while it is in use, and gives back what is
left of it when it is idle. One that dies lets its portion run out after `_LASTS`, and what it took of the buckets is
filled up again by time alone. The pause is the provider's own; the database's clock counts it.

A request that fails for a reason that may pass is tried again here, as long as the waits together stay within `patience`;
beyond that the caller is told when to come back, and that nothing was wrong with its work. A query has little patience
and never waits for documents. When the database can't be reached, `Unavailable` is raised, and nothing is sent.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

from gristmill import clock, faults
from gristmill.db import Database, DatabaseUnavailable
from gristmill.embedding import pacing, store
from gristmill.embedding.embedder import EmbedderPaused
from gristmill.embedding.pacing import Portion, ProviderLimits, Wait
from gristmill.errors import Transient
from gristmill.telemetry import pipeline_metrics

PATIENCE = timedelta(seconds=4)
QUERY_PATIENCE = timedelta(seconds=2)

# How long a portion may be used, and how often what is held of it is renewed. After that it is asked for anew, so
# that those who came meanwhile get their share.
_RENEW = timedelta(seconds=5)
# Two renewals may fail before a portion is somebody else's.
_PORTION_LIFETIME = 3 * _RENEW

log = logging.getLogger(__name__)
_T = TypeVar("_T")


def provider_key(url: str, api_key: str | None) -> str:
    """What all who use this endpoint with this API key share. It can't be read back."""
    return hashlib.sha256(json.dumps([url, api_key]).encode()).hexdigest()


class Governor:
    """This process's share of one provider; `told` is how the provider is called in messages."""

    def __init__(
        self,
        db: Database,
        key: str,
        limits: ProviderLimits,
        provider_name: str,
        *,
        patience: timedelta = PATIENCE,
        query_patience: timedelta = QUERY_PATIENCE,
    ) -> None:
        self.limits = limits
        self._db = db
        self._key = key
        self._provider_name = provider_name
        self._patience = {False: patience.total_seconds(), True: query_patience.total_seconds()}
        self._holder = uuid4()
        self._acquire_lock = asyncio.Lock()
        self._portion = Portion()
        self._valid_until = 0.0  # by the loop's clock
        self._running = 0
        self._waiting = 0
        self._unsaved_successes = 0  # good ones, not told yet
        self._request_ended = asyncio.Event()
        self._renewal: asyncio.Task[None] | None = None

    async def run(self, request: Callable[[], Awaitable[_T]], *, tokens: int, query: bool = False) -> _T:
        """The answer to `request`, sent when its turn comes, and again while it fails for a reason that passes."""
        patience = self._patience[query]
        while True:
            with pipeline_metrics.time_embedder_wait("queries" if query else "documents"):
                patience -= await (self._wait_for_query if query else self._wait_for_slot)(tokens, patience)
            try:
                answer = await request()
            except Transient as error:
                if error.code == "embedder_closed":
                    raise
                pause = await self._pause_provider(error)
                if pause > patience:
                    raise _paused_error(error.message, pause, error.code) from error
            else:
                self._unsaved_successes += 1
                return answer
            finally:
                if not query:
                    self._finish_request()

    async def close(self) -> None:
        """Give back what is held."""
        if self._renewal is not None:
            await clock.cancel_tasks([self._renewal])
            self._renewal = None
            await self._release()

    async def _wait_for_slot(self, tokens: int, patience: float) -> float:
        """Wait until a request for documents may be sent; how long that took of the patience."""
        waited = 0.0
        self._waiting += 1
        try:
            while not self._try_start(tokens):
                if self._running and self._running >= self._portion.slots > 0 and self._is_valid():
                    # Our own requests are in the way: ordinary backpressure, and no reason to send anybody away.
                    await self._request_ended.wait()
                    continue
                async with self._acquire_lock:
                    wait = None if self._can_start(tokens) else await self._acquire_portion(tokens)
                if wait is None:
                    continue
                if waited + wait.seconds > patience:
                    message = f"{self._provider_name} is at its limits, or asked for time."
                    raise _paused_error(message, wait.seconds, "embedder_paced")
                waited += wait.seconds
                await clock.pause(timedelta(seconds=wait.seconds))
        finally:
            self._waiting -= 1
        return waited

    async def _wait_for_query(self, tokens: int, patience: float) -> float:
        waited = 0.0
        while True:
            async with self._db.transaction() as tx:
                provider = await store.lock_provider(tx, self._key, self.limits)
                provider, granted = pacing.grant_query(provider, self.limits, tokens=tokens)
                await store.save_provider(tx, self._key, provider)
            if not isinstance(granted, Wait):
                return waited
            if waited + granted.seconds > patience:
                message = f"{self._provider_name} is at its limits, or asked for time."
                raise _paused_error(message, granted.seconds, "embedder_paced")
            waited += granted.seconds
            await clock.pause(timedelta(seconds=granted.seconds))

    def _try_start(self, tokens: int) -> bool:
        """Begin a request with what is in hand, if it is enough."""
        if not self._can_start(tokens):
            return False
        portion = self._portion
        self._portion = replace(portion, requests=portion.requests - 1, tokens=portion.tokens - tokens)
        self._running += 1
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew_portion(), name="provider portion")
        return True

    def _can_start(self, tokens: int) -> bool:
        portion = self._portion
        enough = portion.requests >= 1 and portion.tokens >= tokens
        return enough and self._running < portion.slots and self._is_valid()

    def _is_valid(self) -> bool:
        return asyncio.get_running_loop().time() < self._valid_until

    def _finish_request(self) -> None:
        self._running -= 1
        self._request_ended.set()
        self._request_ended = asyncio.Event()

    async def _acquire_portion(self, tokens: int) -> Wait | None:
        """Change the portion in hand for a new one that is enough for `tokens`, or learn how long to wait."""
        await faults.point("governor.asks")
        # From before the question, so that we never believe longer in a portion than the database does.
        now = asyncio.get_running_loop().time()
        unused, self._portion = self._portion, Portion(self._portion.slots)
        successes, self._unsaved_successes = self._unsaved_successes, 0
        async with self._db.transaction() as tx:
            provider = await store.lock_provider(tx, self._key, self.limits)
            others = await store.other_holders(tx, self._key, self._holder)
            provider = pacing.give_back(provider, self.limits, unused)
            provider = pacing.after_successes(provider, self.limits, successes)
            wanted = self._running + max(1, self._waiting)
            provider, granted = pacing.grant(provider, self.limits, others, slots=wanted, tokens=tokens)
            await store.save_provider(tx, self._key, provider)
            slots = 0 if isinstance(granted, Wait) else granted.slots
            # What runs, runs: nobody else may have those slots yet.
            await store.hold_portion(
                tx, self._key, self._holder, max(slots, self._running), _PORTION_LIFETIME
            )
        if isinstance(granted, Wait):
            return granted
        self._portion, self._valid_until = granted, now + _RENEW.total_seconds()
        return None

    async def _pause_provider(self, error: Transient) -> float:
        """Pause everybody; for how long."""
        requested = None if error.retry_after is None else error.retry_after.total_seconds()
        successes, self._unsaved_successes = self._unsaved_successes, 0
        async with self._db.transaction() as tx:
            provider = await store.lock_provider(tx, self._key, self.limits)
            provider = pacing.after_refusal(
                pacing.after_successes(provider, self.limits, successes), requested
            )
            await store.save_provider(tx, self._key, provider)
        self._portion = replace(self._portion, requests=0.0)  # so that nobody here goes on without asking
        log.info("an embedding provider is paused", extra={"seconds": provider.paused, "code": error.code})
        return provider.paused

    async def _renew_portion(self) -> None:
        """Renew what is held while it is in use; let it go when it isn't."""
        while self._running or self._waiting or self._is_valid():
            await clock.pause(_RENEW)
            try:
                async with self._acquire_lock, self._db.transaction() as tx:
                    slots = max(self._running, self._portion.slots if self._is_valid() else 0)
                    await store.hold_portion(tx, self._key, self._holder, slots, _PORTION_LIFETIME)
            except DatabaseUnavailable as error:
                log.warning("a provider's portion can't be renewed", extra={"code": error.code})
        await self._release()

    async def _release(self) -> None:
        async with self._acquire_lock:
            unused, self._portion = self._portion, Portion()
            successes, self._unsaved_successes = self._unsaved_successes, 0
            async with self._db.transaction() as tx:
                provider = await store.lock_provider(tx, self._key, self.limits)
                provider = pacing.give_back(provider, self.limits, unused)
                provider = pacing.after_successes(provider, self.limits, successes)
                await store.save_provider(tx, self._key, provider)
                await store.drop_portion(tx, self._key, self._holder)


def _paused_error(message: str, pause: float, code: str) -> EmbedderPaused:
    wait = timedelta(seconds=pause)
    return EmbedderPaused(f"{message} It is tried again in {max(1, round(pause))} s.", pause=wait, code=code)
