"""Chunking along the structure of a document: headings, code, tables, lists, sentences, pages."""

from itertools import pairwise

import pytest

from gristmill.ingest.chunk import Chunker, TextChunk, split
from tests.ingest.test_chunk import DOCUMENT, GRANITE, HASHED, chunk_in_parts, count


def test_a_chunk_has_the_headings_above_it() -> None:
    chunks = split(DOCUMENT, HASHED, 12)
    by_text = {chunk.text: chunk.headings for chunk in chunks}
    assert next(path for text, path in by_text.items() if "pip install" in text) == ("Guide", "Install")
    assert next(path for text, path in by_text.items() if "保持真实" in text) == ("Guide", "使用")
    assert next(path for text, path in by_text.items() if "The end" in text) == ("Appendix",)


def test_every_form_of_heading_counts_and_nothing_else() -> None:
    text = (
        "---\ntitle: Front\n# a comment\n---\n\nTop\n===\n\none two three\n\nSub ##\n---\r\n\n"
        "four five six\n\n### C# ###\n\nseven eight\n\n    # indented code\n\nnine ten\n\n~~~\n# shell\n~~~\n\n"
        "```` md\n```\n# still code\n````\n#hash\n\neleven twelve\n"
    )
    paths = {chunk.headings for chunk in split(text, HASHED, 4)}
    assert paths == {(), ("Top",), ("Top", "Sub ##"), ("Top", "Sub ##", "C#")}


def test_a_heading_stays_with_the_text_below_it() -> None:
    text = "".join(f"## Section {n}\n\n" + f"text{n} " * 20 + "\n\n" for n in range(30))
    chunks = split(text, HASHED, 32)
    assert [chunk.text.split("\n")[0] for chunk in chunks] == [f"## Section {n}" for n in range(30)]
    assert [chunk.headings for chunk in chunks] == [(f"Section {n}",) for n in range(30)]


def test_small_sections_share_a_chunk() -> None:
    text = "".join(f"## S{n}\n\nshort text\n\n" for n in range(40))
    chunks = split(text, HASHED, 64)
    assert len(chunks) <= 5
    assert all(chunk.text.startswith("## ") for chunk in chunks)


def test_code_that_fits_is_not_split() -> None:
    code = "```py\n" + "call(a)\n\n" * 8 + "```"
    text = "Some words before it.\n\n" + "lorem " * 20 + "\n\n" + code + "\n\nAnd after it.\n"
    assert sum(code in chunk.text for chunk in split(text, HASHED, 60)) == 1


def test_longer_code_is_cut_at_its_lines() -> None:
    text = "```\n" + "".join(f"call({n}, {n})\n" for n in range(200)) + "```\n"
    for chunk in split(text, HASHED, 40):
        assert all(line == "```" or line.endswith(")") for line in chunk.text.splitlines())


def test_a_table_is_cut_between_its_rows() -> None:
    rows = [f"| row {n} | some cell | other. cell |" for n in range(60)]
    text = "Intro.\n\n| a | b | c |\n|---|:-:|--:|\n" + "\n".join(rows) + "\n\nOutro.\n"
    chunks = split(text, HASHED, 50)
    table_lines = [line for chunk in chunks for line in chunk.text.splitlines() if line.startswith("|")]
    assert table_lines == ["| a | b | c |", "|---|:-:|--:|", *rows]
    head = next(chunk for chunk in chunks if "| a | b |" in chunk.text)
    assert "|---|" in head.text


def test_lists_are_cut_between_their_items() -> None:
    text = "".join(f"- item {n} of a list\n  - with more\n" for n in range(50))
    assert all(chunk.text.startswith("- item") for chunk in split(text, HASHED, 40))


def test_chinese_is_cut_at_the_ends_of_sentences() -> None:
    text = "知识库不会丢失任何文档！它会一直保持真实。“真的吗？”是的。" * 40
    chunks = split(text, GRANITE, 128)
    assert len(chunks) > 5
    assert all(chunk.text[-1] in "。！”" for chunk in chunks)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_of_any_system_give_the_same_chunks(end: str) -> None:
    chunks = split(DOCUMENT.replace("\n", end), HASHED, 12)
    expected = split(DOCUMENT, HASHED, 12)
    assert [chunk.text.replace(end, "\n") for chunk in chunks] == [chunk.text for chunk in expected]
    assert [chunk.headings for chunk in chunks] == [chunk.headings for chunk in expected]


def test_a_chunk_has_the_page_it_starts_on() -> None:
    chunker = Chunker(HASHED, 16)
    chunks: list[TextChunk] = []
    for page in range(1, 6):
        for part in ("First words of a page. ", "And some more of them, twelve tokens or so.\n\n"):
            chunks += chunker.feed(part, page)
    chunks += chunker.finish()
    assert [chunk.page for chunk in chunks] == sorted(chunk.page or 0 for chunk in chunks)
    assert {chunk.page for chunk in chunks} == {1, 2, 3, 4, 5}
    chunker = Chunker(HASHED, 8)
    parts = [chunker.feed("one two three four\n\n", 1), chunker.feed("five six seven eight nine\n\n", 2)]
    pages = {chunk.text: chunk.page for chunk in [*parts[0], *parts[1], *chunker.finish()]}
    assert pages == {"one two three four": 1, "five six seven eight nine": 2}
    assert all(chunk.page is None for chunk in split("no pages here", HASHED, 16))


def test_overlap_repeats_the_end_of_the_chunk_before() -> None:
    text = "".join(f"Sentence number {n} is here. " for n in range(100))
    chunks = chunk_in_parts(text, [500], HASHED, 40, overlap=10)
    for first, second in pairwise(chunks):
        assert first.start < second.start < first.end
        assert count(HASHED, text[second.start : first.end]) <= 10
