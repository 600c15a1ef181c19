"""Offloaded work gives the same results as work in this process, whatever happens to the subprocess."""

import asyncio
import itertools
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import psutil
import pytest

from gristmill.catalog import Base
from gristmill.ingest.chunk import Chunker, TextChunk, split
from gristmill.ingest.offload import LARGE_TEXT, MIN_BATCH, CpuOffload, chunk_documents
from gristmill.readers.results import TextPart
from gristmill.search import segment
from gristmill.search.segment import ChunkText
from tests.embedding.hashed import HashedEmbedder
from tests.operations.manual_worker import ManualWorker, file_to_add
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

TEXT = "# A mill\n\nThe wheel turns the stone. " + "Grain becomes flour. " * 200 + "\n\n磨坊在河边。\n"
WORDS = [
    ChunkText(n, UUID(int=n), "a title", ("head",), f"wheel number {n} 知识库") for n in range(MIN_BATCH)
]
CODES = segment.pack_signs(np.ones((MIN_BATCH, 64), np.float32))


_others: set[int] = set()  # subprocesses of earlier tests, which stop when idle


@pytest.fixture
def offload() -> Iterator[CpuOffload]:
    _others.update(child.pid for child in children())
    created = CpuOffload()
    yield created
    created.close()


def children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if child.pid not in _others
        and child.status() != psutil.STATUS_ZOMBIE
        and any("ingest.offload" in word for word in child.cmdline())
    ]


async def is_ready(offload: CpuOffload) -> bool:
    return offload.is_ready


async def start_subprocess(offload: CpuOffload) -> psutil.Process:
    await offload.build_segment(WORDS, CODES)
    await wait_until(lambda: is_ready(offload))
    (child,) = children()
    return child


def are_equal(first: segment.Segment, second: segment.Segment) -> bool:
    return (
        first.index.terms.data == second.index.terms.data
        and first.index.ordinals.tobytes() == second.index.ordinals.tobytes()
        and first.index.counts.tobytes() == second.index.counts.tobytes()
        and first.languages == second.languages
    )


async def test_the_subprocess_lexes_and_chunks_as_this_process_does(offload: CpuOffload) -> None:
    child = await start_subprocess(offload)
    before = child.cpu_times().user
    tokenizer = HashedEmbedder().tokenizer
    documents = [[TextPart(TEXT), TextPart("the end", 2)]] * 20
    for _ in range(3):
        expected = chunk_documents(tokenizer, 64, 0, documents)
        assert await offload.chunk_documents(tokenizer, 64, 0, documents) == expected
        assert are_equal(await offload.build_segment(WORDS, CODES), segment.build(WORDS, CODES))
    assert child.cpu_times().user > before


async def test_the_subprocess_loads_only_what_it_needs(offload: CpuOffload) -> None:
    """The packages that it is part of would take it seven times as long, and twice the memory."""
    child = await start_subprocess(offload)
    libraries = {Path(mapping.path).parent.name for mapping in child.memory_maps()}
    assert "tokenizers" in libraries
    assert not libraries & {"pydantic_core", "psycopg_binary", "onnxruntime", "capi"}


async def test_a_small_batch_starts_no_process(offload: CpuOffload) -> None:
    built = await offload.build_segment(WORDS[:3], CODES[:, :3])
    assert are_equal(built, segment.build(WORDS[:3], CODES[:, :3]))
    assert not children()


async def test_work_of_a_killed_subprocess_is_done_here_and_another_one_is_started(
    offload: CpuOffload,
) -> None:
    child = await start_subprocess(offload)
    os.kill(child.pid, signal.SIGKILL)
    assert are_equal(await offload.build_segment(WORDS, CODES), segment.build(WORDS, CODES))
    assert (await start_subprocess(offload)).pid != child.pid


