"""Helpers around what connectors follow, and the async iterators that they yield batches with."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from gristmill.connectors.port import Batch, Stream, scope_problems
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import SourceGone, Unreadable

Step = TypeVar("Step")


class FollowedNames:
    """The names in a configuration (repositories, projects, spaces) that the tool does not show, or refuses to show. The others are
    read all the same: one that is blocked must not keep the rest from being followed, nor their permissions from being refreshed."""

    def __init__(self, kind: str, settings: str) -> None:
        self._kind, self._settings = kind, settings
        self._missing: list[str] = []
        self._refused: dict[str, Unreadable] = {}

    def note_missing(self, name: str) -> None:
        """The tool has no such name. Its documents are verified, and pruned."""
        self._missing.append(name)

    @contextmanager
    def looking_up(self, name: str) -> Generator[None]:
        """Note why a name can't be followed, if it can't."""
        try:
            yield
        except SourceGone:
            self.note_missing(name)
        except Unreadable as error:
            self._refused[name] = error

    def require_any(self, scopes: Collection[object]) -> None:
        """Raise why nothing can be followed, if all names were refused: then it is not about one of them."""
        if not scopes and self._refused:
            raise next(iter(self._refused.values()))

    def problems(self, scopes: Collection[object]) -> list[str]:
        """Sentences about names that can't be followed, and about a configuration that follows nothing."""
        refused = [
            f"The {self._kind} {name} can't be read: {error.message} ({error.code})"
            for name, error in self._refused.items()
        ]
        missing = scope_problems(
            self._kind, self._missing, is_empty=not scopes and not refused, settings=self._settings
        )
        return [*missing, *refused]


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
