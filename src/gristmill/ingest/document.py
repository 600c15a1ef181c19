"""A document on its way: one version of one item, from its job to its end.

Its reader puts windows in (parts of the content, and the pieces cut from them), the embedding stage takes pieces out, the
writer says what is written. It ends when everything is written and published, when it is no longer wanted, or with the
error that stopped it; whoever waits for `ended` gets just that.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.catalog import Base, DocumentToRead
from gristmill.contents import ContentAsset, ContentAttachment, NewAsset
from gristmill.embedding import Embedder
from gristmill.ingest.chunk import TextChunk
from gristmill.jobs import Done, Job, Outcome
from gristmill.readers.results import TextPart
from gristmill.sources import Source

MAX_WAITING = 256  # pieces that may wait for their vectors, of one document
_READ_WEIGHT, _WRITE_WEIGHT = 60, 40  # of 100: reading and cutting, embedding and writing


@dataclass(frozen=True)
class ReadWindow:
    """What was read and cut next; `share` of the bytes is read by then, 1 at the end."""

    parts: Sequence[TextPart]
    pieces: Sequence[TextChunk]
    share: float
    last: bool = False


@dataclass
class Timings:
    """Where the time went, and what was done with it."""

    began: float = field(default_factory=time.monotonic)
    read: float = 0.0
    embed: float = 0.0
    write: float = 0.0
    batches: int = 0
    embedded: int = 0
    reused: int = 0
    resumed: int = 0
    pages_kept: int = 0


@dataclass(eq=False)
class Document:
    """One version of an item that is being made."""

    job: Job
    base: Base
    item: DocumentToRead
    version: int
    embedder: Embedder
    source: Source
    recipe: str
    digest: bytes = b""
    original: bytes | None = None  # the blob of a page's bytes
    validators: dict[str, str] = field(default_factory=dict[str, str])
    size: int = 0
    written: set[int] = field(default_factory=set[int])
    pieces: deque[TextChunk] = field(default_factory=deque[TextChunk])
    parts: list[tuple[int, TextPart]] = field(default_factory=list[tuple[int, TextPart]])
    attachments: list[ContentAttachment] = field(default_factory=list[ContentAttachment])
    unsaved_attachments: list[ContentAttachment] = field(
        default_factory=list[ContentAttachment]
    )  # not written yet
    assets: list[ContentAsset] = field(default_factory=list[ContentAsset])
    unsaved_assets: list[ContentAsset] = field(default_factory=list[ContentAsset])
    inline: list[bytes] = field(default_factory=list[bytes])  # images whose text is in the content
    images: list[NewAsset] = field(default_factory=list[NewAsset])  # as they are when it is published
    is_version_saved: bool = False  # its version's row is there
    is_read: bool = False  # all of it is read
    count: int = 0  # pieces so far
    characters: int = 0
    share: float = 0.0
    warnings: list[str] = field(default_factory=list[str])
    note: str | None = None
    waiting_since: float | None = None  # for an embedder that is down
    batch_limit: int | None = (
        None  # pieces of it in one batch, which it then has to itself: the last one failed
    )
    strikes: int = 0  # how often it failed alone while others went well
    successes_at_strike: int = 0  # batches that had gone well by then
    timings: Timings = field(default_factory=Timings)

    def __post_init__(self) -> None:
        self.ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._room = asyncio.Event()
        self._room.set()
        self._marks: set[bytes] = set()
        self._hashes: set[bytes] = set()

    @property
    def key(self) -> tuple[Any, int]:
        """The item and the version."""
        return self.item.id, self.version

    @property
    def is_urgent(self) -> bool:
        """Whether somebody waits for it."""
        return self.job.priority == 0

    @property
    def is_unchanged(self) -> bool:
        """Whether it would become just what answers."""
        return self.item.live_content == self.digest and self.item.live_recipe == self.recipe

    @property
    def is_written(self) -> bool:
        """Whether nothing of it is left to write."""
        return self.is_read and not self.pieces and len(self.written) == self.count

    @property
    def progress(self) -> float:
        """Percent done, short of the end."""
        written = len(self.written) / self.count if self.count else float(self.is_read)
        return min(99.0, self.share * (_READ_WEIGHT + _WRITE_WEIGHT * written))

    def has_attachment(self, attachment: ContentAttachment) -> bool:
        """Whether such a document was found inside it before."""
        if len(self._marks) != len(self.attachments):
            self._marks = {other.fingerprint for other in self.attachments}
        known = attachment.fingerprint in self._marks
        self._marks.add(attachment.fingerprint)
        return known

    def add_asset(self, asset: ContentAsset) -> None:
        """Note an image or a table that was found inside it, once."""
        if len(self._hashes) != len(self.assets):
            self._hashes = {other.hash for other in self.assets}
        if asset.hash not in self._hashes:
            self._hashes.add(asset.hash)
            self.assets.append(asset)
            self.unsaved_assets.append(asset)

    def add_window(self, window: ReadWindow) -> None:
        """Put in what was read next; pieces that are written already are passed over."""
        for part in window.parts:
            self.parts.append((self.characters, part))
            self.characters += len(part.text)
        for piece in window.pieces:
            if piece.index in self.written:
                self.timings.resumed += 1
            else:
                self.pieces.append(piece)
        self.count += len(window.pieces)
        self.share, self.is_read = window.share, window.last
        if len(self.pieces) >= MAX_WAITING:
            self._room.clear()

    async def wait_for_room(self) -> None:
        """Wait until more may be put in."""
        while not self._room.is_set() and not self.ended.done():
            waiting = asyncio.ensure_future(self._room.wait())
            try:
                await asyncio.wait([waiting, self.ended], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()

    def take_chunks(self, limit: int) -> list[TextChunk]:
        """The next pieces that need vectors, at most so many."""
        chunks = [self.pieces.popleft() for _ in range(min(limit, len(self.pieces)))]
        if len(self.pieces) < MAX_WAITING:
            self._room.set()
        return chunks

    def return_chunks(self, pieces: Sequence[TextChunk]) -> None:
        """Pieces whose vectors did not come, to be taken again in their order."""
        self.pieces.extendleft(reversed(pieces))

    def finish(self, outcome: Outcome | None = None) -> None:
        """It is done, or no longer wanted."""
        if not self.ended.done():
            self.ended.set_result(outcome or Done())

    def fail(self, error: Exception) -> None:
        """It can't be done, this time at least."""
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # looked at, should nobody wait for it any more

    def timeline(self) -> dict[str, Any]:
        """What its making took, for people."""
        timings = self.timings
        return {
            "attempt": self.job.attempt,
            "seconds": {
                "all": round(time.monotonic() - timings.began, 3),
                "read": round(timings.read, 3),
                "embed": round(timings.embed, 3),
                "write": round(timings.write, 3),
            },
            "characters": self.characters,
            "chunks": self.count,
            "batches": timings.batches,
            "embedded": timings.embedded,
            "reused": timings.reused,
            "resumed": timings.resumed,
            "pagesKept": timings.pages_kept,
        }
