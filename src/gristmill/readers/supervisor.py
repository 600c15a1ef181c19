"""read_file: reads one local file, and continues with another child process when one dies.

    plain text in UTF-8        streamed in a thread of this process (`plain_text.py`)
    everything else            in a child of the pool; what was yielded before it died is kept

    the child …                 nothing yielded yet              pages were read already
    refuses the document        raises, with its code            raises
    crashes, grows              continues after the page that    the same; after three lost pages, the report says
                                it died on                       `partial:read/total` and the cause
    hangs, takes too long       begins the page, or a document without pages, once more; after that as above
    gets no CPU time            raises Transient: on a less busy machine it can be read
    is killed from outside      raises Transient                 continues after the page
    has had its turn            continues in another child, after the documents that wait
    needs OCR                   continues in a child for OCR, when it is its base's turn; from there on it yields after
                                every page that another base waits for

A document without pages is read completely or not at all. Cancelling, or closing the iterator, kills the child at once.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from gristmill.errors import GristmillError, NoText, Transient, Unreadable, Unsupported
from gristmill.readers import plain_text, text_boxes
from gristmill.readers.pool import ReaderDied, ReaderPool, ReaderProcess
from gristmill.readers.processor_time import StepClock
from gristmill.readers.protocol import Message
from gristmill.readers.results import (
    MIB,
    Asset,
    AttachedFile,
    DocumentFields,
    ReadBudget,
    ReadLimits,
    ReadReport,
    ReadResult,
    TextPart,
)
from gristmill.stage_gate import ANYBODY, Requester

_LOOKS_PER_LIMIT = 10  # how often the CPU time of a silent child is looked at
_MAX_LOST_PAGES = 3
_MAX_DEATHS = 10

_ERROR_CLASSES: dict[str, type[GristmillError]] = {
    "unsupported_type": Unsupported,
    "no_text": NoText,
    "disk_full": Transient,
}
_MESSAGES = {
    "reader_crashed": "The reader crashed. The file is probably damaged, or made to do harm.",
    "reader_timeout": "Reading took longer than a file of this size may take. Split the file, or simplify it.",
    "reader_out_of_memory": "Reading took more memory than a file of this size may use. Split the file.",
    "reader_killed": "The reader was killed from outside, perhaps because the machine ran out of memory.",
}
_STARVED = "The machine is too busy to read it. It is tried again later."


@dataclass
class _ReadProgress:
    """How far one document has been read, by all children together."""

    after_page: int
    first_page: int = 0  # that was finished before this document was opened
    page: int = 0  # that is being read
    page_start: int = 0  # where its text begins, in characters
    retried: set[int] = field(default_factory=set[int])  # pages that were begun once more; 0: the document
    finished: int = 0  # the last page whose text arrived completely
    total: int | None = None
    characters: int = 0
    read: int = 0  # pages that earlier children finished
    lost: list[int] = field(default_factory=list[int])
    deaths: list[str] = field(default_factory=list[str])  # the cause of each
    is_complete: bool = False
    needs_ocr: bool = False
    carried: dict[str, Any] = field(
        default_factory=dict[str, Any]
    )  # from the child that was postponed to the next
    repeated: int = 0  # characters that the next child yields again

    def postpone(self, message: Message) -> None:
        """The child stopped before a page that needs OCR or that is for its next turn, or before the images of a whole document
        without text."""
        self.needs_ocr = self.needs_ocr or message["needs_ocr"]
        self.carried = message["carried"]
        if message["from_start"]:
            self.after_page, self.read, self.repeated = self.first_page, self.first_page, self.characters
        else:
            self._go_before_page()
        self.page = 0

    def retry_page(self) -> None:
        """Let the next child begin the page once more, or the document if it has no pages. What was yielded of it is not
        yielded again."""
        self.retried.add(self.page)
        if self.page:
            self._go_before_page()
            self.carried = {**self.carried, "is_resumed": True}
        self.repeated = self.characters - self.page_start
        self.page = 0

    def _go_before_page(self) -> None:
        self.read += self.page - 1 - self.after_page
        self.after_page = self.page - 1


async def read_file(
    pool: ReaderPool,
    path: Path,
    *,
    name: str,
    media_type: str | None,
    scratch: Path,
    limits: ReadLimits,
    resume_after_page: int = 0,
    requester: Requester = ANYBODY,
    is_image: bool = False,
) -> AsyncGenerator[ReadResult]:
    """Yield what the file contains, in order; the last result is a `ReadReport`. Use it with `contextlib.aclosing`. A child is
    leased on behalf of `requester`; one for OCR at once, if the caller knows that the file is an image."""
    path, scratch = await asyncio.to_thread(lambda: (path.absolute(), scratch.absolute()))
    size = (await asyncio.to_thread(path.stat)).st_size
    if size == 0:
        yield ReadReport(warnings=["empty"], kind="empty")
        return
    budget = limits.budget(size)
    plain = await asyncio.to_thread(plain_text.inspect_file, path, name, media_type)
    if plain is not None:
        async with contextlib.aclosing(_read_plain_text(path, plain, budget.max_characters)) as results:
            async for result in results:
                yield result
        return
    document = _DocumentInput(path, name, media_type, scratch, limits, budget)
    progress = _ReadProgress(
        resume_after_page,
        first_page=resume_after_page,
        read=resume_after_page,
        needs_ocr=is_image and limits.ocr,
    )
    while not progress.is_complete:
        report = None
        try:
            results = _read_with_one_process(pool, document, progress, requester)
            async with contextlib.aclosing(results):
                async for result in results:
                    yield result
        except ReaderDied as death:
            report = _handle_death(name, death, progress)
        if report is not None:
            yield report
            return


async def _read_plain_text(
    path: Path, plain: plain_text.PlainText, max_characters: int
) -> AsyncGenerator[TextPart | ReadReport]:
    """The parts of a file in UTF-8, then its report."""
    texts = plain_text.file_texts(path, plain)
    characters, is_blank = 0, True
    while (text := await asyncio.to_thread(next, texts, None)) is not None:
        if not text:
            continue
        characters += len(text)
        if characters > max_characters:
            raise Unreadable(f"It has more than {max_characters:,} characters of text.", code="bomb")
        is_blank = is_blank and not text.strip()
        yield TextPart(text)
    if is_blank:
        raise NoText("It contains spaces and line ends, but no text.")
    yield ReadReport(kind=plain.format.kind)


def _handle_death(name: str, death: ReaderDied, progress: _ReadProgress) -> ReadReport | None:
    """Count the page that the child died on. Returns a report to end with, or None to continue after that page, or with it once
    more if it took too long."""
    if death.is_starved:
        raise Transient(f"{name}: {_STARVED}", code=death.code)
    is_begun = not progress.page or progress.finished != progress.page
    if death.code == "reader_timeout" and is_begun and progress.page not in progress.retried:
        progress.retry_page()
        return None
    if progress.page:
        is_page_complete = progress.finished == progress.page
        progress.read += progress.page - progress.after_page - (not is_page_complete)
        if not is_page_complete:
            progress.lost.append(progress.page)
        progress.deaths.append(death.code)
        progress.after_page, progress.page = progress.page, 0
        progress.carried = {**progress.carried, "is_resumed": True}
        may_continue = len(progress.lost) <= _MAX_LOST_PAGES and len(progress.deaths) <= _MAX_DEATHS
        if may_continue and progress.after_page < (progress.total or 0):
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
    """The document to read, and its limits."""

    path: Path
    name: str
    media_type: str | None
    scratch: Path
    limits: ReadLimits
    budget: ReadBudget

    def task(self, progress: _ReadProgress) -> dict[str, Any]:
        """The task for a child that continues from `progress`: the fields of `sink.ReadTask`."""
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
            "max_characters": max(0, budget.max_characters - progress.characters + progress.repeated),
            "attachment_bytes": budget.attachment_bytes,
            "max_attachments": limits.max_attachments,
            "depth": limits.depth,
            "ocr": limits.ocr,
            "ocr_pages": limits.ocr_pages,
            "carried": progress.carried,
        }


async def _read_with_one_process(
    pool: ReaderPool, document: _DocumentInput, progress: _ReadProgress, requester: Requester
) -> AsyncGenerator[ReadResult]:
    """Yield what one child reads of the document, to its end or to the point where it needs OCR."""
    for_ocr, ocr_pages = progress.needs_ocr, 0
    characters_before = progress.page_start = progress.characters - progress.repeated
    async with pool.lease_process(requester, for_ocr=for_ocr) as child:
        child.must_be_replaced = True  # unless it comes to the end of the document
        await child.send({"k": "read", "task": document.task(progress)})
        time_budget = _TimeBudget(document.budget, document.limits)
        while True:
            message = await time_budget.next_message(child, progress)
            kind = message.get("k")
            if kind in ("report", "error", "postponed"):
                pool.recycle(child, int(message["rss"]), for_ocr=for_ocr)
                if kind == "error":
                    _raise_refusal(document.name, message)
                if kind == "postponed":
                    progress.postpone(message)
                    return
                progress.is_complete = True
                yield _report_from(message, progress)
                return
            if kind == "ocr":
                # The first page of its turn in any case, so that every turn makes progress.
                may_go = for_ocr and not (ocr_pages and pool.must_yield_ocr(requester, ocr_pages))
                ocr_pages += 1
                await child.send({"k": "go" if may_go else "stop"})
            elif kind == "turn":
                must_stop = pool.must_yield(requester, for_ocr=for_ocr)
                await child.send({"k": "stop" if must_stop else "go"})
            elif (result := _result_from(message, characters_before, progress)) is not None:
                yield result


class _TimeBudget:
    """The time a document may take, for each step and in all; it runs only while we wait for the child."""

    def __init__(self, budget: ReadBudget, limits: ReadLimits) -> None:
        self._stall_seconds, self._remaining_seconds = budget.stall_seconds, budget.wall_seconds
        self._seconds_per_page = limits.per_page.total_seconds()

    async def next_message(self, child: ReaderProcess, progress: _ReadProgress) -> Message:
        """The child's next message, or ReaderDied when it takes too long."""
        loop = asyncio.get_running_loop()
        limit = min(self._stall_seconds, max(self._remaining_seconds, 0.001))
        step = StepClock(limit, loop.time(), child.cpu_seconds())
        receiving = asyncio.ensure_future(child.receive())
        try:
            while not (await asyncio.wait([receiving], timeout=limit / _LOOKS_PER_LIMIT))[0]:
                if step.look(loop.time(), child.cpu_seconds()):
                    detail = (
                        f"{step.used:.0f} s of CPU time, no progress for {loop.time() - step.started:.0f} s"
                    )
                    raise ReaderDied(detail, code="reader_timeout", is_starved=step.is_starved)
            message = await receiving
        finally:
            receiving.cancel()
        step.look(loop.time(), child.cpu_seconds())
        self._remaining_seconds -= step.used
        if message.get("k") == "at":
            progress.page, progress.total = int(message["page"]), message["of"]
            progress.page_start = progress.characters - progress.repeated
            self._remaining_seconds += self._seconds_per_page
        return message


