"""What the process beside ours is given comes back as if it had been done here, whatever becomes of the process."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import numpy as np
import psutil
import pytest

from gristmill.ingest import offload
from gristmill.ingest.offload import MIN_BATCH, CpuOffload
from gristmill.readers.results import TextPart
from gristmill.search import segment
from gristmill.search.segment import ChunkText
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import wait_until

TEXT = "# A mill\n\nThe wheel turns the stone. " + "Grain becomes flour. " * 200 + "\n\n磨坊在河边。\n"
WORDS = [
    ChunkText(n, UUID(int=n), "a title", ("head",), f"wheel number {n} 知识库") for n in range(MIN_BATCH)
]
CODES = segment.pack_signs(np.ones((MIN_BATCH, 64), np.float32))


_others: set[int] = set()  # of tests before, until they find that nothing comes


@pytest.fixture
def hands() -> Iterator[CpuOffload]:
    _others.update(child.pid for child in children())
    made = CpuOffload()
    yield made
    made.close()


def children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if child.pid not in _others
        and child.status() != psutil.STATUS_ZOMBIE
        and any("ingest.crew" in word for word in child.cmdline())
    ]


async def started(hands: CpuOffload) -> psutil.Process:
    await hands.build_segment(WORDS, CODES)

    async def ready() -> bool:
        return hands.is_ready

    await wait_until(ready)
    (child,) = children()
    return child


def same(one: segment.Segment, other: segment.Segment) -> bool:
    return (
        one.index.terms.data == other.index.terms.data
        and one.index.ordinals.tobytes() == other.index.ordinals.tobytes()
        and one.index.counts.tobytes() == other.index.counts.tobytes()
        and one.languages == other.languages
    )


async def test_a_large_batch_is_lexed_and_cut_there_as_it_is_here(hands: CpuOffload) -> None:
    child = await started(hands)
    before = child.cpu_times().user
    tokenizer = HashedEmbedder().tokenizer
    documents = [[TextPart(TEXT), TextPart("the end", 2)]] * 20
    for _ in range(3):
        assert await hands.chunk_documents(tokenizer, 64, documents) == offload.chunk_documents(
            tokenizer, 64, documents
        )
        assert same(await hands.build_segment(WORDS, CODES), segment.build(WORDS, CODES))
    assert child.cpu_times().user > before


async def test_a_small_batch_starts_no_process(hands: CpuOffload) -> None:
    found = await hands.build_segment(WORDS[:3], CODES[:, :3])
    assert same(found, segment.build(WORDS[:3], CODES[:, :3]))
    assert not children()


async def test_what_a_killed_process_was_asked_for_is_done_here_and_another_takes_its_place(
    hands: CpuOffload,
) -> None:
    child = await started(hands)
    os.kill(child.pid, signal.SIGKILL)
    assert same(await hands.build_segment(WORDS, CODES), segment.build(WORDS, CODES))
    assert (await started(hands)).pid != child.pid


async def test_an_error_there_is_raised_here_and_the_process_goes_on(hands: CpuOffload) -> None:
    child = await started(hands)
    with pytest.raises(AttributeError):
        await hands.chunk_documents(HashedEmbedder().tokenizer, 64, [["no part"]])  # pyright: ignore[reportArgumentType]
    assert same(await hands.build_segment(WORDS, CODES), segment.build(WORDS, CODES))
    assert child.is_running()


async def test_what_a_process_that_hangs_was_asked_for_is_done_here(hands: CpuOffload) -> None:
    """Nothing is stuck: also not behind a process that is stopped."""
    child = await started(hands)
    hands.timeout = timedelta(seconds=0.5)
    os.kill(child.pid, signal.SIGSTOP)
    assert same(await hands.build_segment(WORDS, CODES), segment.build(WORDS, CODES))

    async def gone() -> bool:
        return not child.is_running() or child.status() == psutil.STATUS_ZOMBIE

    await wait_until(gone)
