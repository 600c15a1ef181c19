"""Subtitles (srt, vtt): what is said, as running text; each paragraph is a page that begins with its time code."""

import codecs
import html
import re
from collections.abc import Iterable, Iterator

from gristmill.readers import markdown_tables, plain_text, text_encoding
from gristmill.readers.sink import Sink
from gristmill.readers.timed_text import Speech, paragraphs

_TIMING = re.compile(
    r"\s*(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})\s+-->\s+(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})(?:\s.*)?"
)
_VOICE = re.compile(r"<v(?:\.[^\s<>]+)*\s+([^<>\n]{1,100})>")
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\}")
_NOT_SPOKEN = ("WEBVTT", "NOTE", "STYLE", "REGION")
_BLOCK_BYTES = 256 * 1024
_MAX_CUE_LINES = 100


def read(sink: Sink) -> None:
    """Read subtitles."""
    encoding, is_guess = text_encoding.detect_file_encoding(sink.task.path)
    if is_guess:
        sink.warn("encoding_guessed")
    with sink.task.path.open("rb") as file:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        texts = plain_text.decode_blocks(lambda: file.read(_BLOCK_BYTES), decoder)
        for number, paragraph in enumerate(paragraphs(cues(markdown_tables.split_lines(texts))), 1):
            sink.add_text(paragraph.markdown, number)
            sink.report.pages_total = sink.report.pages_read = number


def cues(lines: Iterable[str]) -> Iterator[Speech]:
    """What is said, with its times. Lines outside of cues are numbers, notes and styles."""
    start = end = 0.0
    text: list[str] = []
    is_open = False
    for line in lines:
        stripped = line.strip("\ufeff \t\r\n")
        if (timing := _TIMING.fullmatch(stripped)) is not None:
            if text:  # some files have no empty line between two cues
                yield Speech(start, end, "\n".join(text))
            start, end = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:])
            text, is_open = [], True
        elif not stripped:
            if is_open and text:
                yield Speech(start, end, "\n".join(text))
            text, is_open = [], is_open and not text
        elif is_open and len(text) < _MAX_CUE_LINES and not stripped.startswith(_NOT_SPOKEN):
            text.append(_spoken_text(stripped))
    if text:
        yield Speech(start, end, "\n".join(text))


def _spoken_text(line: str) -> str:
    voice = _VOICE.search(line)
    text = html.unescape(_TAG.sub("", line)).strip()
    return f"{voice[1].strip()}: {text}" if voice and text else text


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours[:4]) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")
