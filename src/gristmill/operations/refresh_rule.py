"""When a source is checked again. Pure: the caller passes the time, how often nothing had changed, and a random number.

    {"every": "1d"}       after that time: minutes (m), hours (h), days (d) or weeks (w), at least a minute
    {"every": "never"}    never, though the container or the base has a rule
    {"cron": "0 6 * * *"} at these times, in UTC

Checks by `every` are spread: the first one is due after half of the time to all of it, later ones a tenth earlier or later, so
that a hundred thousand pages that were added together are not fetched together. A source that did not change in `PATIENCE`
checks in a row is checked half as often, and after as many more a quarter as often; a change makes it as often as before. A
check that failed for a reason that may pass is repeated after minutes, not after the whole time.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gristmill.catalog.refresh import FirstCheck
from gristmill.errors import Invalid
from gristmill.jobs import next_time

NEVER = "never"
PATIENCE = 4  # checks without a change before there are fewer
MAX_SLOWDOWN = 4  # times the rule's own interval
RETRY_DELAY = timedelta(minutes=5)  # after a check that failed, doubled for each further one
_MAX_RETRY_DELAY = timedelta(hours=6)
_MIN_INTERVAL, _MAX_INTERVAL = timedelta(minutes=1), timedelta(days=366)
_CRON_SPREAD = timedelta(seconds=30)
_JITTER = 0.1
_INTERVAL = re.compile(r"([1-9][0-9]{0,6})([mhdw])")
_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


@dataclass(frozen=True)
class RefreshRule:
    """When a source is checked: after an interval, or at the times of a cron expression; with neither, never."""

    every: timedelta | None = None
    cron: str | None = None

    def first_check(self, rule: Mapping[str, Any], now: datetime) -> FirstCheck:
        """When the first check of a source is due."""
        if self.every is not None:
            return FirstCheck(rule, self.every / 2, self.every / 2)
        if self.cron is not None:
            return FirstCheck(rule, next_time(self.cron, now) - now, _CRON_SPREAD)
        return FirstCheck(rule, None, timedelta())

    def next_check(self, now: datetime, unchanged: int, random: float) -> timedelta | None:
        """How long until the next check, after `unchanged` checks in a row without a change; None: there is none."""
        if self.cron is not None:
            return next_time(self.cron, now) - now + _CRON_SPREAD * random
        if self.every is None:
            return None
        slowdown = min(MAX_SLOWDOWN, 2 ** min(unchanged // PATIENCE, 10))
        return self.every * slowdown * (1 + _JITTER * (2 * random - 1))

    def retry_check(self, now: datetime, failures: int, random: float) -> timedelta | None:
        """How long until a check that failed is repeated: minutes at first, never longer than the rule itself says."""
        delay = min(RETRY_DELAY * 2 ** min(failures, 10), _MAX_RETRY_DELAY) * (1 + _JITTER * random)
        regular = self.next_check(now, 0, random)
        return None if regular is None else min(delay, regular)


def parse_rule(rule: Mapping[str, Any]) -> RefreshRule:
    """The rule of a JSON object; Invalid if it is none."""
    match rule:
        case {"every": "never"} if len(rule) == 1:
            return RefreshRule()
        case {"every": str(text)} if len(rule) == 1 and (match := _INTERVAL.fullmatch(text)) is not None:
            interval = int(match[1]) * _UNITS[match[2]]
            if _MIN_INTERVAL <= interval <= _MAX_INTERVAL:
                return RefreshRule(every=interval)
        case {"cron": str(cron)} if len(rule) == 1:
            next_time(cron, datetime.now(UTC))
            return RefreshRule(cron=cron)
        case _:
            pass
    raise Invalid(
        '`refresh` must be an interval such as {"every": "1d"} (m, h, d or w; at most 366d), {"every": "never"}, or '
        'a time such as {"cron": "0 6 * * *"}.',
        code="invalid_refresh",
    )
