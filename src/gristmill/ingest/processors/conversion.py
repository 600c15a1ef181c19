"""One conversion: started once, polled with growing pauses, and given up when it makes no progress.

    pauses        5 s, then 1.5 times longer each time, at most a minute; progress resets the pause to 5 s
    deadline      30 minutes of pauses without progress: cancelled, `conversion_timeout`
    failed        `conversion_failed`, with the service's message

A `Conversion` is all the state there is. It contains no clock: it sums up the pauses it asked for. So a job can snooze
between two checks without occupying a slot.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from gristmill.errors import Permanent
from gristmill.ingest.processors.processor import Processor

FIRST_PAUSE, MAX_PAUSE, GROWTH = timedelta(seconds=5), timedelta(minutes=1), 1.5
DEADLINE = timedelta(minutes=30)


@dataclass(frozen=True)
class Conversion:
    """A running conversion, as it is stored between two checks."""

    remote_id: str
    checks: int = 0  # since the last progress
    waited: timedelta = timedelta(0)  # since the last progress
    progress: float = 0.0
    position: int | None = None


def pause_before_check(conversion: Conversion) -> timedelta:
    """The pause before the next check."""
    seconds = FIRST_PAUSE.total_seconds() * GROWTH ** min(conversion.checks, 20)
    return min(timedelta(seconds=seconds), MAX_PAUSE)


async def check_conversion(processor: Processor, conversion: Conversion) -> Conversion | str:
    """Poll once. Returns the markdown if the conversion is done, else its new state. Raises if it failed or timed out."""
    state = await processor.poll(conversion.remote_id)
    if state.kind == "done":
        return await processor.fetch(conversion.remote_id)
    if state.kind == "failed":
        raise Permanent(
            f"The file processor could not convert the file: {state.message or 'it gave no reason'}.",
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
            f"The file processor made no progress for {DEADLINE.total_seconds() / 60:g} minutes, and was stopped. "
            "Re-index the item to try again.",
            code="conversion_timeout",
        )
    return replace(conversion, checks=conversion.checks + 1, waited=waited)