def _result_from(message: Message, characters_before: int, progress: _ReadProgress) -> ReadResult | None:
    match message["k"]:
        case "part":
            if message["last"]:
                progress.finished = message["page"] or 0
            text = message["text"]
            repeated = min(progress.repeated, len(text))
            progress.repeated -= repeated
            progress.characters += len(text) - repeated
            boxes = text_boxes.after(base64.b64decode(message.get("boxes", "")), repeated)
            return TextPart(text[repeated:], message["page"], boxes) if text[repeated:] else None
        case "attachment":
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
        case "document":
            return DocumentFields(message["fields"])
        case _:
            return None


def _report_from(message: Message, progress: _ReadProgress) -> ReadReport:
    total, pages_read, warnings = message["pages_total"], message["pages_read"], list(message["warnings"])
    if total is not None and pages_read is not None:
        pages_read -= len(progress.lost)
        if pages_read < total:
            warnings = [f"partial:{pages_read}/{total}", *dict.fromkeys(progress.deaths), *warnings]
    return ReadReport(
        warnings=warnings,
        pages_total=total,
        pages_read=pages_read,
        kind=message["kind"],
        ocr_hashes=list(message["ocr_hashes"]),
    )


def _raise_refusal(name: str, message: Message) -> NoReturn:
    code, detail = str(message["code"]), str(message["message"])
    raise _ERROR_CLASSES.get(code, Unreadable)(f"{name}: {detail or _MESSAGES.get(code, code)}", code=code)
