"""Plain text that is not UTF-8, in a child: its encoding is guessed, then it is read like any other."""

import codecs
import re

from gristmill.readers import plain_text, text_encoding, text_format
from gristmill.readers.sink import Sink

_PIECE = 256 * 1024


def read(sink: Sink) -> None:
    """Read text in any encoding."""
    path = sink.task.path
    encoding, guessed = text_encoding.detect_file_encoding(path)
    if guessed:
        sink.warn("encoding_guessed")
    sink.report.metadata["encoding"] = encoding
    with path.open("rb") as file:
        shape = text_format.detect_format(file.read(64 * 1024), sink.task.name, sink.task.media_type)
        file.seek(0)
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        shape = text_format.TextFormat("text") if shape.kind in ("html", "xml", "ipynb") else shape
        for text in plain_text.to_markdown(
            plain_text.decode_blocks(lambda: file.read(_PIECE), decoder), shape, "```````"
        ):
            sink.add_text(text)
    if shape.kind == "markdown" and (found := re.search(r"^#{1,2}[ \t]+(.+)$", sink.sample, re.M)):
        sink.report.title = found.group(1).strip()[:500]
