"""Chunking: exact offsets, never too long, split along the document's structure, the same for any split into parts."""

import hashlib
import itertools
import pickle
import random
import time
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers

from gristmill.embedding.local_models import GRANITE as GRANITE_MODEL
from gristmill.ingest.chunk import RECIPE, Chunker, TextChunk, split, token_limit
from gristmill.ingest.lines import MAX_LINE, ContentLine, LineSplitter
from tests.docs.pages import ROOT
from tests.embedding.hashed import HashedEmbedder

pytestmark = pytest.mark.slow

HASHED = HashedEmbedder().tokenizer
GRANITE = GRANITE_MODEL.tokenizer
DOCS = ROOT / "docs"


def letters() -> Tokenizer:
    """A tokenizer of letters for which two neighbouring words have more tokens than each word alone."""
    tokenizer = Tokenizer(models.BPE({"<unk>": 0}, [], unk_token="<unk>", fuse_unk=False))
    tokenizer.normalizer = normalizers.Replace(Regex("[a-z] [a-z]"), "neighbours")
    return tokenizer


DOCUMENT = """# Guide

Intro text.

## Install

Run this:

```sh
# not a heading
pip install gristmill
```

## 使用

知识库不会丢失任何文档。它会一直保持真实。

# Appendix

The end.
"""
FRAGMENTS = [
    *(
        "alpha",
        "beta",
        "kubernetes",
        "知识库",
        "。",
        "！",
        "é",
        "😀",
        "👩‍👩‍👧",
        "\0",
        "\x1c",
        "\u2028",
        "\u3000",
        "\xa0",
        "\ufeff",
    ),
    *(" ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", "   \n", ". ", ", ", "; ", "...", "?!"),
    *(
        "# head\n",
        "### deep\n",
        "Title\n=====\n",
        "Part\n---\n",
        "---\nkey: value\n---\n",
        "#\n",
        "    # code\n",
    ),
    *(
        "```\n",
        "```py\n",
        "~~~\n",
        "- item\n",
        "  - nested\n",
        "1. one\n",
        "| a | b |\n",
        "|---|---|\n",
        "note:\n",
    ),
    *("x" * 70, "=" * 40, "aGVsbG8=" * 9, "word " * 30, "中文句子没有空格" * 6),
]


def long_document(seed: int) -> str:
    return "".join(random.Random(seed).choices(FRAGMENTS, k=150))


documents = st.one_of(
    st.integers(0, 10**6).map(long_document),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=12)), max_size=120).map("".join),
)
tokenizers = st.sampled_from([HASHED, GRANITE, letters()])


def count(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False))


def chunk_in_parts(
    text: str, sizes: list[int], tokenizer: Tokenizer, tokens: int, overlap: int = 0
) -> list[TextChunk]:
    """The chunks of `text` when it arrives in parts of these sizes, repeated."""
    chunker = Chunker(tokenizer, tokens, overlap)
    chunks: list[TextChunk] = []
    at = step = 0
    while at < len(text):
        size = sizes[step % len(sizes)]
        chunks += chunker.feed(text[at : at + size])
        at, step = at + size, step + 1
    return chunks + chunker.finish()


def uncovered_text(text: str, chunks: list[TextChunk]) -> str:
    covered = [False] * len(text)
    for chunk in chunks:
        covered[chunk.start : chunk.end] = [True] * len(chunk.text)
    return "".join(c for c, is_covered in zip(text, covered, strict=True) if not is_covered)


@given(documents, st.integers(16, 80), tokenizers, st.sampled_from([0, 0, 5, 30]))
@settings(max_examples=120, deadline=None)
def test_offsets_are_exact_nothing_is_lost_and_no_chunk_is_too_long(
    text: str, tokens: int, tokenizer: Tokenizer, overlap: int
) -> None:
    chunks = chunk_in_parts(text, [1 << 20], tokenizer, tokens, overlap)
    for chunk in chunks:
        assert text[chunk.start : chunk.end] == chunk.text == chunk.text.strip() != ""
        assert count(tokenizer, chunk.text) <= tokens
    assert uncovered_text(text, chunks).strip() == ""
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(first.start < second.start and first.end < second.end for first, second in pairwise(chunks))
    if not overlap:
        assert all(first.end <= second.start for first, second in pairwise(chunks))


