"""Decide how much may be requested of a provider, and when. Pure: the caller passes the state and the elapsed time.

    requests, tokens per minute   one token bucket each; it refills evenly and holds six seconds' worth. A request that
                                  needs more than a full bucket leaves it in debt
    concurrent requests           `concurrency`, between 1 and the setting: halved when the provider asks for a pause,
                                  raised by one after each round of successes
    pause                         as long as the provider asks for, else ½, 1, 2 … 60 s, doubled by each failure in a row;
                                  at least an eighth of that, so that a provider that asks for 0 s is not hammered

Documents leave an eighth of every limit, and at least one request, to queries. A query needs no slot and may empty the
buckets; it waits only while the provider is paused or the buckets are empty. Processes share the slots evenly. A process
that waits counts too, so that the others give up some of theirs.
"""

import math
from dataclasses import dataclass, replace

# How much of a minute's worth a bucket holds: enough to hand out portions, too little to burst a minute's worth at once.
BURST = 0.1
QUERY_SHARE = 0.125
# The share of a bucket that a process takes in advance for its next requests.
_PREFETCH_SHARE = 0.25
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 60.0
_MIN_PAUSE_SHARE = 0.125
# Smaller differences are rounding errors.
_EPSILON = 1e-6
# How soon to ask again for a slot that another process holds.
_SLOT_WAIT = 0.5


@dataclass(frozen=True)
class ProviderLimits:
    """The limits from the settings; None means no limit."""

    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrency: int

    @property
    def requests_burst(self) -> float:
        """Capacity of the bucket of requests."""
        return _burst(self.requests_per_minute)

    @property
    def tokens_burst(self) -> float:
        """Capacity of the bucket of tokens."""
        return _burst(self.tokens_per_minute)


@dataclass(frozen=True)
class ProviderState:
    """The state that all processes share; `paused` is how many seconds are left of the pause."""

    requests: float
    tokens: float
    concurrency: float
    strikes: int = 0
    paused: float = 0.0


@dataclass(frozen=True)
class OtherHolders:
    """The other processes that hold or wait for slots of the same provider."""

    holders: int = 0
    slots: int = 0


@dataclass(frozen=True)
class Portion:
    """What a process may use before it has to ask again."""

    slots: int = 0
    requests: float = 0.0
    tokens: float = 0.0


@dataclass(frozen=True)
class MustWait:
    """Nothing is available now; ask again after this many seconds."""

    seconds: float


def new_provider(limits: ProviderLimits) -> ProviderState:
    """A provider before its first request. A bucket without a limit stays at 0 and is ignored."""
    return ProviderState(
        requests=limits.requests_burst if limits.requests_per_minute else 0.0,
        tokens=limits.tokens_burst if limits.tokens_per_minute else 0.0,
        concurrency=float(limits.concurrency),
    )


def refill(provider: ProviderState, limits: ProviderLimits, elapsed: float) -> ProviderState:
    """The provider `elapsed` seconds after it was last saved; changed limits apply at once."""
    return replace(
        provider,
        requests=_level_after(provider.requests, limits.requests_per_minute, elapsed),
        tokens=_level_after(provider.tokens, limits.tokens_per_minute, elapsed),
        concurrency=min(max(1.0, provider.concurrency), float(limits.concurrency)),
    )


def give_back(provider: ProviderState, limits: ProviderLimits, portion: Portion) -> ProviderState:
    """The provider after a process returned the unused rest of its portion."""
    return replace(
        provider,
        requests=_level_after(provider.requests + portion.requests, limits.requests_per_minute, 0),
        tokens=_level_after(provider.tokens + portion.tokens, limits.tokens_per_minute, 0),
    )


