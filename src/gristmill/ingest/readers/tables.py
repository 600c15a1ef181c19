"""Tables as markdown: rows of cells, and comma- or tab-separated text of any dialect, streamed.

Every row has as many cells as the first one or more; the first row is the head. What is not a table (one field that
runs over the whole text because a quote never closes) is given as text.
"""

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence

_BATCH = 500  # rows in one piece
_LONGEST_FIELD = 1024 * 1024
_DELIMITERS = ",;\t|"


def rows(texts: Iterable[str]) -> Iterator[str]:
    """Separated values as a markdown table, some rows at a time."""
    every = lines(texts)
    first = list(itertools.islice(every, 50))
    delimiter = _delimiter(first)
    csv.field_size_limit(_LONGEST_FIELD)
    source = itertools.chain(first, every)
    reader = csv.reader((line.replace("\0", "") for line in source), delimiter=delimiter)
    head = True
    try:
        while batch := list(itertools.islice(reader, _BATCH)):
            text = table([[cell.strip() for cell in row] for row in batch if any(row)], head=head)
            head = head and not text
            yield text
    except csv.Error:  # a quote that never closes: the rest as it stands
        yield "".join(source)


def table(cells: Sequence[Sequence[str]], *, head: bool = True) -> str:
    """Rows as markdown, the first with a rule below it when it is the head."""
    text: list[str] = []
    for row in cells:
        text.append(f"| {' | '.join(_cell(cell) for cell in row)} |\n")
        if head:
            text.append(f"|{' --- |' * len(row)}\n")
            head = False
    return "".join(text)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()) if ("|" in text or "\n" in text) else text


def _delimiter(first: Sequence[str]) -> str:
    """The sign that parts the first lines into the same number of fields, and into the most."""
    best, found = (0.0, 0), ","
    for sign in _DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(first, delimiter=sign) if row]
        except csv.Error:
            continue
        width = max(set(widths), key=widths.count, default=1)
        if width > 1:
            agree = widths.count(width) / len(widths)
            if (score := (round(agree, 1), width)) > best:
                best, found = score, sign
    return found


def lines(texts: Iterable[str]) -> Iterator[str]:
    """The lines of `texts`, with their ends."""
    held = ""
    for text in texts:
        *whole, held = (held + text).split("\n")
        yield from (line + "\n" for line in whole)
        if len(held) > 1_000_000:  # no line of a person's; what follows is another
            yield held
            held = ""
    if held:
        yield held
