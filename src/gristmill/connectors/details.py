"""Reading the details of many things at once, in order: some requests beside each other, and what fails is told apart.

one can't be read                          a Failure, and the rest goes on
three in a row fail for want of an answer  the tool is down, not the documents: stop before the first of them
a limit, refused credentials               stop there: what was read before is kept
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gristmill.connectors.connector import Document, Failure, Ref
from gristmill.connectors.transport import RateLimited, Unauthorized
from gristmill.errors import Gone, GristmillError, Permanent, Transient

WIDTH = 6  # requests beside each other: well below what any tool minds
_IN_A_ROW = 3

Thing = TypeVar("Thing")


@dataclass
class Read(Generic[Thing]):
    """What was read: of the first `reached` things, each is among the documents or failures, or is gone."""

    documents: list[Document] = field(default_factory=list[Document])
    failures: list[Failure] = field(default_factory=list[Failure])
    reached: int = 0
    stopped: GristmillError | None = None


async def in_order(
    things: Sequence[Thing],
    ref: Callable[[Thing], Ref],
    detail: Callable[[Thing], Awaitable[Sequence[Document]]],
) -> Read[Thing]:
    """The documents of these things, in order, up to what stops it."""
    room = asyncio.Semaphore(WIDTH)
    stop = asyncio.Event()

    async def one(thing: Thing) -> Sequence[Document] | GristmillError:
        async with room:
            if stop.is_set():
                return Transient("Not asked for.")
            try:
                return await detail(thing)
            except GristmillError as error:
                if isinstance(error, RateLimited | Unauthorized):
                    stop.set()
                return error

    return _sorted(things, ref, await asyncio.gather(*(one(thing) for thing in things)))


def _sorted(
    things: Sequence[Thing],
    ref: Callable[[Thing], Ref],
    outcomes: Sequence[Sequence[Document] | GristmillError],
) -> Read[Thing]:
    read = Read[Thing]()
    silent: list[Failure] = []  # the last ones, all for want of an answer
    for thing, outcome in zip(things, outcomes, strict=True):
        match outcome:
            case RateLimited() | Unauthorized():
                read.stopped = outcome
            case Gone():
                silent.clear()
            case Permanent():
                silent.clear()
                read.failures.append(Failure(ref(thing), outcome.code, outcome.message))
            case Transient():
                failure = Failure(ref(thing), outcome.code, outcome.message)
                silent.append(failure)
                read.failures.append(failure)
                if len(silent) == _IN_A_ROW:
                    read.reached -= _IN_A_ROW - 1
                    read.failures = read.failures[: len(read.failures) - _IN_A_ROW]
                    read.stopped = outcome
            case GristmillError():
                raise outcome
            case _:
                silent.clear()
                read.documents += outcome
        if read.stopped is not None:
            return read
        read.reached += 1
    return read
