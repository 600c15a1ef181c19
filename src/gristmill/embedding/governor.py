"""Rate limiting per provider key: requests, tokens and concurrency, shared by all workers through PostgreSQL.

    run(request) ─▶ portion left? ── no ─▶ one short transaction: lock the provider, decide (pacing.py), hold a portion
                     │ yes                   │ MustWait: sleep if it is short, else raise EmbedderPaused
                     ▼                       ▼
                  request ── Transient ─▶ save the pause for all workers ─▶ retry if it is short, else EmbedderPaused
                     │ success
                     ▼
                  count it; the next transaction saves the count

A process does not ask the database before each request. It holds a portion of the provider's limits, renews it while it is
in use, and returns the rest when idle. The portion of a process that dies expires after `_PORTION_LIFETIME`, and the
buckets refill with time. The provider chooses the pause; the database's clock measures it.

A request that fails with a transient error is retried here as long as all waits together stay within `patience`. After
that the caller gets `EmbedderPaused`, which says when to retry. Queries have little patience and never wait for documents;
one that timed out is not sent again.
When the database is unreachable, `DatabaseUnavailable` is raised and no request is sent.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

import httpx

from gristmill import clock, faults
from gristmill.db import Database, DatabaseUnavailable
from gristmill.embedding import pacing, store
from gristmill.embedding.embedder import BadAnswer, EmbedderPaused
from gristmill.embedding.pacing import MustWait, Portion, ProviderLimits
from gristmill.errors import Transient
from gristmill.settings import EmbedderSettings
from gristmill.telemetry import pipeline_metrics

PATIENCE = timedelta(seconds=4)
QUERY_PATIENCE = timedelta(seconds=2)

# How long a process may use a portion before it has to ask for a new one, so that new processes get their share. Also
# the interval at which the portion's expiry is renewed.
_PAUSE_LOG_INTERVAL = 30.0  # seconds: with many requests, each of them would log the same
_RENEW = timedelta(seconds=5)
# Two renewals may fail before other processes may take the portion.
_PORTION_LIFETIME = 3 * _RENEW

log = logging.getLogger(__name__)
_T = TypeVar("_T")


def provider_key(url: str, api_key: str | None) -> str:
    """The key under which all users of this endpoint and API key share limits. The API key can't be recovered from it."""
    return hashlib.sha256(json.dumps([url, api_key]).encode()).hexdigest()


def plaintext_key(settings: EmbedderSettings) -> str | None:
    """The API key of an endpoint, if it has one."""
    return settings.api_key.get_secret_value() if settings.api_key else None


def lowest_limits(sharing: Sequence[EmbedderSettings]) -> ProviderLimits:
    """The limits of embedders that share an endpoint and API key: the lowest of each."""
    return ProviderLimits(
        min((each.requests_per_minute for each in sharing if each.requests_per_minute), default=None),
        min((each.tokens_per_minute for each in sharing if each.tokens_per_minute), default=None),
        min(each.concurrency for each in sharing),
    )


def provider_host(url: str) -> str:
    """The host of an endpoint, for messages."""
    try:
        return httpx.URL(url).host
    except httpx.InvalidURL:
        return "an invalid address"  # creating the embedder raises the error for it


