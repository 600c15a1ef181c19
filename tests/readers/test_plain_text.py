"""Plain text of any size, format and encoding."""

import resource
from contextlib import aclosing
from pathlib import Path

import pytest

from gristmill.errors import NoText
from gristmill.readers import ReadLimits, TextPart
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file
from tests.readers.conftest import ReadSample
from tests.readers.module_pool import pool as pool
from tests.readers.sentences import SENTENCES

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_encoding_is_guessed_when_it_is_not_utf_8(read_sample: ReadSample) -> None:
    reading = await read_sample((SENTENCES["zh"] + "\r\n# 第二\r\n").encode("gb18030"), "a.md")
    assert reading.text == SENTENCES["zh"] + "\n# 第二\n"
    assert reading.report.warnings == ["encoding_guessed"]


async def test_one_broken_byte_leaves_the_text_utf_8(read_sample: ReadSample) -> None:
    data = ("Grüße aus München. " * 20).encode() + b"\xff"
    reading = await read_sample(data, "a.txt")
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
        ("a.vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\n<v Ann>Hello</v>\n", "[00:00:00] Ann: Hello\n\n"),
        ("a.unknown", "just text\0".replace("\0", "\x07"), "just text"),
    ],
)
async def test_every_text_format_becomes_markdown(
    read_sample: ReadSample, name: str, data: str, text: str
) -> None:
    assert (await read_sample(data, name)).text == text


async def test_spaces_alone_are_no_text(read_sample: ReadSample) -> None:
    """C7."""
    with pytest.raises(NoText):
        await read_sample("  \n \n", "a.txt")


async def test_a_large_text_needs_little_memory(read_sample: ReadSample, tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    line = ("Ein Satz mit Umlauten: äöü, und noch einer. " * 20 + "\n").encode()
    with path.open("wb") as file:
        for _ in range(100):
            file.write(line * 1_000)
    characters = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pool = ReaderPool(1)  # not entered, so that it starts no child
    results = read_file(
        pool, path, name="large.txt", media_type=None, scratch=tmp_path, limits=ReadLimits(output_mb=200)
    )
    async with aclosing(results) as stream:
        async for result in stream:
            characters += len(result.text) if isinstance(result, TextPart) else 0
    assert characters == 100_000 * len(line.decode())
    assert pool.pids == []
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 30 * 1024
