"""Cutting: the same exact pieces however the content comes, none too long, along what the document is made of."""

import random
import time
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers

from gristmill.embedding import pack
from gristmill.ingest.chunk import Chunker, TextChunk, split
from gristmill.ingest.lines import MAX_LINE
from tests.embedding.hashed import HashedEmbedder

HASHED = HashedEmbedder().tokenizer
GRANITE = pack.tokenizer(pack.find())


def letters() -> Tokenizer:
    """A tokenizer of letters, for which neighbouring words are more than each by itself."""
    made = Tokenizer(models.BPE({"<unk>": 0}, [], unk_token="<unk>", fuse_unk=False))
    made.normalizer = normalizers.Replace(Regex("[a-z] [a-z]"), "neighbours")  # pyright: ignore[reportAttributeAccessIssue] it has no types
    return made


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


def fed(text: str, sizes: list[int], tokenizer: Tokenizer, tokens: int, overlap: int = 0) -> list[TextChunk]:
    """The pieces of `text` when it comes in parts of these sizes, over and over."""
    chunker = Chunker(tokenizer, tokens, overlap)
    pieces: list[TextChunk] = []
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        pieces += chunker.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return pieces + chunker.finish()


def left_out(text: str, pieces: list[TextChunk]) -> str:
    covered = [False] * len(text)
    for piece in pieces:
        covered[piece.start : piece.end] = [True] * len(piece.text)
    return "".join(c for c, seen in zip(text, covered, strict=True) if not seen)


@given(documents, st.integers(16, 80), tokenizers, st.sampled_from([0, 0, 5, 30]))
@settings(max_examples=120, deadline=None)
def test_offsets_are_exact_nothing_is_lost_and_no_piece_is_too_long(
    text: str, tokens: int, tokenizer: Tokenizer, overlap: int
) -> None:
    pieces = fed(text, [1 << 20], tokenizer, tokens, overlap)
    for piece in pieces:
        assert text[piece.start : piece.end] == piece.text == piece.text.strip() != ""
        assert count(tokenizer, piece.text) <= tokens
    assert left_out(text, pieces).strip() == ""
    assert [piece.index for piece in pieces] == list(range(len(pieces)))
    assert all(one.start < two.start and one.end < two.end for one, two in pairwise(pieces))
    if not overlap:
        assert all(one.end <= two.start for one, two in pairwise(pieces))


@given(documents, st.lists(st.integers(1, 200), min_size=1, max_size=5), st.integers(16, 80), tokenizers)
@settings(max_examples=120, deadline=None)
def test_the_pieces_are_the_same_whatever_the_parts(
    text: str, sizes: list[int], tokens: int, tokenizer: Tokenizer
) -> None:
    assert fed(text, sizes, tokenizer, tokens) == fed(text, [1 << 20], tokenizer, tokens)


