"""Helpers around the async iterators that connectors yield batches with."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from gristmill.connectors.port import Batch, Stream
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import SourceGone, Unreadable

Step = TypeVar("Step")


async def errors_as_problems(stream: Stream, batches: AsyncIterator[Batch]) -> AsyncGenerator[Batch]:
    """The batches of a stream. If the stream is closed to the credentials, or the tool returns something unexpected, its
    last batch says so, and the run goes on with the next stream."""
    try:
        async for batch in batches:
            yield batch
    except CredentialsRejected:
        raise
    except (SourceGone, Unreadable) as error:
        yield Batch(stream, problem=f"{error.message} ({error.code})")


async def closable(steps: AsyncIterator[Step]) -> AsyncGenerator[Step]:
    """The same steps as a generator that can be closed: leaving it early closes what the connector has open."""
    try:
        async for step in steps:
            yield step
    finally:
        if isinstance(steps, AsyncGenerator):
            await steps.aclose()
