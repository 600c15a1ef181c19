"""Bases share the reader processes: whoever waits for OCR holds none, and OCR takes turns page by page."""

import asyncio
import contextlib
import io
import os
import signal
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
from PIL import Image

from gristmill.readers import ReadLimits, ReadReport, TextPart
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file
from gristmill.stage_gate import Requester
from tests.readers import samples
from tests.readers.test_formats import text_image
from tests.wait_until import ended, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
async def pool() -> AsyncGenerator[ReaderPool]:
    async with ReaderPool(1) as reader_pool:
        yield reader_pool


async def read(
    pool: ReaderPool, folder: Path, name: str, data: bytes, base: str, priority: int = 1
) -> tuple[str, list[str]]:
    """The text of a document of this base, and its warnings."""
    scratch = folder / f"{base}-{name}"
    scratch.mkdir()
    text, warnings = "", list[str]()
    results = read_file(
        pool,
        samples.save(scratch, name, data),
        name=name,
        media_type=None,
        scratch=scratch,
        limits=ReadLimits(),
        requester=Requester(base, priority),
    )
    async with contextlib.aclosing(results):
        async for result in results:
            if isinstance(result, TextPart):
                text += result.text
            elif isinstance(result, ReadReport):
                warnings = result.warnings
    return text, warnings


def fax(*texts: str) -> bytes:
    """An image file with a page for each text."""
    pages = [Image.open(io.BytesIO(text_image(text))).convert("L") for text in texts]
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:])
    return file.getvalue()


async def test_a_scan_that_waits_for_ocr_does_not_block_the_only_reader(
    pool: ReaderPool, tmp_path: Path
) -> None:
    """S4-19, S4-24: five scans of one base wait, and another base's document is read at once."""
    async with pool.lease_process(Requester("held"), for_ocr=True):
        scans = [
            asyncio.ensure_future(read(pool, tmp_path, f"{n}.png", text_image(f"scan {n}"), "a"))
            for n in range(5)
        ]
        hello = samples.docx(samples.paragraph("Hello"))
        assert await read(pool, tmp_path, "b.docx", hello, "b") == ("Hello\n\n", [])
        assert not any(scan.done() for scan in scans)
    texts = [await ended(scan, limit=300) for scan in scans]
    assert all(warnings == ["ocr_used:1"] for _, warnings in texts)


async def test_a_long_scan_yields_to_another_base_and_to_images_after_each_page(
    pool: ReaderPool, tmp_path: Path
) -> None:
    """S4-18: to the images inside documents of its own base, too. Nothing is read twice, and the report counts the pages of all
    turns."""
    pages = [f"page number {n}" for n in range(4)]
    long = asyncio.ensure_future(read(pool, tmp_path, "long.tiff", fax(*pages), "a"))

    async def is_in_ocr() -> bool:
        return len(pool.pids) > 1

    await wait_until(is_in_ocr)
    others = [
        read(pool, tmp_path, "short.png", text_image("quick"), "b"),
        read(pool, tmp_path, "image.png", text_image("drawing"), "a", priority=2),
    ]
    short, image = await asyncio.gather(*others)
    assert not long.done(), "the short scan or the image waited for all pages of the long one"
    assert "quick" in short[0]
    assert "drawing" in image[0]
    text, warnings = await ended(long, limit=300)
    assert warnings == ["ocr_used:4"]
    assert [text.count(page) for page in pages] == [1, 1, 1, 1]


async def test_a_long_document_does_not_hold_up_the_short_ones_of_its_base(
    pool: ReaderPool, tmp_path: Path
) -> None:
    """With one reader: it goes on after them, and no page is read twice or left out."""
    path = samples.save(
        tmp_path, "long.pdf", samples.pdf([f"Page number {n} of a book." for n in range(120)])
    )
    results = read_file(
        pool,
        path,
        name="long.pdf",
        media_type=None,
        scratch=tmp_path,
        limits=ReadLimits(),
        requester=Requester("a"),
    )
    shorts: list[asyncio.Future[tuple[str, list[str]]]] = []
    pages: list[int | None] = []
    done_by_page: dict[int | None, int] = {}
    async with contextlib.aclosing(results):
        async for result in results:
            if isinstance(result, TextPart):
                pages.append(result.page)
                done_by_page[result.page] = sum(short.done() for short in shorts)
            elif isinstance(result, ReadReport):
                assert (result.pages_read, result.warnings) == (120, [])
            if not shorts:
                shorts = [
                    asyncio.ensure_future(
                        read(pool, tmp_path, f"{n}.pdf", samples.pdf([f"Leaf {n} of oats."]), "a")
                    )
                    for n in range(3)
                ]
                await asyncio.sleep(0)
    assert pages == list(range(1, 121))
    assert done_by_page[60] == 3, "the short documents waited for the long one"


async def test_a_document_of_images_is_read_once_though_it_has_to_wait_for_ocr(
    pool: ReaderPool, tmp_path: Path
) -> None:
    """A document without text of its own begins at the start again; what it yielded before is not yielded twice."""
    slides = {"ppt/media/image1.png": text_image("drawing one")}
    body = samples.docx(samples.paragraph(""), {"word/media/image1.png": slides["ppt/media/image1.png"]})
    text, warnings = await read(pool, tmp_path, "a.docx", body, "a")
    assert text.count("drawing one") == 1
    assert warnings == ["ocr_used:1"]


async def test_a_reader_that_gets_little_cpu_time_is_not_given_up(pool: ReaderPool, tmp_path: Path) -> None:
    """As on a busy machine: it is stopped most of the time, and needs many times its limit by the clock."""
    async with pool.lease_process():
        pass
    (pid,) = pool.pids
    finished = asyncio.Event()

    async def slow_down() -> None:
        while not finished.is_set():
            for sign, seconds in ((signal.SIGSTOP, 0.25), (signal.SIGCONT, 0.05)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sign)
                await asyncio.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    slowing = asyncio.ensure_future(slow_down())
    text = "".join(samples.paragraph(f"word{number} " * 40) for number in range(4_000))
    results = read_file(
        pool,
        samples.save(tmp_path, "a.docx", samples.docx(text)),
        name="a.docx",
        media_type=None,
        scratch=tmp_path,
        limits=ReadLimits(stall=timedelta(milliseconds=900)),
    )
    async with contextlib.aclosing(results):
        parts = [result async for result in results if isinstance(result, TextPart)]
    finished.set()
    await slowing
    assert "word3999" in parts[-1].text
    assert pool.pids == [pid]
