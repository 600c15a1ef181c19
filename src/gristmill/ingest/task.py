"""What moves through the pipeline: the task of one document, and the messages between its stages. All of them immutable.

    IndexTask ─▶ read ── ReadWindow ─┬─ parts, attachments, assets ──────────────────▶ write ─▶ Completion
                                     └─ chunks ─▶ embed ── EmbeddedChunks ──────────────┘

Each stage keeps its own state per task. A document ends when all of it is written and published, when its version is no
longer wanted, or with the error that stopped it: whichever stage notices completes the task, and the job waits for that.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from gristmill.catalog import Base, BaseId, DocumentToRead, ItemId, title_of_web_page
from gristmill.contents import ContentAsset, ContentAttachment, NewAsset
from gristmill.embedding import Embedder
from gristmill.ingest.chunk import TextChunk
from gristmill.jobs import Done, Job, Outcome, Priority
from gristmill.readers import TextPart
from gristmill.search import Chunk
from gristmill.sources import Source
from gristmill.usage import Spending


def base_of(job: Job) -> BaseId:
    """The base that a job works for: its lane."""
    return BaseId(UUID(job.lane))


@dataclass(frozen=True)
class WaitReason:
    """What a document waits for: the code and message of an error, and until when, by the monotonic clock."""

    code: str
    message: str
    until: float


class Completion:
    """How a document ended. The first outcome or error counts; later ones are ignored."""

    def __init__(self) -> None:
        self._future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def is_done(self) -> bool:
        """Whether the document has ended."""
        return self._future.done()

    def finish(self, outcome: Outcome | None = None) -> None:
        """End the document: it is done, postponed or no longer wanted."""
        if not self._future.done():
            self._future.set_result(outcome or Done())

    def fail(self, error: Exception) -> None:
        """End this attempt with an error."""
        if not self._future.done():
            self._future.set_exception(error)
            self._future.exception()  # marked as retrieved, in case the job was cancelled and doesn't wait

    async def wait(self) -> Outcome:
        """Wait for the end. Returns the outcome or raises the error."""
        return await self._future

    async def wait_for_either(self, event: asyncio.Event) -> None:
        """Wait until `event` is set or the document has ended."""
        while not event.is_set() and not self._future.done():
            waiting = asyncio.ensure_future(event.wait())
            try:
                await asyncio.wait([waiting, self._future], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()


@dataclass(frozen=True, eq=False)
class IndexTask:
    """One version of one item that is to be made searchable."""

    job: Job
    base: Base
    item: DocumentToRead
    version: int
    embedder: Embedder
    source: Source
    recipe: str  # how content is chunked and embedded
    written: frozenset[int] = frozenset()  # indexes of the chunks that an earlier attempt wrote
    started: float = field(default_factory=time.monotonic)
    completion: Completion = field(default_factory=Completion)

    @property
    def key(self) -> tuple[ItemId, int]:
        """The item and the version."""
        return self.item.id, self.version

    @property
    def chunking(self) -> dict[str, Any]:
        """How its content is split: as its own settings say, else as those of the base."""
        return {**self.base.chunking, **self.item.chunking}

    def title_with(self, document: Mapping[str, Any]) -> str:
        """The item's title once this version is live, with what the document says of itself."""
        item = self.item
        return title_of_web_page(item.source, document) if item.titled_by_source else item.title

    @property
    def is_urgent(self) -> bool:
        """Whether a user waits for it."""
        return self.job.priority == Priority.INTERACTIVE

    def is_unchanged(self, digest: bytes) -> bool:
        """Whether content with this digest would give exactly the version that search already uses."""
        return self.item.live_content == digest and self.item.live_recipe == self.recipe


@dataclass(frozen=True)
class VersionContent:
    """The content that a version is made of: its digest, the size of the original in bytes, and for a web page the blob of
    its bytes and the validators that reveal a change later."""

    digest: bytes
    size: int
    page_blob: bytes | None = None
    validators: Mapping[str, str] = field(default_factory=dict[str, str])


# ── from read to embed and write ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ReadTotals:
    """What reading a document took so far."""

    seconds: float = 0.0
    pages_reused: int = 0


@dataclass(frozen=True)
class EndOfContent:
    """What is known when a document has been read completely."""

    warnings: Sequence[str] = ()
    inline: Sequence[bytes] = ()  # hashes of images whose text is part of the content
    attachments: Sequence[ContentAttachment] = ()  # all of the document
    assets: Sequence[ContentAsset] = ()  # all of the document
    images: Sequence[NewAsset] = ()  # described, or waiting for their description


@dataclass(frozen=True)
class ReadWindow:
    """The next parts of a document, the chunks that they complete, and what was found in them."""

    parts: Sequence[TextPart]
    chunks: Sequence[TextChunk]
    share: float  # of the document that has been read, 1 at the end
    attachments: Sequence[ContentAttachment] = ()
    assets: Sequence[ContentAsset] = ()
    totals: ReadTotals = field(default_factory=ReadTotals)
    document: Mapping[str, Any] = field(
        default_factory=dict[str, Any]
    )  # what it says of itself, as known so far
    resumed: int = 0  # further chunks of the window that an earlier attempt wrote
    end: EndOfContent | None = None


# ── from embed to write ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class EmbedTotals:
    """What embedding a document took so far."""

    seconds: float = 0.0
    batches: int = 0
    embedded: int = 0
    reused: int = 0


@dataclass(frozen=True)
class EmbeddedChunks:
    """Chunks of one document with their vectors; none if only the document's end is left to write."""

    task: IndexTask
    chunks: Sequence[Chunk]
    totals: EmbedTotals = field(default_factory=EmbedTotals)
    spending: Spending | None = None  # what the new vectors among them cost


@dataclass(frozen=True)
class UnchangedDocument:
    """A document whose new version would equal the one that search already uses."""

    task: IndexTask
    content: VersionContent
    warnings: Sequence[str]
    has_attachments: bool
    has_assets: bool
