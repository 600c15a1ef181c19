"""Plain text in UTF-8, streamed in a thread of this process: decoding it can't hurt, and a child would only cost time.

The file is walked once to see that it is valid to its end, then again piece by piece, so that a gigabyte takes a few
megabytes. What is not valid UTF-8 is left to a child, which guesses its encoding.
"""

import asyncio
import codecs
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gristmill.errors import NoText, Unreadable
from gristmill.readers import language, markdown_tables
from gristmill.readers import text_format as shapes
from gristmill.readers.results import ReadReport, TextPart
from gristmill.readers.sink import clean_text

_BLOCK_BYTES = 256 * 1024
_PLAIN_KINDS = frozenset(("text", "markdown", "code", "csv", "subtitles"))
_NOT_PLAIN_PREFIXES = (b"%PDF-", b"{\\rtf", b"From ", b"PK\x03\x04")
_BACKTICKS = re.compile(r"`{3,}")
_SUBTITLE_TIMING = re.compile(r"^(?:\d+\s*|(?:\d+:)?\d+:\d+[.,]\d+\s+-->.*|WEBVTT.*|NOTE(?:\s.*)?)$")
_SUBTITLE_TAG = re.compile(r"</?[a-zA-Z][^<>\n]*>|<\d[\d:.]*>")
_TITLE = re.compile(r"^#{1,2}[ \t]+(.+?)[ \t]*#*$", re.M)


@dataclass(frozen=True)
class PlainText:
    """A text that can be read here: its shape, and a fence that nothing in it closes."""

    text_format: shapes.TextFormat
    fence: str


def inspect_file(path: Path, name: str, media_type: str | None) -> PlainText | None:
    """The shape of the file when it is plain UTF-8 from beginning to end, else None."""
    with path.open("rb") as file:
        head = file.read(64 * 1024)
        if (
            b"\0" in head
            or head.startswith(_NOT_PLAIN_PREFIXES)
            or is_mail(head, name)
            or shapes.has_iso2022_escapes(head)
        ):
            return None
        text_format = shapes.detect_format(head, name, media_type)
        if text_format.kind not in _PLAIN_KINDS:
            return None
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        longest_run = 2
        try:
            while block := file.read(_BLOCK_BYTES):
                text = decoder.decode(block)
                if "\0" in text:
                    return None
                if "```" in text:
                    longest_run = max(longest_run, *(len(run) for run in _BACKTICKS.findall(text)))
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return None
    # One more than the longest run, and one for a run that two pieces share.
    return PlainText(text_format, "`" * (3 if longest_run == 2 else longest_run * 2 + 1))


def is_mail(head: bytes, name: str) -> bool:
    """Whether a text is a message."""
    first = head.lstrip(b"\xef\xbb\xbf").partition(b"\n")[0]
    return name.lower().endswith((".eml", ".mht", ".mhtml")) or (
        b": " in first
        and re.search(rb"^(mime-version|message-id|received|return-path):", head, re.I | re.M) is not None
    )


async def read(path: Path, plain: PlainText, max_characters: int) -> AsyncGenerator[TextPart | ReadReport]:
    """The parts of the file, then its report."""
    texts = _file_texts(path, plain)
    characters, sample, title, blank = 0, "", None, True
    while (text := await asyncio.to_thread(next, texts, None)) is not None:
        if not text:
            continue
        characters += len(text)
        if characters > max_characters:
            raise Unreadable(f"It gives more than {max_characters:,} characters of text.", code="bomb")
        if len(sample) < 20_000:
            sample += text[:20_000]
            title = title or _title(sample, plain.text_format)
        blank = blank and not text.strip()
        yield TextPart(text)
    if blank:
        raise NoText("It holds blanks, but no text.")
    yield ReadReport(title=title, language=language.guess(sample), kind=plain.text_format.kind)


def _title(sample: str, shape: shapes.TextFormat) -> str | None:
    found = _TITLE.search(sample) if shape.kind == "markdown" else None
    return found.group(1)[:500] if found else None


def _file_texts(path: Path, plain: PlainText) -> Iterator[str]:
    with path.open("rb") as file:
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        yield from to_markdown(
            decode_blocks(lambda: file.read(_BLOCK_BYTES), decoder), plain.text_format, plain.fence
        )


def decode_blocks(read_block: Callable[[], bytes], decoder: codecs.IncrementalDecoder) -> Iterator[str]:
    """Text from bytes, piece by piece, without cutting a line end in two."""
    pending = ""
    while block := read_block():
        text = pending + decoder.decode(block)
        pending = ""
        if text.endswith("\r"):
            text, pending = text[:-1], "\r"
        if text:
            yield clean_text(text)
    if rest := pending + decoder.decode(b"", final=True):
        yield clean_text(rest)


def to_markdown(texts: Iterable[str], text_format: shapes.TextFormat, fence: str = "```") -> Iterator[str]:
    """`texts` as canonical markdown."""
    if text_format.kind == "code":
        yield f"{fence}{text_format.language}\n"
        last = ""
        for text in texts:
            yield text
            last = text or last
        yield fence + "\n" if last.endswith("\n") else f"\n{fence}\n"
    elif text_format.kind == "csv":
        yield from markdown_tables.csv_to_markdown(texts)
    elif text_format.kind == "subtitles":
        for line in markdown_tables.split_lines(texts):
            if not _SUBTITLE_TIMING.match(line.strip()):
                yield _SUBTITLE_TAG.sub("", line)
    else:
        yield from texts
