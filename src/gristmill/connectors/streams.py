"""Helpers around the async iterators that connectors yield batches with."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TypeVar

from gristmill.connectors.port import Batch, Stream
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import SourceGone, Unreadable

Step = TypeVar("Step")


async def errors_as_problems(stream: Stream, batches: AsyncIterator[Batch]) -> AsyncGenerator[Batch]:
    """The batches of a stream. If the credentials can't read the stream, or the tool returns something unexpected, its
    last batch says so, and the run goes on with the next stream."""
    try:
        async for batch in batches:
            yield batch
    except CredentialsRejected:
        raise
    except (SourceGone, Unreadable) as error:
        yield Batch(stream, problem=f"{error.message} ({error.code})")


def end_outages(batches: Sequence[Batch], *, is_last_attempt: bool) -> list[Batch]:
    """All other streams are read. Raise what kept these from being read, so that the run comes back to them; after the last attempt,
    they are problems of the run."""
    errors = [batch.unavailable for batch in batches if batch.unavailable is not None]
    limits = [error for error in errors if isinstance(error, RateLimited)]
    if limits:
        raise max(limits, key=lambda limit: limit.wait)
    if errors and not is_last_attempt:
        raise errors[0]
    return [
        Batch(batch.stream, problem=f"{error.message} ({error.code})")
        for batch, error in zip(batches, errors, strict=True)
    ]


async def closable(steps: AsyncIterator[Step]) -> AsyncGenerator[Step]:
    """The same steps as a generator that can be closed: leaving it early closes what the connector has open."""
    try:
        async for step in steps:
            yield step
    finally:
        if isinstance(steps, AsyncGenerator):
            await steps.aclose()
