"""The numbers in square brackets of an answer, while it is still being written.

A number that no passage has is left out of the text: it could not be followed. Text is passed on as soon as it can't be a part of a
citation any more. In code, between backticks, brackets are brackets.
"""

import re
from collections.abc import Collection

# `[1]`, and what models also write: `[1, 2]`, `[1-3]`, `【1】`, `[^1]`. A year in brackets is none.
_CITATION = re.compile(r"\s*[\[【]\s*\^?(\d{1,3}(?:\s*[,;–-]\s*\^?\d{1,3})*)\s*[\]】]")
_UNFINISHED = re.compile(r"(?:\s*[\[【][\d\s,;^–-]{0,40}|`+|\s+)$")
_BACKTICKS = re.compile(r"(`+)")
_NUMBER = re.compile(r"\[(\d{1,3})\]")
_BLOCK_FENCE = 3  # backticks that open a block of code
_MAX_RANGE = 20


class CitationReader:
    """Reads an answer part by part. `cited` has the numbers that were cited so far, in the order of their first use."""

    def __init__(self, numbers: Collection[int]) -> None:
        self._numbers = frozenset(numbers)
        self._waiting = ""
        self._fence = ""
        self.cited: list[int] = []

    def feed(self, text: str) -> str:
        """The text that can be passed on."""
        text = self._waiting + text
        unfinished = _UNFINISHED.search(text)
        split = unfinished.start() if unfinished else len(text)
        text, self._waiting = text[:split], text[split:]
        return self._clean(text)

    def end(self) -> str:
        """What is left."""
        text, self._waiting = self._waiting, ""
        return self._clean(text)

    def _clean(self, text: str) -> str:
        pieces, self._fence = _split_code(text, self._fence)
        return "".join(piece if is_code else _CITATION.sub(self._replace, piece) for piece, is_code in pieces)

    def _replace(self, match: re.Match[str]) -> str:
        numbers = [number for number in _expand(match.group(1)) if number in self._numbers]
        if not numbers:
            return ""
        self.cited += [number for number in dict.fromkeys(numbers) if number not in self.cited]
        space = match.group(0)[: len(match.group(0)) - len(match.group(0).lstrip())]
        return space + "".join(f"[{number}]" for number in numbers)


def citation_places(text: str) -> list[tuple[int, int]]:
    """Where an answer cites, outside of code: the offset of each `[number]`, and the number."""
    places: list[tuple[int, int]] = []
    start = 0
    for piece, is_code in _split_code(text)[0]:
        if not is_code:
            places += [(start + match.start(), int(match[1])) for match in _NUMBER.finditer(piece)]
        start += len(piece)
    return places


def _split_code(text: str, fence: str = "") -> tuple[list[tuple[str, bool]], str]:
    """The pieces of a text, each with whether it is code, and the backticks that have opened code at its end; `fence` has those at
    its beginning. As many backticks as opened it close code, and the end of a paragraph closes what is within a line."""
    pieces: list[tuple[str, bool]] = []
    for part in _BACKTICKS.split(text):
        if part.startswith("`"):
            if not fence:
                fence = part
            elif part == fence or len(part) >= len(fence) >= _BLOCK_FENCE:
                fence = ""
            pieces.append((part, True))
            continue
        end = part.find("\n\n") if 0 < len(fence) < _BLOCK_FENCE else -1
        if end >= 0:
            pieces.append((part[:end], True))
            part, fence = part[end:], ""
        pieces.append((part, bool(fence)))
    return pieces, fence


def _expand(text: str) -> list[int]:
    """The numbers of `1, 3-5`."""
    numbers: list[int] = []
    for part in re.split(r"[,;]", text):
        bounds = [int(number) for number in re.findall(r"\d+", part)]
        if len(bounds) == 1:
            numbers += bounds
        elif bounds and 0 <= bounds[-1] - bounds[0] < _MAX_RANGE:
            numbers += range(bounds[0], bounds[-1] + 1)
    return numbers
