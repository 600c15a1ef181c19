"""Pictures of the pages of PDF and image files, drawn by PDFium in child processes and cached in memory.

    request ──▶ cache ──miss──▶ place (one for each processor, fair between bases) ──▶ child draws ──▶ cache

The children are sandboxed like those that read documents, but are a pool of their own: a request waits neither for ingestion nor
holds it up. A page that takes too long, too much memory or crashes its child is refused, and the next request gets another child.
More requests than `_MAX_WAITING` are refused at once.
"""

import asyncio
import base64
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from gristmill.errors import Conflict, GristmillError, LimitReached, NotFound
from gristmill.readers.pool import ReaderDied, ReaderPool
from gristmill.readers.protocol import Message
from gristmill.readers.text_format import looks_like_text
from gristmill.stage_gate import Requester

_LIMIT = timedelta(seconds=30)  # for a list of pages, or one picture
_CPU_SECONDS = 20
_MEMORY = 1 << 30
_MAX_WAITING = 64
_MAX_CACHED_BYTES = 64 << 20
_MAX_CACHED_LISTS = 32
_HEAD_BYTES = 1024
_NOT_PAGED = "This document can't be shown as pages. Read its text instead."


@dataclass(frozen=True)
class PageSize:
    """A page: its size in points, or in pixels of an image, and its label if that is not its number."""

    width: float
    height: float
    label: str


@dataclass(frozen=True)
class OutlineEntry:
    """A bookmark of a PDF file; the outermost have level 1."""

    level: int
    title: str
    page: int


@dataclass(frozen=True)
class PageList:
    """The pages of a document, and its bookmarks."""

    pages: tuple[PageSize, ...]
    outline: tuple[OutlineEntry, ...]


class PageImages:
    """Lists and draws pages. `key` identifies the bytes of a document: equal keys have equal pages."""

    def __init__(self) -> None:
        self._pool = ReaderPool(max(1, min(2, os.cpu_count() or 1)), share=0.75)
        self._lists: OrderedDict[str, PageList] = OrderedDict()
        self._images: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()
        self._cached_bytes = self._waiting = 0

    async def close(self) -> None:
        """Stop the child processes."""
        await self._pool.close()

    def image_in_cache(self, key: str, page: int, width: int) -> bytes | None:
        """A picture that was drawn before."""
        if (image := self._images.get((key, page, width))) is not None:
            self._images.move_to_end((key, page, width))
        return image

    def pages_in_cache(self, key: str) -> PageList | None:
        """A list that was made before."""
        return self._lists.get(key)

    async def pages(self, key: str, base: str, path: Path) -> PageList:
        """The pages of the file at `path`. Texts and archives, such as office files, are refused without a child process."""
        if await asyncio.to_thread(_is_text_or_archive, path):
            raise Conflict(_NOT_PAGED, code="no_pages")
        message = await self._run(base, {"k": "pages", "task": _task(path)})
        labels = message["labels"]
        page_list = PageList(
            tuple(
                PageSize(width, height, "" if label == str(number) else label)
                for number, ((width, height), label) in enumerate(
                    zip(message["sizes"], labels, strict=True), 1
                )
            ),
            tuple(OutlineEntry(level, title, page) for level, title, page in message["outline"]),
        )
        self._lists[key] = page_list
        while len(self._lists) > _MAX_CACHED_LISTS:
            self._lists.popitem(last=False)
        return page_list

    async def image(
        self,
        key: str,
        base: str,
        path: Path,
        page: int,
        width: int,
        *,
        is_wanted: Callable[[], Awaitable[bool]],
    ) -> bytes:
        """The picture of a page, `width` pixels wide, as a JPEG. `is_wanted` is asked when it is its turn."""
        message = await self._run(
            base, {"k": "image", "task": _task(path) | {"page": page, "width": width}}, is_wanted
        )
        data = base64.b64decode(message["data"])
        # Another request may have drawn the same page meanwhile.
        self._cached_bytes += len(data) - len(self._images.pop((key, page, width), b""))
        self._images[key, page, width] = data
        while self._cached_bytes > _MAX_CACHED_BYTES:
            _, dropped = self._images.popitem(last=False)
            self._cached_bytes -= len(dropped)
        return data

    async def _run(
        self, base: str, message: Message, is_wanted: Callable[[], Awaitable[bool]] | None = None
    ) -> Message:
        if self._waiting >= _MAX_WAITING:
            raise LimitReached(
                "Too many pages are being drawn. Try again in a moment.",
                retry_after=timedelta(seconds=2),
                code="page_images_busy",
            )
        self._waiting += 1
        try:
            async with self._pool.lease_process(Requester(base)) as child:
                if is_wanted is not None and not await is_wanted():
                    raise LimitReached(
                        "The request was given up.", retry_after=timedelta(seconds=1), code="page_images_busy"
                    )
                child.must_be_replaced = True  # unless it answers
                async with asyncio.timeout(_LIMIT.total_seconds()):
                    await child.send(message)
                    answer = await child.receive()
                self._pool.recycle(child, int(answer["rss"]), for_ocr=False)
        except (ReaderDied, TimeoutError) as error:
            raise Conflict(
                "The page can't be drawn: it takes too long or too much memory, or the file is damaged. "
                "Read its text instead.",
                code="page_not_drawn",
            ) from error
        finally:
            self._waiting -= 1
        if answer["k"] == "error":
            raise _refusal(answer)
        return answer


def _is_text_or_archive(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return b"%PDF-" not in head and (head.startswith(b"PK\x03\x04") or looks_like_text(head))


def _task(path: Path) -> dict[str, object]:
    return {"path": str(path), "memory": _MEMORY, "cpu_seconds": _CPU_SECONDS}


def _refusal(answer: Message) -> GristmillError:
    if answer["code"] == "page_not_found":
        return NotFound(f"{answer['message']} List its pages to see how many it has.", code="page_not_found")
    if answer["code"] == "encrypted":
        return Conflict("The file is password-protected. Read its text instead.", code="page_not_drawn")
    return Conflict(_NOT_PAGED, code="no_pages")
