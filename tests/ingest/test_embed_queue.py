"""The order in which documents get their vectors: equal parts of every batch for bases, and for the documents of a base."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from gristmill.ingest.chunk import TextChunk
from gristmill.ingest.embed_queue import DocumentQueue, EmbedQueue, equal_parts, shortest_first
from gristmill.ingest.task import IndexTask


def document(queue: EmbedQueue, base: int, chunks: int, *, urgent: bool = False) -> DocumentQueue:
    """A document with waiting chunks."""
    task = cast("Any", SimpleNamespace(base=SimpleNamespace(id=UUID(int=base)), is_urgent=urgent))
    new_document = DocumentQueue(cast("IndexTask", task))
    new_document.add([TextChunk(n, f"{base} {n}", 0, 1, (), None) for n in range(chunks)], is_last=True)
    queue.add(new_document)
    return new_document


def documents_in_batch(queue: EmbedQueue, size: int) -> list[DocumentQueue]:
    batch, _ = queue.next_batch(size)
    return [chunk.queue for chunk in batch]


@pytest.mark.parametrize(
    ("size", "needs", "expected"),
    [
        (16, [256, 1, 1, 1], [13, 1, 1, 1]),
        (16, [256, 256], [8, 8]),
        (5, [9, 9, 9], [2, 2, 1]),
        (2, [9, 9, 9], [1, 1, 0]),
        (10, [1, 2], [1, 2]),
        (10, [], []),
        (0, [3], [0]),
        (9, [0, 9], [0, 9]),
    ],
)
def test_equal_parts(size: int, needs: list[int], expected: list[int]) -> None:
    assert equal_parts(size, needs) == expected


@pytest.mark.parametrize(
    ("size", "needs", "expected"),
    [
        (16, [256, 1, 1, 1], [13, 1, 1, 1]),
        (16, [256, 200], [4, 12]),
        (16, [9, 256, 5], [9, 2, 5]),
        (8, [0, 9, 3], [0, 5, 3]),
        (1, [9, 1], [1, 0]),
        (10, [1, 2], [1, 2]),
        (10, [], []),
        (0, [3], [0]),
    ],
)
def test_shortest_first(size: int, needs: list[int], expected: list[int]) -> None:
    assert shortest_first(size, needs) == expected


def test_small_documents_do_not_wait_for_a_large_one_of_their_base() -> None:
    """S4-18, S4-52: twenty one-page files behind a book are in the next two batches, and the book goes on."""
    queue = EmbedQueue()
    book = document(queue, 1, 256)
    small = [document(queue, 1, 1) for _ in range(20)]
    first, second = documents_in_batch(queue, 16), documents_in_batch(queue, 16)
    assert len(first) == len(second) == 16
    assert {*first, *second} == {book, *small}
    assert len(book.chunks) == 256 - (32 - 20)


def test_bases_have_equal_parts_however_many_documents_they_have() -> None:
    """S4-18."""
    queue = EmbedQueue()
    crowd = [document(queue, 1, 10) for _ in range(20)]
    lone = document(queue, 2, 100)
    batch = documents_in_batch(queue, 16)
    assert batch.count(lone) == 8
    assert len([each for each in batch if each in crowd]) == 8


def test_a_second_batch_is_worth_it_when_it_is_half_full_and_urgent_when_a_user_waits() -> None:
    """S4-52: with a fast embedder few transactions are made, and an interactive document does not wait for others."""
    queue = EmbedQueue()
    assert not queue.is_worth_a_batch(20)
    document(queue, 1, 5)
    document(queue, 2, 4)
    assert not queue.is_worth_a_batch(20)
    document(queue, 2, 1)
    assert queue.is_worth_a_batch(20)
    assert not queue.is_worth_a_batch(200)
    assert not queue.is_urgent
    document(queue, 2, 1, urgent=True)
    assert queue.is_urgent


def test_urgent_documents_come_first_within_their_base() -> None:
    queue = EmbedQueue()
    document(queue, 1, 100)
    urgent = document(queue, 1, 6, urgent=True)
    other = document(queue, 2, 100)
    batch = documents_in_batch(queue, 10)
    assert batch[:5] == [urgent] * 5
    assert batch[5:] == [other] * 5


def test_every_document_is_served_though_a_batch_has_too_little_room() -> None:
    queue = EmbedQueue()
    documents = [document(queue, 1, 3) for _ in range(7)]
    order = [each for _ in range(6) for each in documents_in_batch(queue, 4)]
    assert {*order} == {*documents}
    assert len(order) == 21


def test_large_documents_go_on_in_turn_however_many_small_ones_come() -> None:
    """S4-18, S4-52: of each batch, a quarter is for the one that has waited longest."""
    queue = EmbedQueue()
    books = [document(queue, 1, 256) for _ in range(2)]
    for _ in range(4):
        for _ in range(20):
            document(queue, 1, 1)
        documents_in_batch(queue, 16)
    assert all(256 - len(book.chunks) >= 4 for book in books)


def test_documents_of_a_base_are_finished_rather_than_begun() -> None:
    """Each transaction costs something for every document of which it writes a part."""
    queue = EmbedQueue()
    for chunks in (12, 14, 9, 30, 11, 13, 8, 60):
        document(queue, 1, chunks)
    batches = [documents_in_batch(queue, 32) for _ in range(5)]
    assert sum(len({*batch}) for batch in batches) <= 8 + len(batches)
    assert not queue


def test_a_document_whose_batches_fail_has_a_batch_of_its_own() -> None:
    queue = EmbedQueue()
    suspect, other = document(queue, 1, 4), document(queue, 2, 4)
    suspect.batch_limit = 2
    assert documents_in_batch(queue, 10) == [suspect] * 2
    suspect.batch_limit = None
    assert {*documents_in_batch(queue, 10)} == {suspect, other}
    assert not queue


def test_a_batch_that_a_user_waits_for_is_small() -> None:
    """S4-02: it does not take as long as a full batch of another base."""
    queue = EmbedQueue()
    document(queue, 1, 200)
    urgent = document(queue, 2, 1, urgent=True)
    assert len(batch := documents_in_batch(queue, 200)) == 16
    assert urgent in batch
    assert len(documents_in_batch(queue, 200)) == 185
