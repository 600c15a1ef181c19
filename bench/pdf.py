"""Speed of reading PDF pages: `python -m bench.pdf FILE [--pages N]`, end to end through the pool, compared with PDFium alone.

With `--pages`, the pages are repeated into one document of that length; with `--mill`, a whole Gristmill indexes it, and the
server's memory is printed. Prints pages a second of both, the peak memory of this process above its idle state, and the peak
of any child process.
"""

import argparse
import asyncio
import contextlib
import importlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.free_embedder import FreeEmbedder
from bench.ingest import ingest_folder, settings
from gristmill import app
from gristmill.readers import ReadLimits, ReadReport, TextPart
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file

pdfium: Any = importlib.import_module("pypdfium2")
MIB = 2**20
RAW = """
import sys, time, pypdfium2
began = time.monotonic()
document = pypdfium2.PdfDocument(sys.argv[1])
for index in range(len(document)):
    page = document[index]
    text = page.get_textpage()
    text.get_text_range()
    text.close()
    page.close()
print(len(document) / (time.monotonic() - began), len(document) / time.process_time())
"""


def repeat_pages(path: Path, pages: int, target: Path) -> Path:
    source, document = pdfium.PdfDocument(str(path)), pdfium.PdfDocument.new()
    while len(document) < pages:
        document.import_pages(source, list(range(min(len(source), pages - len(document)))))
    document.save(str(target))
    return target


async def sample_memory(pool: ReaderPool, peaks: list[int]) -> None:
    while True:
        for pid in pool.pids:
            with contextlib.suppress(psutil.Error):
                peaks.append(psutil.Process(pid).memory_info().rss)
        await asyncio.sleep(0.2)


async def measure_mill(path: Path, folder: Path) -> None:
    """Index the document with a whole Gristmill and an embedder that costs nothing: pages a second and memory."""
    corpus = folder / "corpus"
    corpus.mkdir()
    shutil.copyfile(path, corpus / "long.pdf")
    mill_settings = settings(folder / "mill", embedder="free")
    async with app.gristmill(mill_settings, work=True, extra_embedders={"free": FreeEmbedder()}) as running:
        own, peaks = psutil.Process(), [0]
        idle = own.memory_info().rss

        async def sample_own_memory() -> None:
            while True:
                peaks.append(own.memory_info().rss)
                await asyncio.sleep(0.1)

        sampling = asyncio.ensure_future(sample_own_memory())
        elapsed, chunks, _ = await ingest_folder(running, "pdf", corpus)
        sampling.cancel()
    print(
        f"whole: {elapsed:.1f} s, {chunks:,} chunks; the server {(max(peaks) - idle) / MIB:+.0f} MiB above idle"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pages", type=int)
    parser.add_argument("--mill", action="store_true", help="through a whole Gristmill")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.file
        if arguments.pages:
            path = repeat_pages(path, arguments.pages, Path(folder) / "repeated.pdf")
        if arguments.mill:
            await measure_mill(path, Path(folder))
            return
        pdfium_run = subprocess.run([sys.executable, "-c", RAW, str(path)], capture_output=True, check=True)  # noqa: ASYNC221
        async with ReaderPool(1) as pool:
            async with pool.lease_process():
                idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            idle_cpu = sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pool.pids)
            peaks: list[int] = []
            sampling = asyncio.ensure_future(sample_memory(pool, peaks))
            started = time.monotonic()
            characters, report = 0, ReadReport()
            limits = ReadLimits()
            results = read_file(
                pool, path, name=path.name, media_type=None, scratch=Path(folder), limits=limits
            )
            async with contextlib.aclosing(results) as stream:
                async for result in stream:
                    if isinstance(result, TextPart):
                        characters += len(result.text)
                    elif isinstance(result, ReadReport):
                        report = result
            elapsed = time.monotonic() - started
            cpu = sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pool.pids) - idle_cpu
            sampling.cancel()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pages = report.pages_read or 0
    print(f"{pages} of {report.pages_total} pages, {characters:,} characters, {report.warnings}")
    pdfium_rate, pdfium_cpu_rate = (float(value) for value in pdfium_run.stdout.split())
    print(f"pages/s: PDFium alone {pdfium_rate:.0f}, end to end {pages / elapsed:.0f}")
    print(f"pages per CPU-second: PDFium alone {pdfium_cpu_rate:.0f}, end to end {pages / cpu:.0f}")
    print(
        f"this process {(peak - idle) / MIB:+.0f} MiB above idle, child at most {max(peaks, default=0) / MIB:.0f} MiB"
    )


if __name__ == "__main__":
    asyncio.run(main())
