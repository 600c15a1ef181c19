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
from gristmill.ingest.readers import language, shapes, tables
from gristmill.ingest.readers.results import Part, Report
from gristmill.ingest.readers.sink import clean

_PIECE = 256 * 1024
_HERE = frozenset(("text", "markdown", "code", "csv", "subtitles"))
_MARK_UP = (b"%PDF-", b"{\\rtf", b"From ", b"PK\x03\x04")
_TICKS = re.compile(r"`{3,}")
_TIMES = re.compile(r"^(?:\d+\s*|(?:\d+:)?\d+:\d+[.,]\d+\s+-->.*|WEBVTT.*|NOTE(?:\s.*)?)$")
_VOICE = re.compile(r"</?[a-zA-Z][^<>\n]*>|<\d[\d:.]*>")
_TITLE = re.compile(r"^#{1,2}[ \t]+(.+?)[ \t]*#*$", re.M)


@dataclass(frozen=True)
class PlainShape:
    """A text that can be read here: its shape, and a fence that nothing in it closes."""

    shape: shapes.Shape
    fence: str


def look(path: Path, name: str, media_type: str | None) -> PlainShape | None:
    """The shape of the file when it is plain UTF-8 from beginning to end, else None."""
    with path.open("rb") as file:
        head = file.read(64 * 1024)
        if b"\0" in head or head.startswith(_MARK_UP) or is_mail(head, name) or shapes.escaped(head):
            return None
        shape = shapes.of(head, name, media_type)
        if shape.kind not in _HERE:
            return None
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        ticks = 2
        try:
            while piece := file.read(_PIECE):
                text = decoder.decode(piece)
                if "\0" in text:
                    return None
                if "```" in text:
                    ticks = max(ticks, *(len(run) for run in _TICKS.findall(text)))
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return None
    # One more than the longest run, and one for a run that two pieces share.
    return PlainShape(shape, "`" * (3 if ticks == 2 else ticks * 2 + 1))


def is_mail(head: bytes, name: str) -> bool:
    """Whether a text is a message."""
    first = head.lstrip(b"\xef\xbb\xbf").partition(b"\n")[0]
    return name.lower().endswith((".eml", ".mht", ".mhtml")) or (
        b": " in first
        and re.search(rb"^(mime-version|message-id|received|return-path):", head, re.I | re.M) is not None
    )


async def read(path: Path, plain: PlainShape, most: int) -> AsyncGenerator[Part | Report]:
    """The parts of the file, then its report."""
    texts = _texts(path, plain)
    characters, sample, title, blank = 0, "", None, True
    while (text := await asyncio.to_thread(next, texts, None)) is not None:
        if not text:
            continue
        characters += len(text)
        if characters > most:
            raise Unreadable(f"It gives more than {most:,} characters of text.", code="bomb")
        if len(sample) < 20_000:
            sample += text[:20_000]
            title = title or _title(sample, plain.shape)
        blank = blank and not text.strip()
        yield Part(text)
    if blank:
        raise NoText("It holds blanks, but no text.")
    yield Report(title=title, language=language.guess(sample), kind=plain.shape.kind)


def _title(sample: str, shape: shapes.Shape) -> str | None:
    found = _TITLE.search(sample) if shape.kind == "markdown" else None
    return found.group(1)[:500] if found else None


def _texts(path: Path, plain: PlainShape) -> Iterator[str]:
    with path.open("rb") as file:
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        yield from shaped(decoded(lambda: file.read(_PIECE), decoder), plain.shape, plain.fence)


def decoded(more: Callable[[], bytes], decoder: codecs.IncrementalDecoder) -> Iterator[str]:
    """Text from bytes, piece by piece, without cutting a line end in two."""
    held = ""
    while piece := more():
        text = held + decoder.decode(piece)
        held = ""
        if text.endswith("\r"):
            text, held = text[:-1], "\r"
        if text:
            yield clean(text)
    if rest := held + decoder.decode(b"", final=True):
        yield clean(rest)


def shaped(texts: Iterable[str], shape: shapes.Shape, fence: str = "```") -> Iterator[str]:
    """`texts` as canonical markdown."""
    if shape.kind == "code":
        yield f"{fence}{shape.language}\n"
        last = ""
        for text in texts:
            yield text
            last = text or last
        yield fence + "\n" if last.endswith("\n") else f"\n{fence}\n"
    elif shape.kind == "csv":
        yield from tables.rows(texts)
    elif shape.kind == "subtitles":
        for line in tables.lines(texts):
            if not _TIMES.match(line.strip()):
                yield _VOICE.sub("", line)
    else:
        yield from texts
