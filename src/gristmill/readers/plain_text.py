"""Plain text: markdown, code, tables and everything else that an editor shows.

    UTF-8               streamed in a thread of this process (`file_texts`): decoding it is safe, and a child would cost time
    any other encoding  in the child process (`read_any_encoding`), which has to guess the encoding

`file_texts` needs a file that `inspect_file` has checked to its end. Both read block by block: a gigabyte takes a few
megabytes of memory.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gristmill.readers import markdown_tables, text_encoding
from gristmill.readers.front_matter import front_matter
from gristmill.readers.sink import Sink, clean_text
from gristmill.readers.text_format import HEAD_BYTES, FileFormat, plain_format

_BLOCK_BYTES = 256 * 1024
_LONG_FENCE = "```````"
_BACKTICKS = re.compile(r"`{3,}")


@dataclass(frozen=True)
class PlainText:
    """A file that `file_texts` can take: its format, and a code fence that nothing in it closes."""

    format: FileFormat
    fence: str


def inspect_file(path: Path, name: str, media_type: str | None) -> PlainText | None:
    """The format of the file when it is plain text in UTF-8 to its end, else None. Blocks."""
    with path.open("rb") as file:
        file_format = plain_format(file.read(HEAD_BYTES), name, media_type)
        if file_format is None:
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
    # Twice the longest run: a run may continue in the next block.
    return PlainText(file_format, "`" * (3 if longest_run == 2 else longest_run * 2 + 1))


def read_any_encoding(sink: Sink) -> None:
    """Read a text file in any encoding, in the child process."""
    encoding, is_guess = text_encoding.detect_file_encoding(sink.task.path)
    if is_guess:
        sink.warn("encoding_guessed")
    with sink.task.path.open("rb") as file:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        texts = decode_blocks(lambda: file.read(_BLOCK_BYTES), decoder)
        is_first = sink.format.kind in ("text", "markdown")
        for text in to_markdown(texts, sink.format, _LONG_FENCE):
            if is_first:
                sink.describe(front_matter(text))
                is_first = False
            sink.add_text(text)


def file_texts(path: Path, plain: PlainText) -> Iterator[str]:
    """The markdown of a file in UTF-8, piece by piece. Blocks."""
    with path.open("rb") as file:
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        texts = decode_blocks(lambda: file.read(_BLOCK_BYTES), decoder)
        yield from to_markdown(texts, plain.format, plain.fence)


def decode_blocks(read_block: Callable[[], bytes], decoder: codecs.IncrementalDecoder) -> Iterator[str]:
    """The text of a file, block by block, with no line end cut in two."""
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


def to_markdown(texts: Iterable[str], file_format: FileFormat, fence: str = "```") -> Iterator[str]:
    """`texts` as canonical markdown."""
    if file_format.kind == "code":
        yield f"{fence}{file_format.language}\n"
        last = ""
        for text in texts:
            yield text
            last = text or last
        yield fence + "\n" if last.endswith("\n") else f"\n{fence}\n"
    elif file_format.kind == "csv":
        yield from markdown_tables.csv_to_markdown(texts)
    else:
        yield from texts
