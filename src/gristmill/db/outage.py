"""Waiting out what is away: without a busy loop, and with two log lines, not two thousand."""

import logging
import random
import time
from datetime import timedelta

from gristmill import clock

_FIRST_WAIT = timedelta(milliseconds=50)
_LONGEST_WAIT = timedelta(seconds=2)
_REMIND_EVERY = 30.0


class Outage:
    """One outage at a time, however many loops notice it."""

    def __init__(self, log: logging.Logger, resource: str) -> None:
        self._log, self._resource = log, resource
        self._since: float | None = None
        self._logged_at = 0.0
        self._wait = _FIRST_WAIT

    async def wait(self, reason: str) -> None:
        """Tell it if that was not done yet, and let some time pass: more each time, never the same."""
        now = time.monotonic()
        if self._since is None or now - self._logged_at > _REMIND_EVERY:
            self._logged_at = now
            self._log.warning(f"waiting for {self._resource}", extra={"reason": reason})
        if self._since is None:
            self._since = now
        await clock.pause(self._wait * (0.5 + random.random() / 2))  # noqa: S311
        self._wait = min(self._wait * 2, _LONGEST_WAIT)

    def clear(self) -> None:
        """It is there again."""
        if self._since is not None:
            self._log.warning(f"{self._resource} is back", extra={"after": time.monotonic() - self._since})
            self._since, self._wait = None, _FIRST_WAIT
