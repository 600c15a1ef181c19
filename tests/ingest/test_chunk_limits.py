"""Chunking at its limits: lines that barely fit, that count higher than their words, or that leave no room for an overlap."""

import pytest
from tokenizers import Tokenizer, models, normalizers

from gristmill.ingest.chunk import Chunker, TextChunk, split
from tests.ingest.test_chunk import HASHED, letters

pytestmark = pytest.mark.slow

LIMIT = 16  # tokens; so that a chunk has at most 512 characters


def split_with_overlap(text: str, overlap: int) -> list[TextChunk]:
    chunker = Chunker(HASHED, LIMIT, overlap)
    return [*chunker.feed(text), *chunker.finish()]


@pytest.mark.parametrize(
    ("text", "limit", "chunks"),
    [
        ("a b c d", 16, ["a b", "c d"]),
        ("a b c d e f", 16, ["a b c", "d e f"]),
        ("a b", 9, ["a", "b"]),
        ("a b c d\n" * 3, 16, ["a b", "c d"] * 3),
    ],
)
def test_a_line_with_more_tokens_than_its_words_is_halved(text: str, limit: int, chunks: list[str]) -> None:
    split_chunks = split(text, letters(), limit)
    assert (
        [chunk.text for chunk in split_chunks]
        == [text[chunk.start : chunk.end] for chunk in split_chunks]
        == chunks
    )


def test_a_character_with_too_many_tokens_is_a_chunk() -> None:
    tokenizer = Tokenizer(models.BPE({"<unk>": 0}, [], unk_token="<unk>", fuse_unk=False))
    tokenizer.normalizer = normalizers.Replace("x", "many tokens")
    assert [chunk.text for chunk in split("xx", tokenizer, 5)] == ["x", "x"]


def test_an_overlap_is_left_out_if_the_next_line_does_not_fit_beside_it() -> None:
    text = "short\n" + "".join(letter * 238 + "\n" for letter in "abc")
    assert [(chunk.start, chunk.end) for chunk in split_with_overlap(text, 8)] == [(0, 483), (484, 722)]


def test_a_line_of_half_a_chunk_is_not_split() -> None:
    text = "s" * 99 + "\n" + "a" * 255 + "\n" + "b" * 255 + "\n"
    assert [(chunk.start, chunk.end) for chunk in split(text, HASHED, LIMIT)] == [(0, 355), (356, 611)]


def test_a_chunk_that_is_half_full_ends_before_a_heading() -> None:
    before = "one two three four five six seven eight\n"
    after = "# Head\n\nnine ten\n\neleven twelve thirteen\n\nfourteen fifteen sixteen\n"
    assert split(before + after, HASHED, LIMIT)[0].text == before.strip()
