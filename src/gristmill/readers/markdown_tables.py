"""Markdown tables from rows of cells, and from comma- or tab-separated text of any dialect, streamed.

The first row is the header. What is not a table (a quote that never closes makes one field of the whole text) stays text.
"""

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence

_ROWS_PER_TEXT = 500  # rows in one piece
_MAX_FIELD_LENGTH = 1024 * 1024
_DELIMITERS = ",;\t|"


def csv_to_markdown(texts: Iterable[str]) -> Iterator[str]:
    """Separated values as a markdown table, some rows at a time."""
    all_lines = split_lines(texts)
    first_lines = list(itertools.islice(all_lines, 50))
    delimiter = _delimiter(first_lines)
    csv.field_size_limit(_MAX_FIELD_LENGTH)
    source = itertools.chain(first_lines, all_lines)
    reader = csv.reader((line.replace("\0", "") for line in source), delimiter=delimiter)
    with_header = True
    try:
        while batch := list(itertools.islice(reader, _ROWS_PER_TEXT)):
            text = markdown_table(
                [[cell.strip() for cell in row] for row in batch if any(row)], with_header=with_header
            )
            with_header = with_header and not text
            yield text
    except csv.Error:  # a quote that never closes: the rest stays as it is
        yield "".join(source)


def markdown_table(cells: Sequence[Sequence[str]], *, with_header: bool = True) -> str:
    """Rows as markdown; with a header, the first row has a rule below it."""
    output: list[str] = []
    for row in cells:
        output.append(f"| {' | '.join(_escape_cell(cell) for cell in row)} |\n")
        if with_header:
            output.append(f"|{' --- |' * len(row)}\n")
            with_header = False
    return "".join(output)


def _escape_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()) if ("|" in text or "\n" in text) else text


def _delimiter(first_lines: Sequence[str]) -> str:
    """The delimiter that splits the first lines into the same number of fields, and into the most fields."""
    best, delimiter = (0.0, 0), ","
    for candidate in _DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(first_lines, delimiter=candidate) if row]
        except csv.Error:
            continue
        width = max(set(widths), key=widths.count, default=1)
        if width > 1:
            agreement = widths.count(width) / len(widths)
            if (score := (round(agreement, 1), width)) > best:
                best, delimiter = score, candidate
    return delimiter


def split_lines(texts: Iterable[str]) -> Iterator[str]:
    """The lines of `texts`, with their ends."""
    pending = ""
    for text in texts:
        *complete, pending = (pending + text).split("\n")
        yield from (line + "\n" for line in complete)
        if len(pending) > 1_000_000:  # too long for a line that a person wrote: cut it
            yield pending
            pending = ""
    if pending:
        yield pending
