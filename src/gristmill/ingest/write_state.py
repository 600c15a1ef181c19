"""What the write stage knows of each document: what waits to be written, and what has been. Pure.

A document's parts, attachments and assets are written with its next batch of chunks, whichever that is. A batch is the last
one if the document has been read completely and all its other chunks are written: two batches in one transaction may
achieve that together.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gristmill.contents import ContentAsset, ContentAttachment, FinishedVersion, NewContentPart, NewVersion
from gristmill.ingest.task import (
    EmbeddedChunks,
    EmbedTotals,
    EndOfContent,
    IndexTask,
    ReadTotals,
    ReadWindow,
    UnchangedDocument,
    VersionContent,
)
from gristmill.search import Chunk
from gristmill.usage import ItemSpending

_READ_WEIGHT, _WRITE_WEIGHT = 60, 40  # percent: reading and chunking, embedding and writing
Finding = TypeVar("Finding")


class DocumentState:
    """The state of one document in the write stage."""

    def __init__(self, task: IndexTask, content: VersionContent) -> None:
        self.task, self.content = task, content
        self.is_version_saved = False  # whether the row of its version exists
        self.parts: list[NewContentPart] = []  # these three are not written yet
        self.attachments: list[ContentAttachment] = []
        self.assets: list[ContentAsset] = []
        self.unwritten: set[int] = set()  # indexes of the chunks that are not written yet
        self.chunk_count = 0
        self.resumed = 0  # how many of them an earlier attempt wrote
        self.characters = 0
        self.share = 0.0
        self.end: EndOfContent | None = None
        self.document: Mapping[str, Any] = {}  # what it says of itself
        self.read_totals = ReadTotals()
        self.embed_totals = EmbedTotals()
        self.seconds = 0.0

    @property
    def ended(self) -> EndOfContent:
        """The end of the content, which has been read completely."""
        assert self.end is not None
        return self.end

    @property
    def percent(self) -> float:
        """How much is done, below 100."""
        written = (
            1 - len(self.unwritten) / self.chunk_count if self.chunk_count else float(self.end is not None)
        )
        return min(99.0, self.share * (_READ_WEIGHT + _WRITE_WEIGHT * written))

    def add(self, window: ReadWindow) -> None:
        """Note what was read next."""
        for part in window.parts:
            self.parts.append(
                NewContentPart(self.content.digest, self.characters, part.text, part.page, part.boxes)
            )
            self.characters += len(part.text)
        self.attachments += window.attachments
        self.assets += window.assets
        self.unwritten |= {chunk.index for chunk in window.chunks}
        self.chunk_count += len(window.chunks) + window.resumed
        self.resumed += window.resumed
        self.share, self.end, self.read_totals = window.share, window.end, window.totals
        self.document = window.document

    def record(self, write: "PlannedWrite", seconds: float) -> None:
        """Note what a committed transaction has written. More may have been added since it was planned."""
        self.unwritten -= write.indexes
        self.is_version_saved = True
        # By position: another batch of the same document may have written them in the same transaction.
        if write.parts:
            last = write.parts[-1].start
            self.parts = [part for part in self.parts if part.start > last]
        self.attachments = _after_last(self.attachments, write.attachments)
        self.assets = _after_last(self.assets, write.assets)
        self.seconds += seconds


@dataclass(frozen=True)
class PlannedWrite:
    """What one transaction writes of a document."""

    state: DocumentState
    chunks: Sequence[Chunk]
    indexes: frozenset[int]
    parts: Sequence[NewContentPart]
    attachments: Sequence[ContentAttachment]
    assets: Sequence[ContentAsset]
    is_read: bool  # with these parts and those written before, all are stored
    is_last: bool  # with these chunks and those written before, all are stored

    @property
    def task(self) -> IndexTask:
        """The document."""
        return self.state.task

    @property
    def content(self) -> VersionContent:
        """The document's content."""
        return self.state.content


def plan_writes(embedded: Sequence[tuple[EmbeddedChunks, DocumentState]]) -> list[PlannedWrite]:
    """What is to be written, and with which batch each document ends."""
    planned: list[PlannedWrite] = []
    covered: dict[IndexTask, set[int]] = {}
    ended: set[IndexTask] = set()
    for message, state in embedded:
        task = message.task
        state.embed_totals = max(state.embed_totals, message.totals, key=lambda totals: totals.batches)
        indexes = frozenset(chunk.index for chunk in message.chunks)
        written = covered.setdefault(task, set())
        written |= indexes
        is_read = state.end is not None
        is_last = is_read and state.unwritten <= written and task not in ended
        if is_last:
            ended.add(task)
        unsaved = tuple(state.parts), tuple(state.attachments), tuple(state.assets)
        planned.append(PlannedWrite(state, message.chunks, indexes, *unsaved, is_read, is_last))
    return planned


def item_spending(embedded: Sequence[EmbeddedChunks]) -> list[ItemSpending]:
    """What the new vectors of documents cost."""
    return [
        ItemSpending(message.task.item.id, "index", message.spending)
        for message in embedded
        if message.spending is not None
    ]


def version_to_save(write: PlannedWrite) -> NewVersion:
    """The version that a document's chunks are written under, before it is complete."""
    task, content = write.task, write.content
    return NewVersion(
        task.item.id, task.version, content.digest, task.recipe, content.page_blob, dict(content.validators)
    )


def new_version(state: DocumentState) -> FinishedVersion:
    """The version of a document that is complete."""
    task, end = state.task, state.ended
    warnings = list(end.warnings)
    if not state.chunk_count and not warnings and not end.attachments:
        warnings = ["empty"]
    return FinishedVersion(
        task.item.id,
        task.version,
        state.chunk_count,
        warnings,
        state.content.size or None,
        _timeline(state),
        state.document,
        tuple(end.images),
    )


def same_version(document: UnchangedDocument) -> FinishedVersion:
    """The version of a document that stays as it is."""
    task = document.task
    state = DocumentState(task, document.content)
    state.chunk_count = task.item.chunk_count
    warnings = list(document.warnings)
    if not state.chunk_count and not warnings and not document.has_attachments:
        warnings = ["empty"]
    return FinishedVersion(
        task.item.id,
        task.version,
        state.chunk_count,
        warnings,
        document.content.size or None,
        _timeline(state),
    )


def has_undescribed_images(state: DocumentState) -> bool:
    """Whether images of a document wait for their description."""
    return any(image.text is None for image in state.ended.images)


def _timeline(state: DocumentState) -> dict[str, Any]:
    """How the version was made, for users."""
    return {
        "attempt": state.task.job.attempt,
        "seconds": {
            "all": round(time.monotonic() - state.task.started, 3),
            "read": round(state.read_totals.seconds, 3),
            "embed": round(state.embed_totals.seconds, 3),
            "write": round(state.seconds, 3),
        },
        "characters": state.characters,
        "chunks": state.chunk_count,
        "batches": state.embed_totals.batches,
        "embedded": state.embed_totals.embedded,
        "reused": state.embed_totals.reused,
        "resumed": state.resumed,
        "pagesKept": state.read_totals.pages_reused,
    }


def _after_last(waiting: list[Finding], written: Sequence[Finding]) -> list[Finding]:
    """What was added after the last written one; everything, if that one was removed before."""
    if written and written[-1] in waiting:
        return waiting[waiting.index(written[-1]) + 1 :]
    return waiting
