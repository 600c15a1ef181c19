"""Running text from pieces of speech with times: subtitles and transcripts. Pure.

    pieces       a start in seconds and a text each, in order
    paragraphs   pieces joined until a pause, or until a sentence ends after a while; each begins at a time code (`00:12:30`)

Captions that scroll repeat what the one before said; the repetition is left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_PAUSE_SECONDS = 4.0
_MIN_SECONDS, _MAX_SECONDS = (
    30.0,
    90.0,
)  # of a paragraph: after the first it ends with a sentence, after the second in any case
_SENTENCE_END = re.compile(r"""[.!?…。！？]["'”’»)\]]*$""")
_UNSPACED_END = re.compile("[\u3040-\u30ff\u3400-\u9fff\uff00-\uffef]$")


@dataclass(frozen=True)
class Speech:
    """What is said from one moment to another, in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class TimedParagraph:
    """A paragraph of running text, and the time code at which it begins."""

    time_code: str
    text: str

    @property
    def markdown(self) -> str:
        """The paragraph as it is in the content, after its time code if that is known."""
        return (f"[{self.time_code}] " if self.time_code else "") + self.text + "\n\n"


def time_code(seconds: float) -> str:
    """Hours, minutes and seconds: `00:12:30`."""
    total = max(0, int(seconds))
    return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"


def paragraphs(pieces: Iterable[Speech]) -> Iterator[TimedParagraph]:
    """The pieces as paragraphs."""
    start, end, text, last = 0.0, 0.0, "", ""
    for piece in pieces:
        said = _without_repetition(last, piece.text)
        last = piece.text
        if not said:
            end = max(end, piece.end)
            continue
        length = piece.start - start
        is_over = piece.start - end > _PAUSE_SECONDS or length > _MAX_SECONDS
        if text and (is_over or (length > _MIN_SECONDS and _SENTENCE_END.search(text))):
            yield TimedParagraph(time_code(start), text)
            text = ""
        if not text:
            start = piece.start
        text = said if not text else text + ("" if _UNSPACED_END.search(text) else " ") + said
        end = max(piece.start, piece.end)
    if text:
        yield TimedParagraph(time_code(start), text)


def _without_repetition(last: str, text: str) -> str:
    """`text` without the lines at its beginning that ended the piece before."""
    lines, before = text.splitlines(), last.splitlines()
    for count in range(min(len(lines), len(before)), 0, -1):
        if before[-count:] == lines[:count]:
            lines = lines[count:]
            break
    return " ".join(" ".join(lines).split())
