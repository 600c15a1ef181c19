"""Plain text of any size, shape and encoding."""

import resource
from pathlib import Path

import pytest

from gristmill.errors import NoText
from gristmill.readers import ReadLimits
from tests.readers.conftest import Reader
from tests.readers.shared import pool as pool
from tests.readers.texts import TEXTS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_text_that_is_not_utf_8_is_decoded_and_says_so(reads: Reader) -> None:
    reading = await reads((TEXTS["zh"] + "\r\n# 第二\r\n").encode("gb18030"), "a.md")
    assert reading.text == TEXTS["zh"] + "\n# 第二\n"
    assert reading.report.warnings == ["encoding_guessed"]
    assert (reading.report.title, reading.report.language) == ("第二", "zh")


async def test_a_text_with_one_broken_byte_is_utf_8_still(reads: Reader) -> None:
    data = ("Grüße aus München. " * 20).encode() + b"\xff"
    reading = await reads(data, "a.txt")
    assert reading.text == "Grüße aus München. " * 20 + "\ufffd"


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.md", "# Title\r\n\r\ntext", "# Title\n\ntext"),
        ("a.py", "# no heading\nx = 1", "```python\n# no heading\nx = 1\n```\n"),
        ("a.md.py", "x = '```'\n", "```````python\nx = '```'\n```````\n"),
        ("a.json", '{"a": 1}\n', '```json\n{"a": 1}\n```\n'),
        ("a.csv", 'a;b\n1;"two; |"\n', "| a | b |\n| --- | --- |\n| 1 | two; \\| |\n"),
        ("a.tsv", "a\tb\n1\t2", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"),
        ("a.vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\n<v Ann>Hello</v>\n", "\nHello\n"),
        ("a.unknown", "just text\0".replace("\0", "\x07"), "just text"),
    ],
)
async def test_each_shape_of_text_becomes_markdown(reads: Reader, name: str, data: str, text: str) -> None:
    assert (await reads(data, name)).text == text


async def test_blanks_alone_are_no_text(reads: Reader) -> None:
    """C7."""
    with pytest.raises(NoText):
        await reads("  \n \n", "a.txt")


async def test_a_large_text_is_read_in_flat_memory(reads: Reader, tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    line = ("Ein Satz mit Umlauten: äöü, und noch einer. " * 20 + "\n").encode()
    with path.open("wb") as file:
        for _ in range(100):
            file.write(line * 1_000)
    characters = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    from contextlib import aclosing

    from gristmill.readers import ReaderPool, TextPart, read_file

    pool = ReaderPool(1)  # not opened: no child is needed
    results = read_file(
        pool, path, name="large.txt", media_type=None, scratch=tmp_path, limits=ReadLimits(output_mb=200)
    )
    async with aclosing(results) as stream:
        async for result in stream:
            characters += len(result.text) if isinstance(result, TextPart) else 0
    assert characters == 100_000 * len(line.decode())
    assert pool.pids == []
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 30 * 1024
