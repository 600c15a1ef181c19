"""One conversion: started once, asked after with growing pauses, given up when it stands still.

    pauses        5 s, then half as long again each time, at most a minute; progress begins again at 5 s
    deadline      30 minutes of pauses without progress: cancelled, `conversion_timeout`
    failed        `conversion_failed`, with the service's own words

A `Conversion` is all there is to remember, and has no clock in it: it counts the pauses it asked for. So a job can
snooze between two checks and hold no slot meanwhile.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from gristmill.errors import Permanent
from gristmill.ingest.processors.processor import Processor

FIRST_PAUSE, MAX_PAUSE, GROWTH = timedelta(seconds=5), timedelta(minutes=1), 1.5
DEADLINE = timedelta(minutes=30)


@dataclass(frozen=True)
class Conversion:
    """A conversion under way, as it is kept between two checks."""

    remote_id: str
    checks: int = 0  # since the last progress
    waited: timedelta = timedelta(0)  # since the last progress
    progress: float = 0.0
    position: int | None = None


def pause_before_check(conversion: Conversion) -> timedelta:
    """How long to wait before the next check."""
    seconds = FIRST_PAUSE.total_seconds() * GROWTH ** min(conversion.checks, 20)
    return min(timedelta(seconds=seconds), MAX_PAUSE)


async def check_conversion(processor: Processor, conversion: Conversion) -> Conversion | str:
    """Ask once, after the pause: the markdown when it is done, else what to remember. Raises when it is over."""
    state = await processor.poll(conversion.remote_id)
    if state.kind == "done":
        return await processor.fetch(conversion.remote_id)
    if state.kind == "failed":
        raise Permanent(
            f"The file processor could not convert it: {state.message or 'it does not say why'}.",
            code="conversion_failed",
        )
    if state.progress > conversion.progress or state.position != conversion.position:
        return Conversion(
            conversion.remote_id,
            progress=max(state.progress, conversion.progress),
            position=state.position,
        )
    waited = conversion.waited + pause_before_check(conversion)
    if waited >= DEADLINE:
        await processor.cancel(conversion.remote_id)
        raise Permanent(
            f"The file processor made no progress for {DEADLINE.total_seconds() / 60:g} minutes; it was given up.",
            code="conversion_timeout",
        )
    return replace(conversion, checks=conversion.checks + 1, waited=waited)