@given(documents, st.lists(st.integers(1, 200), min_size=1, max_size=5), st.integers(16, 80), tokenizers)
@settings(max_examples=120, deadline=None)
def test_chunks_do_not_depend_on_the_parts(
    text: str, sizes: list[int], tokens: int, tokenizer: Tokenizer
) -> None:
    assert chunk_in_parts(text, sizes, tokenizer, tokens) == chunk_in_parts(
        text, [1 << 20], tokenizer, tokens
    )


@pytest.mark.parametrize("unit", ["x", "word ", "中文。", "Some sentence here. ", "ab\tc ", "é"])
def test_chunks_of_a_very_long_line_do_not_depend_on_the_parts(unit: str) -> None:
    text = "# Before\n" + unit * (3 * MAX_LINE // len(unit)) + "\n## After\n\n" + "last " * 90
    expected = split(text, HASHED, 64)
    assert chunk_in_parts(text, [999], HASHED, 64) == chunk_in_parts(text, [MAX_LINE], HASHED, 64) == expected
    assert uncovered_text(text, expected).strip() == ""
    assert all(count(HASHED, chunk.text) <= 64 for chunk in expected)
    assert expected[-1].headings == ("Before", "After")


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        "aGVsbG8gd29ybGQ",
        "文",
        ".",
        "。",
        "`",
        "#",
        "|",
        "-",
        " ",
        "\t",
        "\r",
        "\0",
        "😀",
        "ab,",
        " .",
        "\n",
        "> ",
    ],
)
def test_time_is_linear_for_text_without_breaks(unit: str) -> None:
    """Ten times the text may take some forty times as long on a busy machine; anything quadratic takes a hundred."""

    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        chunks = split(text, GRANITE, 256)
        assert all(count(GRANITE, chunk.text) <= 256 for chunk in chunks[:20])
        return time.process_time() - started

    seconds(1000)
    assert seconds(200_000) < 40 * max(seconds(20_000), 0.02)