class Governor:
    """This process's share of one provider; messages call the provider `provider_name`."""

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
        self._pause_logged_at = -_PAUSE_LOG_INTERVAL
        self._valid_until = 0.0  # by the loop's clock
        self._running = 0
        self._waiting = 0
        self._unsaved_successes = 0  # requests that succeeded since the last transaction
        self._request_ended = asyncio.Event()
        self._renewal: asyncio.Task[None] | None = None

    async def run(self, request: Callable[[], Awaitable[_T]], *, tokens: int, query: bool = False) -> _T:
        """Send `request` as soon as the limits allow, retry it on transient errors, and return its result."""
        patience = self._patience[query]
        while True:
            with pipeline_metrics.time_embedder_wait("queries" if query else "documents"):
                patience -= await (self._wait_for_query if query else self._wait_for_slot)(tokens, patience)
            try:
                result = await request()
            except Transient as error:
                # A bad answer says nothing about the provider's limits: no other request has to wait for it.
                if error.code == "embedder_closed" or isinstance(error, BadAnswer):
                    raise
                pause = await self._pause_provider(error)
                has_taken_too_long = query and error.code == "embedder_timeout"
                if pause > patience or has_taken_too_long:
                    raise _pause_error(error.message, pause, error.code) from error
            else:
                self._unsaved_successes += 1
                return result
            finally:
                if not query:
                    self._finish_request()

    async def close(self) -> None:
        """Return the portion that this process holds."""
        if self._renewal is not None:
            await clock.cancel_tasks([self._renewal])
            self._renewal = None
            await self._release()

    async def _wait_for_slot(self, tokens: int, patience: float) -> float:
        """MustWait until a request for documents may be sent. Returns how many seconds that took."""
        waited = 0.0
        self._waiting += 1
        try:
            while not self._try_start(tokens):
                if self._running and self._running >= self._portion.slots > 0 and self._is_valid():
                    # This process's own requests use all slots: ordinary backpressure, no reason to raise.
                    await self._request_ended.wait()
                    continue
                async with self._acquire_lock:
                    wait = None if self._can_start(tokens) else await self._acquire_portion(tokens)
                if wait is None:
                    continue
                if waited + wait.seconds > patience:
                    raise self._at_limits(wait)
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
            if not isinstance(granted, MustWait):
                return waited
            if waited + granted.seconds > patience:
                raise self._at_limits(granted)
            waited += granted.seconds
            await clock.pause(timedelta(seconds=granted.seconds))

    def _at_limits(self, wait: MustWait) -> EmbedderPaused:
        message = f"{self._provider_name} is at its rate limits or asked for a pause."
        return _pause_error(message, wait.seconds, "embedder_paced")

    def _try_start(self, tokens: int) -> bool:
        """Start a request if this process's portion is enough for it."""
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

    async def _acquire_portion(self, tokens: int) -> MustWait | None:
        """Exchange the portion for one that is enough for `tokens`. Returns how long to wait if there is none."""
        await faults.point("governor.asks")
        # Taken before the transaction, so that this process never uses a portion longer than the database grants it.
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
            slots = 0 if isinstance(granted, MustWait) else granted.slots
            # Running requests keep their slots, whatever was granted.
            await store.hold_portion(
                tx, self._key, self._holder, max(slots, self._running), _PORTION_LIFETIME
            )
        if isinstance(granted, MustWait):
            return granted
        self._portion, self._valid_until = granted, now + _RENEW.total_seconds()
        return None

    async def _pause_provider(self, error: Transient) -> float:
        """Pause the provider for all workers. Returns the pause in seconds."""
        requested = None if error.retry_after is None else error.retry_after.total_seconds()
        successes, self._unsaved_successes = self._unsaved_successes, 0
        async with self._db.transaction() as tx:
            provider = await store.lock_provider(tx, self._key, self.limits)
            provider = pacing.after_refusal(
                pacing.after_successes(provider, self.limits, successes), requested
            )
            await store.save_provider(tx, self._key, provider)
        self._portion = replace(
            self._portion, requests=0.0
        )  # the next request asks the database, and sees the pause
        if (now := asyncio.get_running_loop().time()) - self._pause_logged_at > _PAUSE_LOG_INTERVAL:
            self._pause_logged_at = now
            facts = {"seconds": provider.paused, "code": error.code, "reason": error.message}
            log.warning(
                "an embedding provider refuses requests or fails: they wait and are repeated", extra=facts
            )
        return provider.paused

    async def _renew_portion(self) -> None:
        """Renew the portion while it is in use, and return it afterwards."""
        while self._running or self._waiting or self._is_valid():
            await clock.pause(_RENEW)
            try:
                async with self._acquire_lock, self._db.transaction() as tx:
                    # After a crash of PostgreSQL its row may be gone; this inserts it.
                    await store.lock_provider(tx, self._key, self.limits)
                    slots = max(self._running, self._portion.slots if self._is_valid() else 0)
                    await store.hold_portion(tx, self._key, self._holder, slots, _PORTION_LIFETIME)
            except DatabaseUnavailable as error:
                log.warning(
                    "this worker's share of an embedding provider's rate limit can't be renewed",
                    extra={"code": error.code},
                )
            except (
                Exception
            ):  # a bug: without this loop other workers would take the portion while it is in use
                log.exception("this worker's share of an embedding provider's rate limit can't be renewed")
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


def _pause_error(message: str, pause: float, code: str) -> EmbedderPaused:
    wait = timedelta(seconds=pause)
    return EmbedderPaused(f"{message} Next try in {max(1, round(pause))} s.", pause=wait, code=code)