def grant(
    provider: ProviderState, limits: ProviderLimits, others: OtherHolders, *, slots: int, tokens: int
) -> tuple[ProviderState, Portion | MustWait]:
    """A portion for documents, enough for at least one request of `tokens` and for up to `slots` at once; or a wait."""
    if provider.paused > 0:
        return provider, MustWait(provider.paused)
    free = document_slots(provider.concurrency) - others.slots
    share = math.ceil(document_slots(provider.concurrency) / (others.holders + 1))
    granted = min(slots, share, free)
    if granted < 1:
        return provider, MustWait(_SLOT_WAIT)
    wait = max(
        _seconds_until(provider.requests, limits.requests_per_minute, 1, _reserve(limits.requests_burst)),
        _seconds_until(provider.tokens, limits.tokens_per_minute, tokens, _reserve(limits.tokens_burst)),
    )
    if wait > 0:
        return provider, MustWait(wait)
    portion = Portion(
        granted,
        _portion_size(provider.requests, limits.requests_per_minute, 1),
        _portion_size(provider.tokens, limits.tokens_per_minute, tokens),
    )
    return _minus_portion(provider, limits, portion), portion


def grant_query(
    provider: ProviderState, limits: ProviderLimits, *, tokens: int
) -> tuple[ProviderState, Portion | MustWait]:
    """What one query needs, including the reserve that documents leave; or a wait."""
    wait = max(
        provider.paused,
        _seconds_until(provider.requests, limits.requests_per_minute, 1),
        _seconds_until(provider.tokens, limits.tokens_per_minute, tokens),
    )
    if wait > 0:
        return provider, MustWait(wait)
    portion = Portion(0, 1.0, float(tokens))
    return _minus_portion(provider, limits, portion), portion


def document_slots(concurrency: float) -> int:
    """How many requests for documents may run at once; the rest of the concurrency is for queries."""
    slots = int(concurrency)
    return max(1, slots - max(1, math.ceil(slots * QUERY_SHARE)))


def after_successes(provider: ProviderState, limits: ProviderLimits, successes: int) -> ProviderState:
    """The provider after this many successful requests."""
    if not successes:
        return provider
    concurrency = provider.concurrency + successes / provider.concurrency
    return replace(provider, concurrency=min(concurrency, float(limits.concurrency)), strikes=0)


def after_refusal(provider: ProviderState, pause: float | None) -> ProviderState:
    """The provider after a response that asks for a pause of `pause` seconds, or of an unknown length (None).

    Requests that were sent together fail together, so while the provider is paused only the pause may grow.
    """
    if provider.paused > 0:
        return replace(provider, paused=max(provider.paused, pause or 0.0))
    own = min(_MAX_PAUSE, _FIRST_PAUSE * 2 ** min(provider.strikes, 16))
    return replace(
        provider,
        paused=own if pause is None else max(pause, own * _MIN_PAUSE_SHARE),
        concurrency=max(1.0, provider.concurrency / 2),
        strikes=provider.strikes + 1,
    )


def _burst(per_minute: int | None) -> float:
    return math.inf if per_minute is None else max(2.0, per_minute * BURST)


def _level_after(level: float, per_minute: int | None, elapsed: float) -> float:
    if per_minute is None:
        return 0.0
    return min(_burst(per_minute), level + per_minute * elapsed / 60)


def _reserve(burst: float) -> float:
    """What documents leave in a bucket for queries."""
    return max(1.0, burst * QUERY_SHARE)


def _seconds_until(level: float, per_minute: int | None, need: float, reserve: float = 0.0) -> float:
    """Seconds until the bucket holds `need` above its reserve, or until it is full if it can never hold that much."""
    if per_minute is None:
        return 0.0
    burst = _burst(per_minute)
    target = min(need + reserve, burst)
    missing = target - level
    return missing * 60 / per_minute if missing > _EPSILON else 0.0


def _portion_size(level: float, per_minute: int | None, need: float) -> float:
    if per_minute is None:
        return math.inf
    return max(need, (level - _reserve(_burst(per_minute))) * _PREFETCH_SHARE)


def _minus_portion(provider: ProviderState, limits: ProviderLimits, portion: Portion) -> ProviderState:
    return replace(
        provider,
        requests=provider.requests - portion.requests if limits.requests_per_minute else 0.0,
        tokens=provider.tokens - portion.tokens if limits.tokens_per_minute else 0.0,
    )
