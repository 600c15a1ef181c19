"""Reading what a connector yields, to its end or not."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from gristmill.connectors.port import Batch, Stream
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import SourceGone, Unreadable

Step = TypeVar("Step")


async def errors_as_problems(stream: Stream, batches: AsyncIterator[Batch]) -> AsyncGenerator[Batch]:
    """The batches of a stream. One that is closed to the credentials, or not as described, is a problem of its own: the
    run goes on with the next."""
    try:
        async for batch in batches:
            yield batch
    except CredentialsRejected:
        raise
    except (SourceGone, Unreadable) as error:
        yield Batch(stream, problem=f"{error.message} ({error.code})")


async def closable(steps: AsyncIterator[Step]) -> AsyncGenerator[Step]:
    """The same as a generator that can be closed, so that leaving early lets go of what the connector has open."""
    try:
        async for step in steps:
            yield step
    finally:
        if isinstance(steps, AsyncGenerator):
            await steps.aclose()