@pytest.mark.parametrize("unit", ["x", "word ", "中文。", "Some sentence here. ", "ab\tc ", "é"])
def test_a_line_too_long_to_hold_is_cut_the_same_whatever_the_parts(unit: str) -> None:
    text = "# Before\n" + unit * (3 * MAX_LINE // len(unit)) + "\n## After\n\n" + "last " * 90
    whole = split(text, HASHED, 64)
    assert fed(text, [999], HASHED, 64) == fed(text, [MAX_LINE], HASHED, 64) == whole
    assert left_out(text, whole).strip() == ""
    assert all(count(HASHED, piece.text) <= 64 for piece in whole)
    assert whole[-1].headings == ("Before", "After")


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
def test_text_without_an_end_in_sight_takes_time_in_proportion(unit: str) -> None:
    """Ten times the text may take some forty times as long on a busy machine; anything quadratic takes a hundred."""

    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        begun = time.process_time()
        pieces = split(text, GRANITE, 256)
        assert all(count(GRANITE, piece.text) <= 256 for piece in pieces[:20])
        return time.process_time() - begun

    seconds(1000)
    assert seconds(200_000) < 40 * max(seconds(20_000), 0.02)


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


def test_a_piece_knows_the_headings_it_stands_under() -> None:
    pieces = split(DOCUMENT, HASHED, 12)
    by_text = {piece.text: piece.headings for piece in pieces}
    assert next(path for text, path in by_text.items() if "pip install" in text) == ("Guide", "Install")
    assert next(path for text, path in by_text.items() if "保持真实" in text) == ("Guide", "使用")
    assert next(path for text, path in by_text.items() if "The end" in text) == ("Appendix",)


def test_every_form_of_heading_counts_and_nothing_else() -> None:
    text = (
        "---\ntitle: Front\n# a comment\n---\n\nTop\n===\n\none two three\n\nSub ##\n---\r\n\n"
        "four five six\n\n### C# ###\n\nseven eight\n\n    # indented code\n\nnine ten\n\n~~~\n# shell\n~~~\n\n"
        "```` md\n```\n# still code\n````\n#hash\n\neleven twelve\n"
    )
    paths = {piece.headings for piece in split(text, HASHED, 4)}
    assert paths == {(), ("Top",), ("Top", "Sub ##"), ("Top", "Sub ##", "C#")}


def test_a_heading_goes_with_what_follows_it() -> None:
    text = "".join(f"## Section {n}\n\n" + f"text{n} " * 20 + "\n\n" for n in range(30))
    pieces = split(text, HASHED, 32)
    assert [piece.text.split("\n")[0] for piece in pieces] == [f"## Section {n}" for n in range(30)]
    assert [piece.headings for piece in pieces] == [(f"Section {n}",) for n in range(30)]


def test_small_neighbours_share_a_piece() -> None:
    text = "".join(f"## S{n}\n\nshort text\n\n" for n in range(40))
    pieces = split(text, HASHED, 64)
    assert len(pieces) <= 5
    assert all(piece.text.startswith("## ") for piece in pieces)


def test_code_that_fits_is_kept_whole() -> None:
    code = "```py\n" + "call(a)\n\n" * 8 + "```"
    text = "Some words before it.\n\n" + "lorem " * 20 + "\n\n" + code + "\n\nAnd after it.\n"
    assert sum(code in piece.text for piece in split(text, HASHED, 60)) == 1


def test_longer_code_is_cut_at_its_lines() -> None:
    text = "```\n" + "".join(f"call({n}, {n})\n" for n in range(200)) + "```\n"
    for piece in split(text, HASHED, 40):
        assert all(line == "```" or line.endswith(")") for line in piece.text.splitlines())


def test_a_table_is_cut_between_its_rows() -> None:
    rows = [f"| row {n} | some cell | other. cell |" for n in range(60)]
    text = "Intro.\n\n| a | b | c |\n|---|:-:|--:|\n" + "\n".join(rows) + "\n\nOutro.\n"
    pieces = split(text, HASHED, 50)
    found = [line for piece in pieces for line in piece.text.splitlines() if line.startswith("|")]
    assert found == ["| a | b | c |", "|---|:-:|--:|", *rows]
    head = next(piece for piece in pieces if "| a | b |" in piece.text)
    assert "|---|" in head.text


def test_lists_are_cut_between_their_items() -> None:
    text = "".join(f"- item {n} of a list\n  - with more\n" for n in range(50))
    assert all(piece.text.startswith("- item") for piece in split(text, HASHED, 40))


def test_chinese_is_cut_at_the_ends_of_sentences() -> None:
    text = "知识库不会丢失任何文档！它会一直保持真实。“真的吗？”是的。" * 40
    pieces = split(text, GRANITE, 128)
    assert len(pieces) > 5
    assert all(piece.text[-1] in "。！”" for piece in pieces)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_of_any_system_make_the_same_pieces(end: str) -> None:
    pieces = split(DOCUMENT.replace("\n", end), HASHED, 12)
    expected = split(DOCUMENT, HASHED, 12)
    assert [piece.text.replace(end, "\n") for piece in pieces] == [piece.text for piece in expected]
    assert [piece.headings for piece in pieces] == [piece.headings for piece in expected]


def test_a_piece_tells_the_page_it_begins_on() -> None:
    chunker = Chunker(HASHED, 16)
    pieces: list[TextChunk] = []
    for page in range(1, 6):
        for part in ("First words of a page. ", "And some more of them, twelve tokens or so.\n\n"):
            pieces += chunker.feed(part, page)
    pieces += chunker.finish()
    assert [piece.page for piece in pieces] == sorted(piece.page or 0 for piece in pieces)
    assert {piece.page for piece in pieces} == {1, 2, 3, 4, 5}
    assert all(piece.page is None for piece in split("no pages here", HASHED, 16))


def test_overlap_repeats_the_end_of_the_piece_before() -> None:
    text = "".join(f"Sentence number {n} is here. " for n in range(100))
    pieces = fed(text, [500], HASHED, 40, overlap=10)
    for one, two in pairwise(pieces):
        assert one.start < two.start < one.end
        assert count(HASHED, text[two.start : one.end]) <= 10


@pytest.mark.parametrize("text", ["", "   ", "\n\n", "\x1c\x85"])
def test_nothing_gives_no_pieces(text: str) -> None:
    assert split(text, HASHED, 16) == []
