"""read: one local file to parts, embedded documents, assets and a report.

    plain text in UTF-8        streamed here, in a thread: decoding can't hurt
    everything else            in a child of the pool; what was yielded before it died is kept

    the child …                 nothing yielded yet              pages were read already
    refuses the document        raises, with its code            raises
    crashes, hangs, grows       tried again behind the page      the same; after three lost pages, the report says
                                that it died in                  `partial:read/total` and what ended it
    is killed from outside      raises Transient                 as above

A document that is not paged is read whole or not at all. Cancelling, or closing the iterator, kills the child at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from gristmill.errors import GristmillError, NoText, Transient, Unreadable, Unsupported
from gristmill.readers import plain_text
from gristmill.readers.pool import ReaderDied, ReaderPool, ReaderProcess
from gristmill.readers.protocol import Message
from gristmill.readers.results import (
    MIB,
    Asset,
    AttachedFile,
    ReadBudget,
    ReadLimits,
    ReadReport,
    ReadResult,
    TextPart,
)

_MAX_LOST_PAGES = 3
_MAX_DEATHS = 10

_ERROR_CLASSES: dict[str, type[GristmillError]] = {
    "unsupported_type": Unsupported,
    "no_text": NoText,
    "disk_full": Transient,
}
_MESSAGES = {
    "reader_crashed": "The reader crashed on it; the file is likely damaged or made to harm.",
    "reader_timeout": "Reading it took longer than its size allows; split it, or simplify it.",
    "reader_out_of_memory": "Reading it took more memory than its size allows; split it.",
    "reader_killed": "The reader was killed from outside, perhaps because the machine ran out of memory.",
}


@dataclass
class _ReadProgress:
    """How far the reading of one document has come, over all children that took part in it."""

    after_page: int
    page: int = 0  # the one that is being read
    finished: int = 0  # the last one whose text came through whole
    total: int | None = None
    characters: int = 0
    read: int = 0  # pages that earlier children finished
    lost: list[int] = field(default_factory=list[int])
    deaths: list[str] = field(default_factory=list[str])  # what ended each of them


async def read_file(
    pool: ReaderPool,
    path: Path,
    *,
    name: str,
    media_type: str | None,
    scratch: Path,
    limits: ReadLimits,
    resume_after_page: int = 0,
) -> AsyncGenerator[ReadResult]:
    """What the file holds, in order; the last is a `Report`. Use it with `contextlib.aclosing`."""
    path, scratch = await asyncio.to_thread(lambda: (path.absolute(), scratch.absolute()))
    size = (await asyncio.to_thread(path.stat)).st_size
    if size == 0:
        yield ReadReport(warnings=["empty"], kind="empty")
        return
    budget = limits.budget(size)
    shape = await asyncio.to_thread(plain_text.inspect_file, path, name, media_type)
    if shape is not None:
        async with contextlib.aclosing(plain_text.read(path, shape, budget.output)) as results:
            async for result in results:
                yield result
        return
    document = _DocumentInput(path, name, media_type, scratch, limits, budget)
    progress = _ReadProgress(after_page=resume_after_page, read=resume_after_page)
    while True:
        try:
            async with contextlib.aclosing(_read_with_one_process(pool, document, progress)) as results:
                async for result in results:
                    yield result
            return
        except ReaderDied as death:
            report = _handle_death(name, death, progress)
        if report is not None:
            yield report
            return


def _handle_death(name: str, death: ReaderDied, progress: _ReadProgress) -> ReadReport | None:
    """A report of what was read; None when the next child should go on behind the page it happened on."""
    if progress.page:
        page_complete = progress.finished == progress.page
        progress.read += progress.page - progress.after_page - (not page_complete)
        if not page_complete:
            progress.lost.append(progress.page)
        progress.deaths.append(death.code)
        progress.after_page, progress.page = progress.page, 0
        must_continue = len(progress.lost) <= _MAX_LOST_PAGES and len(progress.deaths) <= _MAX_DEATHS
        if must_continue and progress.after_page < (progress.total or 0):
            return None
    if progress.read > 0:
        return ReadReport(
            warnings=[f"partial:{progress.read}/{progress.total}", death.code],
            pages_total=progress.total,
            pages_read=progress.read,
        )
    if death.code == "reader_killed":
        raise Transient(f"{name}: {_MESSAGES[death.code]}", code="reader_killed")
    raise Unreadable(f"{name}: {_MESSAGES[death.code]} ({death.detail})", code=death.code)


@dataclass(frozen=True)
class _DocumentInput:
    """What is to be read, and within which limits."""

    path: Path
    name: str
    media_type: str | None
    scratch: Path
    limits: ReadLimits
    budget: ReadBudget

    def task(self, progress: _ReadProgress) -> dict[str, Any]:
        """What a child is told, which goes on from `progress`."""
        limits, budget = self.limits, self.budget
        return {
            "path": str(self.path),
            "name": self.name,
            "media_type": self.media_type,
            "scratch": str(self.scratch),
            "after_page": progress.after_page,
            "memory": budget.memory,
            "ocr_memory": limits.ocr_memory_mb * MIB,
            "cpu_seconds": budget.cpu_seconds,
            "output": max(0, budget.output - progress.characters),
            "embedded_bytes": budget.embedded_bytes,
            "embedded_files": limits.embedded_files,
            "depth": limits.depth,
            "ocr": limits.ocr,
            "ocr_pages": limits.ocr_pages,
        }


async def _read_with_one_process(
    pool: ReaderPool, document: _DocumentInput, progress: _ReadProgress
) -> AsyncGenerator[ReadResult]:
    """One child's share of the document."""
    characters_before = progress.characters
    async with pool.lease_process() as child, AsyncExitStack() as ocr_slot:
        # Only a child that came to the end of its document is used again.
        documents, child.documents = child.documents, -1
        await child.send({"k": "read", "task": document.task(progress)})
        clock = _TimeBudget(document.budget, document.limits)
        while True:
            message = await clock.next_message(child, progress)
            kind = message.get("k")
            if kind in ("report", "error"):
                child.documents = documents
                pool.recycle(child, int(message["rss"]))
                if kind == "error":
                    _raise_refusal(document.name, message)
                yield _report_from(message, progress)
                return
            if kind == "ocr":
                await ocr_slot.enter_async_context(pool.reserve_ocr(child))
                await child.send({"k": "go"})
            elif (result := _result_from(message, characters_before, progress)) is not None:
                yield result


