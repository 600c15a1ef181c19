"""Fetches the documents of many list entries: several requests at a time, results in order.

one document can't be read               a ReadFailure, and the rest goes on
the connector fails at one document      the same: a mistake of a connector, or a field that its tool left out, must not keep out all others.
                                         The server's log has the details
three in a row get no response           the tool is down, not the documents: stop before the first of them
a rate limit, or rejected credentials    stop there, and keep what was read before
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from gristmill import clock
from gristmill.connectors.port import Connector, Document, DocumentRef, ReadFailure
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import GristmillError, Permanent, SourceGone, Transient, Unreadable

log = logging.getLogger(__name__)

CONCURRENCY = 6  # requests at a time: well below what any tool objects to
_OUTAGE_THRESHOLD = 3
# What code raises that expects other data.
_MISTAKES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)

EntryT = TypeVar("EntryT")


@dataclass
class FetchResult(Generic[EntryT]):
    """What was read: each of the first `handled` entries is among the documents or failures, or is gone. `later_documents` were
    read of entries behind the one that stopped it: whoever goes on from a position reads them again."""

    documents: list[Document] = field(default_factory=list[Document])
    later_documents: list[Document] = field(default_factory=list[Document])
    failures: list[ReadFailure] = field(default_factory=list[ReadFailure])
    handled: int = 0
    stopped_by: GristmillError | None = None


async def fetch_with_companions(connector: Connector, ref: DocumentRef) -> list[Document]:
    """A document, and those that it comes with: they are read together or not at all."""
    documents = [await connector.fetch(ref)]
    for source_id in connector.companion_ids(ref):
        with suppress(SourceGone):
            documents.append(await connector.fetch(replace(ref, source_id=source_id)))
    return documents


async def fetch_all(
    entries: Sequence[EntryT],
    ref_of: Callable[[EntryT], DocumentRef],
    fetch: Callable[[EntryT], Awaitable[Sequence[Document]]],
) -> FetchResult[EntryT]:
    """The documents of these entries, in order, up to an error that stops it."""
    slots = asyncio.Semaphore(CONCURRENCY)
    stop = asyncio.Event()

    async def fetch_one(entry: EntryT) -> Sequence[Document] | GristmillError:
        async with slots:
            if stop.is_set():
                return Transient("Not requested.")
            try:
                return await fetch(entry)
            except GristmillError as error:
                if isinstance(error, RateLimited | CredentialsRejected):
                    stop.set()
                return error
            except _MISTAKES as error:
                document = ref_of(entry).source_id
                log.exception("a connector could not read a document", extra={"document": document})
                reason = f"The connector does not understand what the tool returned ({type(error).__name__})."
                return Unreadable(f"{reason} The server's log has the details.", code="connector_refused")

    tasks = [asyncio.ensure_future(fetch_one(entry)) for entry in entries]
    try:
        outcomes = await asyncio.gather(*tasks)
    finally:  # after a bug in one, or a cancel: the other requests must not go on
        await clock.cancel_tasks(tasks)
    return _collect_outcomes(entries, ref_of, outcomes)


def _collect_outcomes(
    entries: Sequence[EntryT],
    ref_of: Callable[[EntryT], DocumentRef],
    outcomes: Sequence[Sequence[Document] | GristmillError],
) -> FetchResult[EntryT]:
    result = FetchResult[EntryT]()
    unanswered: list[ReadFailure] = []  # the last failures in a row without a response
    for entry, outcome in zip(entries, outcomes, strict=True):
        match outcome:
            case RateLimited() | CredentialsRejected():
                result.stopped_by = outcome
            case SourceGone():
                unanswered.clear()
            case Permanent():
                unanswered.clear()
                result.failures.append(ReadFailure(ref_of(entry), outcome.code, outcome.message))
            case Transient():
                failure = ReadFailure(ref_of(entry), outcome.code, outcome.message)
                unanswered.append(failure)
                result.failures.append(failure)
                if len(unanswered) == _OUTAGE_THRESHOLD:
                    result.handled -= _OUTAGE_THRESHOLD - 1
                    result.failures = result.failures[: len(result.failures) - _OUTAGE_THRESHOLD]
                    result.stopped_by = outcome
            case GristmillError():
                raise outcome
            case _:
                unanswered.clear()
                result.documents += outcome
        if result.stopped_by is not None:
            break
        result.handled += 1
    for outcome in outcomes[result.handled :]:
        result.later_documents += () if isinstance(outcome, GristmillError) else outcome
    return result