async def chunk_part_by_part(offload: CpuOffload, text: str, *, kill: bool = False) -> list[TextChunk]:
    """The chunks of a long text, which the subprocess gets once it is ready; `kill` ends it halfway."""
    tokenizer = HashedEmbedder().tokenizer
    chunker, chunks = Chunker(tokenizer, 64), list[TextChunk]()
    parts = [TextPart(text[at : at + LARGE_TEXT // 4], at) for at in range(0, len(text), LARGE_TEXT // 4)]
    for number, part in enumerate(parts):
        if number == 5 or (kill and number == 9):
            await wait_until(lambda: is_ready(offload))
        chunker, completed = await offload.feed(tokenizer, chunker, [part])
        chunks += completed
        if kill and number == 6:
            (child,) = children()
            os.kill(child.pid, signal.SIGKILL)
    return chunks + (await offload.feed(tokenizer, chunker, [], is_last=True))[1]


@pytest.mark.parametrize("kill", [False, True])
async def test_a_large_document_is_chunked_in_the_subprocess_part_by_part(
    offload: CpuOffload, kill: bool
) -> None:
    """The event loop of a worker doesn't share its interpreter with megabytes of text. A kill in between changes nothing."""
    text = TEXT * (3 * LARGE_TEXT // len(TEXT))
    chunks = await chunk_part_by_part(offload, text, kill=kill)
    assert [replace(chunk, page=None) for chunk in chunks] == split(text, HashedEmbedder().tokenizer, 64)
    assert chunks[-1].page
    (child,) = children()
    assert child.cpu_times().user > 0


async def test_a_document_below_the_limit_starts_no_process(offload: CpuOffload) -> None:
    text = TEXT * (LARGE_TEXT // 2 // len(TEXT))
    tokenizer = HashedEmbedder().tokenizer
    _, chunks = await offload.feed(tokenizer, Chunker(tokenizer, 64), [TextPart(text)], is_last=True)
    assert chunks == split(text, tokenizer, 64)
    assert not children()


async def test_a_worker_chunks_a_large_text_file_outside_its_own_process(
    worker: ManualWorker, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While megabytes of text are chunked, other bases have the worker's event loop for themselves."""
    characters_here = 0
    feed = Chunker.feed

    def count_and_feed(chunker: Chunker, text: str, page: int | None = None) -> list[TextChunk]:
        nonlocal characters_here
        characters_here += len(text)
        return feed(chunker, text, page)

    monkeypatch.setattr(Chunker, "feed", count_and_feed)
    numbers = itertools.count()

    async def is_chunked_elsewhere() -> bool:
        nonlocal characters_here
        path = tmp_path / f"{next(numbers)}.txt"
        path.write_text(f"{path.name}\n" + "\n" * (LARGE_TEXT * 3 // 2) + TEXT)
        characters_here = 0
        await worker.add(base, file_to_add(path))
        await worker.work()
        return characters_here == 0

    await wait_until(is_chunked_elsewhere, every=1)  # the first file starts the subprocess
    assert set((await worker.statuses()).values()) == {"completed"}


async def test_an_error_in_the_subprocess_is_raised_here_and_it_keeps_running(offload: CpuOffload) -> None:
    child = await start_subprocess(offload)
    with pytest.raises(AttributeError):
        await offload.chunk_documents(HashedEmbedder().tokenizer, 64, 0, [["no part"]])  # pyright: ignore[reportArgumentType]
    assert are_equal(await offload.build_segment(WORDS, CODES), segment.build(WORDS, CODES))
    assert child.is_running()


async def test_work_of_a_hanging_subprocess_is_done_here(offload: CpuOffload) -> None:
    """Promise 1: nothing hangs, not even behind a stopped process."""
    child = await start_subprocess(offload)
    offload.timeout = timedelta(seconds=0.5)
    os.kill(child.pid, signal.SIGSTOP)
    assert are_equal(await offload.build_segment(WORDS, CODES), segment.build(WORDS, CODES))

    async def is_gone() -> bool:
        return not child.is_running() or child.status() == psutil.STATUS_ZOMBIE

    await wait_until(is_gone)


async def test_closing_while_the_subprocess_starts_leaves_no_process(
    offload: CpuOffload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`close` comes before there is a process to kill."""
    starting, proceed = threading.Event(), threading.Event()
    processes: list[Any] = []
    real = subprocess.Popen

    def start_slowly(*args: Any, **kwargs: Any) -> Any:
        starting.set()
        assert proceed.wait(60)
        processes.append(real(*args, **kwargs))
        return processes[0]

    monkeypatch.setattr("gristmill.ingest.offload.subprocess.Popen", start_slowly)
    await offload.build_segment(WORDS, CODES)
    assert await asyncio.to_thread(starting.wait, 60)
    offload.close()
    proceed.set()

    async def is_gone() -> bool:
        return bool(processes) and processes[0].returncode is not None

    await wait_until(is_gone)


@pytest.fixture
def offload_to_two() -> Iterator[CpuOffload]:
    _others.update(child.pid for child in children())
    created = CpuOffload(max_subprocesses=2)
    yield created
    created.close()


async def test_a_large_batch_that_finds_the_subprocess_busy_starts_a_second_one(
    offload_to_two: CpuOffload,
) -> None:
    """A batch is lexed while documents are chunked, and there are never more than two subprocesses."""
    offload = offload_to_two
    first = await start_subprocess(offload)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        waiting = [asyncio.create_task(offload.build_segment(WORDS, CODES)) for _ in range(3)]

        async def is_second_started() -> bool:
            waiting.append(asyncio.create_task(offload.build_segment(WORDS, CODES)))
            return any(task.done() for task in waiting)

        await wait_until(is_second_started)
        assert len(children()) == 2
    finally:
        os.kill(first.pid, signal.SIGCONT)
    expected = segment.build(WORDS, CODES)
    assert all(are_equal(built, expected) for built in await asyncio.gather(*waiting))
    assert len(children()) == 2
