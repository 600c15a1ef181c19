"""Limits on how often a caller may do something, counted per server process."""

import time
from collections import OrderedDict
from datetime import timedelta

from gristmill.errors import LimitReached

_MAX_BUCKETS = 10_000  # beyond this the name with the oldest request is forgotten
_MINUTE = 60.0
KEY_RATE_MESSAGE = (
    "This key sends too many requests. Wait as long as Retry-After says, or ask the operator to raise "
    "key_requests_per_minute."
)
_PUSH_MESSAGE = (
    "Too many pushes. Wait as long as Retry-After says. A run is queued already, or the schedule starts one."
)
_SIGN_IN_MESSAGE = (
    "Too many sign-ins failed. Wait as long as Retry-After says, and check the key or the password."
)


class RateLimiter:
    """A token bucket per name: it refills at `per_minute` and holds ten seconds' worth of requests, or `capacity`."""

    def __init__(self, per_minute: float, *, message: str, code: str, capacity: float | None = None) -> None:
        self._rate = per_minute / _MINUTE
        self._capacity = max(1.0, per_minute / 6 if capacity is None else capacity)
        self._message, self._code = message, code
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Take a token for a request. Raises `LimitReached` when the bucket is empty."""
        self.check(name)
        tokens, refilled_at = self._buckets[name]
        self._buckets[name] = (tokens - 1, refilled_at)

    def check(self, name: str) -> None:
        """Raise `LimitReached` when the bucket is empty."""
        now = time.monotonic()
        tokens, refilled_at = self._buckets.pop(name, (self._capacity, now))
        tokens = min(self._capacity, tokens + (now - refilled_at) * self._rate)
        self._buckets[name] = (tokens, now)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if tokens < 1:
            raise LimitReached(
                self._message,
                retry_after=timedelta(seconds=(1 - tokens) / self._rate),
                code=self._code,
            )


class PushLimits:
    """Limits pushes of tools: wrong proofs per address, right ones per connector."""

    def __init__(self, *, failures: float = 60, accepted: float = 600) -> None:
        self._failures = RateLimiter(failures, message=_PUSH_MESSAGE, code="too_many_pushes")
        self._accepted = RateLimiter(accepted, message=_PUSH_MESSAGE, code="too_many_pushes")

    def take_failure(self, address: str) -> None:
        """Count a push with a wrong proof. Raises `LimitReached` after too many."""
        self._failures.take(address)

    def take(self, connector: str) -> None:
        """Count a push with a right proof. Raises `LimitReached` after too many."""
        self._accepted.take(connector)


class SignInLimits:
    """Slows down guessing: failed sign-ins are counted per address, and per key by the part of it that is no secret.

    Sign-ins with a password are counted before the password is checked, so that many at once are no way around: per address, per
    account and address, and per account. The last of these is generous: it bounds guessing from many addresses, and makes locking
    a person out as hard as that."""

    def __init__(self, *, per_address: float = 60, per_key: float = 30) -> None:
        def limiter(per_minute: float, capacity: float) -> RateLimiter:
            return RateLimiter(
                per_minute, capacity=capacity, message=_SIGN_IN_MESSAGE, code="too_many_sign_ins"
            )

        self._attempts, self._accounts = limiter(6, 10), limiter(60, 60)
        self._attempt_addresses, self._redirects = limiter(120, 60), limiter(600, 100)
        self._addresses = RateLimiter(per_address, message=_SIGN_IN_MESSAGE, code="too_many_sign_ins")
        self._keys = RateLimiter(per_key, message=_SIGN_IN_MESSAGE, code="too_many_sign_ins")

    def check(self, address: str, key_prefix: str) -> None:
        """Raise `LimitReached` after too many failures."""
        self._addresses.check(address)
        self._keys.check(key_prefix)

    def record_failure(self, address: str, key_prefix: str) -> None:
        """Count a sign-in with a wrong key."""
        self._addresses.take(address)
        self._keys.take(key_prefix)

    def take_attempt(self, address: str, account: str) -> None:
        """Count a sign-in with a password. Raises `LimitReached` after too many."""
        self._attempt_addresses.take(address)  # many people may share one
        self._attempts.take(f"{address} {account.lower()}")
        self._accounts.take(account.lower())

    def take_redirect(self, address: str) -> None:
        """Count a sign-in that goes to the OpenID provider. Raises `LimitReached` after too many."""
        self._redirects.take(address)
