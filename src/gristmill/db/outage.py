"""Keeps a loop alive while something it needs is away: growing pauses, and two log lines instead of two thousand."""

import logging
import random
import time
from datetime import timedelta

from gristmill import clock
from gristmill.errors import Transient

_FIRST_WAIT = timedelta(milliseconds=50)
_LONGEST_WAIT = timedelta(seconds=2)
_REMIND_EVERY = 30.0


class DatabaseUnavailable(Transient):
    """The database does not answer at the moment."""

    code = "database_unavailable"


class Outage:
    """One outage at a time, however many loops notice it."""

    def __init__(self, log: logging.Logger, resource: str) -> None:
        self._log, self._resource = log, resource
        self._since: float | None = None
        self._logged_at = 0.0
        self._wait = _FIRST_WAIT

    async def wait(self, reason: str) -> None:
        """Log the outage unless that was done, and pause: longer each time, with jitter."""
        if self._must_log():
            self._log.warning(f"waiting for {self._resource}", extra={"reason": reason})
        await self._pause()

    async def wait_unexpected(self, error: Exception) -> None:
        """The same for an unexpected error: its traceback is logged once per outage."""
        first = self._since is None
        if self._must_log():
            extra = {"reason": first_line(error)}
            self._log.error(
                f"{self._resource} failed unexpectedly", exc_info=error if first else None, extra=extra
            )
        await self._pause()

    def clear(self) -> None:
        """Log the end of the outage, if there was one."""
        if self._since is not None:
            self._log.warning(f"{self._resource} is back", extra={"after": time.monotonic() - self._since})
            self._since, self._wait = None, _FIRST_WAIT

    def _must_log(self) -> bool:
        now = time.monotonic()
        if self._since is not None and now - self._logged_at <= _REMIND_EVERY:
            return False
        self._logged_at = now
        self._since = now if self._since is None else self._since
        return True

    async def _pause(self) -> None:
        await clock.pause(self._wait * (0.5 + random.random() / 2))  # noqa: S311
        self._wait = min(self._wait * 2, _LONGEST_WAIT)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its class when it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
