"""When a container or document is checked next, by how its last check ended."""

import random
from datetime import datetime

from gristmill.catalog.refresh import DueItem, SourceCheck
from gristmill.errors import GristmillError, Transient
from gristmill.operations.refresh_rule import parse_rule


def after_check(item: DueItem, now: datetime, *, is_changed: bool) -> SourceCheck:
    """After a check that could see the source."""
    unchanged = 0 if is_changed else min(max(item.unchanged, 0) + 1, 1000)
    delay = parse_rule(item.rule).next_check(now, unchanged, random.random())  # noqa: S311
    return SourceCheck(item.id, delay, unchanged)


def after_failure(item: DueItem, now: datetime, error: GristmillError) -> SourceCheck:
    """After a check that could not. Failures are counted below zero, until a check succeeds. A server that says when it wants to be asked
    again is not asked before."""
    failures = max(0, -item.unchanged)
    delay = parse_rule(item.rule).retry_check(now, failures, random.random())  # noqa: S311
    if delay is not None and isinstance(error, Transient) and error.retry_after is not None:
        delay = max(delay, error.retry_after)
    return SourceCheck(item.id, delay, -min(failures + 1, 20), error.code, error.message)