@pytest.mark.parametrize("unit", ["\n", "\r\n", " \n", "\t\r\n", "\n" * 999 + "word "])
def test_blank_lines_cost_hardly_more_than_any_other_white_space(unit: str) -> None:
    """Counted in lines that are ranked: runs of blank lines are ranked together, and four times as many of them are four
    times as many runs."""

    def ranked_lines(size: int) -> int:
        splitter, text = LineSplitter(), unit * (size // len(unit))
        return sum(len(splitter.feed(text[at : at + 10_000])) for at in range(0, size, 10_000)) + len(
            splitter.finish()
        )

    newlines = 400_000 * unit.count("\n") // len(unit)
    lines = ranked_lines(400_000)
    assert lines <= newlines / 100
    assert 3 * lines <= ranked_lines(1_600_000) <= 5 * lines


@given(
    st.lists(
        st.sampled_from(["\n", "\r\n", " \n", " " * 9 + "\n", "x\n", " x", " ", "\n" * 300, "y" * 17_000]),
        max_size=30,
    ),
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
)
def test_lines_do_not_depend_on_the_parts(pieces: list[str], sizes: list[int]) -> None:
    text = "".join(pieces)

    def split_lines(cuts: list[int]) -> list[ContentLine]:
        splitter, lines, at = LineSplitter(), list[ContentLine](), 0
        for size in itertools.cycle(cuts):
            if at >= len(text):
                return lines + splitter.finish()
            lines += splitter.feed(text[at : at + size])
            at += size
        raise AssertionError

    expected = split_lines([max(1, len(text))])
    assert "".join(line.text for line in expected) == text
    assert split_lines([size * (1 if len(text) < 2000 else 997) for size in sizes]) == expected


def test_memory_does_not_grow_with_the_content() -> None:
    dice = random.Random(1)
    words = [f"word{n}" for n in range(500)]
    part = " ".join(dice.choices(words, k=5000)) + "\n\n"
    chunker = Chunker(HASHED, 256)

    def peak(parts: int) -> int:
        tracemalloc.start()
        for _ in range(parts):
            chunker.feed(part)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peak(1)
    assert peak(30) < 1.3 * peak(3)


@pytest.mark.parametrize("text", ["", "   ", "\n\n", "\x1c\x85"])
def test_blank_text_has_no_chunks(text: str) -> None:
    assert split(text, HASHED, 16) == []


def sample_documents() -> list[str]:
    """Some of everything: markup, lines and words longer than a chunk, and sentences of two languages."""
    sentences = "".join(f"Sentence {n} of a long paragraph, with a clause; and more. " for n in range(60))
    chinese = "知识库不会丢失任何文档，它会一直保持真实。“真的吗？”是的！" * 12
    rows = "".join(f"| row {n} | some cell | other. cell |\n" for n in range(40))
    return [
        *map(long_document, range(12)),
        DOCUMENT * 3,
        f"# Prose\n\n{sentences}\n\n## 中文\n\n{chinese}\n",
        f"Intro.\n\n| a | b | c |\n|---|:-:|--:|\n{rows}\nOutro.\n",
        "x" * 3000 + " " + "aGVsbG8=" * 200 + "\n" + "=" * 2000 + "\n" + " . " * 300,
        "  lead\n\ttab\n" + "word " * (MAX_LINE // 4) + "\nlast",
        "".join(f"line {number}\n" for number in range(1300)),
    ]


def test_content_is_split_the_same_way_until_the_recipe_changes() -> None:
    """S3-04: chunks are reused while the recipe is the same. Who splits differently changes `RECIPE` and this digest."""
    digest = hashlib.sha256(RECIPE.encode())

    def add(chunks: list[TextChunk]) -> None:
        for chunk in chunks:
            digest.update(f"{chunk.index} {chunk.start} {chunk.end} {chunk.headings} {chunk.page}\n".encode())

    for text in sample_documents():
        for tokenizer in (HASHED, letters()):
            for tokens, overlap in [(16, 0), (40, 12), (40, 30)]:
                chunker = Chunker(tokenizer, tokens, overlap)
                for number, at in enumerate(range(0, len(text), 700)):
                    add(chunker.feed(text[at : at + 700], number // 3))
                add(chunker.finish())
            add(split(text, tokenizer, 96))
    assert digest.hexdigest() == "8ff4741cd767ffb500bb328a6b82c22810d77a2872bfaf705776ff06ee9e5d83"


def test_a_chunker_that_was_pickled_goes_on_where_it_was() -> None:
    first, rest = DOCUMENT[:100], DOCUMENT[100:] * 5
    chunker = Chunker(HASHED, 16)
    chunks = chunker.feed(first)
    copy: Chunker = pickle.loads(pickle.dumps(chunker))
    copy.use_tokenizer(HASHED)
    assert chunks + copy.feed(rest) + copy.finish() == split(first + rest, HASHED, 16)


def test_a_chunk_has_256_tokens_unless_the_base_or_the_embedder_says_otherwise() -> None:
    assert token_limit(HashedEmbedder(), {}) == 256
    assert token_limit(HashedEmbedder(), {"maxTokens": 64}) == 64
    assert token_limit(HashedEmbedder(max_tokens=128), {}) == 128
    assert token_limit(HashedEmbedder(max_tokens=128), {"maxTokens": 512}) == 128


@pytest.mark.parametrize("tokenizer", [HASHED, GRANITE], ids=["hashed", "granite"])
def test_chunks_say_how_many_tokens_they_have(tokenizer: Tokenizer) -> None:
    """What embedding costs is reserved and charged by this number. It is a sum over lines, so unusual white space counts a
    little more."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*/*.md")))
    for overlap in (0, 30):
        chunks = chunk_in_parts(text, [1 << 20], tokenizer, 256, overlap)
        exact = sum(count(tokenizer, chunk.text) for chunk in chunks)
        assert sum(chunk.tokens or 0 for chunk in chunks) == pytest.approx(exact, rel=0.01)