class _TimeBudget:
    """The time a document may take: for each step, and in all; only while we wait for the child."""

    def __init__(self, budget: ReadBudget, limits: ReadLimits) -> None:
        self._stall_seconds, self._remaining_seconds = budget.stall_seconds, budget.wall_seconds
        self._seconds_per_page = limits.per_page.total_seconds()

    async def next_message(self, child: ReaderProcess, progress: _ReadProgress) -> Message:
        """The child's next message, or ChildDied once it has taken too long."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            message = await child.receive(min(self._stall_seconds, max(self._remaining_seconds, 0.001)))
        except TimeoutError:
            raise ReaderDied(
                f"no sign of life for {loop.time() - started:.0f} s", code="reader_timeout"
            ) from None
        self._remaining_seconds -= loop.time() - started
        if message.get("k") == "at":
            progress.page, progress.total = int(message["page"]), message["of"]
            self._remaining_seconds += self._seconds_per_page
        return message


def _result_from(message: Message, characters_before: int, progress: _ReadProgress) -> ReadResult | None:
    match message["k"]:
        case "part":
            progress.characters += len(message["text"])
            if message["last"]:
                progress.finished = message["page"] or 0
            return TextPart(message["text"], message["page"])
        case "embedded":
            return AttachedFile(message["name"], Path(message["path"]), message["type"])
        case "asset":
            return Asset(
                message["hash"],
                Path(message["path"]),
                message["type"],
                message["page"],
                characters_before + message["start"],
                message["kind"],
                message["text"],
                message["small"],
            )
        case _:
            return None


def _report_from(message: Message, progress: _ReadProgress) -> ReadReport:
    total, pages_read, warnings = message["total"], message["read"], list(message["warnings"])
    if total is not None and pages_read is not None:
        pages_read -= len(progress.lost)
        if pages_read < total:
            warnings = [f"partial:{pages_read}/{total}", *dict.fromkeys(progress.deaths), *warnings]
    return ReadReport(
        title=message["title"],
        language=message["language"],
        metadata=message["metadata"],
        warnings=warnings,
        pages_total=total,
        pages_read=pages_read,
        kind=message["kind"],
        ocr_hashes=list(message["recognised"]),
    )


def _raise_refusal(name: str, message: Message) -> NoReturn:
    code, detail = str(message["code"]), str(message["message"])
    raise _ERROR_CLASSES.get(code, Unreadable)(f"{name}: {detail or _MESSAGES.get(code, code)}", code=code)
