"""Charts of old workbooks (xls), which have cells of their own: records like those of the sheet around them.

Programs that read every record of a sheet take a chart's values for cells, and lose those that are really there. So the chart's
records are made unknown ones before the workbook is read, and the charts become tables: a column for each series.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from gristmill.readers.markdown_tables import markdown_table

_BOF, _EOF, _BOUND_SHEET = 0x809, 0x0A, 0x85
_CHART = 0x20  # the type of a substream
_NUMBER, _LABEL = 0x203, 0x204
_CELL_RECORDS = frozenset((_NUMBER, _LABEL, 0xFD, 0x27E, 0xBD, 0x201, 0xBE, 0x205, 0x6, 0x207, 0x200))
_UNKNOWN_RECORD = 0x0FFE
_SERIES, _SERIES_TEXT, _DATA_INDEX = 0x1003, 0x100D, 0x1065
_CATEGORIES = 2
_MAX_POINTS, _MAX_SERIES, _MAX_CHARTS = 500, 50, 200


@dataclass
class _Chart:
    sheet: int
    titles: list[str] = field(default_factory=list[str])
    names: list[str] = field(default_factory=list[str])
    categories: dict[int, str] = field(default_factory=dict[int, str])
    values: dict[tuple[int, int], str] = field(
        default_factory=dict[tuple[int, int], str]
    )  # by point and series
    is_series_open: bool = False
    data_index: int = 0

    def markdown(self) -> str:
        points = sorted({point for point, _ in self.values} | set(self.categories))[:_MAX_POINTS]
        count = min(_MAX_SERIES, max((series for _, series in self.values), default=-1) + 1)
        names = [self.names[place] if place < len(self.names) else "" for place in range(count)]
        rows = [
            [self.categories.get(point, ""), *(self.values.get((point, place), "") for place in range(count))]
            for point in points
        ]
        table = markdown_table([["", *names], *rows]).rstrip() if count else " · ".join(self.names)
        return "\n\n".join(filter(None, [" · ".join(self.titles), table]))


def separate_charts(stream: bytes) -> tuple[bytes, list[tuple[int, str]]]:
    """The workbook's stream without the cells of its charts, and the charts: the number of the sheet, and its text."""
    patched = bytearray(stream)
    charts: list[_Chart] = []
    open_parts: list[_Chart | None] = []
    sheet = 0
    for position, record, body in _records(stream):
        if record == _BOF:
            kind = struct.unpack_from("<H", body, 2)[0] if len(body) >= 4 else 0
            sheet += len(open_parts) == 0
            chart = _Chart(max(1, sheet - 1)) if kind == _CHART and len(charts) < _MAX_CHARTS else None
            open_parts.append(chart)
            charts += [chart] if chart else []
        elif record == _EOF:
            if open_parts:
                open_parts.pop()
        elif open_parts and (chart := open_parts[-1]) is not None:
            if record in _CELL_RECORDS:
                struct.pack_into("<H", patched, position, _UNKNOWN_RECORD)
            _add_record(chart, record, body)
    texts = [(chart.sheet, text) for chart in charts if (text := chart.markdown())]
    return bytes(patched), texts


def _records(stream: bytes) -> Iterator[tuple[int, int, bytes]]:
    position = 0
    while position + 4 <= len(stream):
        record, length = struct.unpack_from("<HH", stream, position)
        yield position, record, stream[position + 4 : position + 4 + length]
        position += 4 + length


def _add_record(chart: _Chart, record: int, body: bytes) -> None:
    if record == _SERIES:
        chart.names.append("")
        chart.is_series_open = True
    elif record == _SERIES_TEXT and (text := _text(body[2:])):
        if chart.is_series_open:
            chart.names[-1] = text
            chart.is_series_open = False
        else:
            chart.titles.append(text)
    elif record == _DATA_INDEX and len(body) >= 2:
        (chart.data_index,) = struct.unpack_from("<H", body)
    elif record in (_NUMBER, _LABEL) and len(body) >= 9:
        point, series = struct.unpack_from("<HH", body)
        if record == _NUMBER and len(body) >= 14:
            text = f"{struct.unpack_from('<d', body, 6)[0]:.15g}"
        else:
            text = _text(body[6:], wide_length=True)
        if chart.data_index == _CATEGORIES:
            chart.categories.setdefault(point, text)
        elif series < _MAX_SERIES:
            chart.values[point, series] = text


def _text(body: bytes, *, wide_length: bool = False) -> str:
    """A string with its length in letters and whether they have two bytes."""
    start = 3 if wide_length else 2
    if len(body) < start:
        return ""
    length = struct.unpack_from("<H", body)[0] if wide_length else body[0]
    is_wide = body[start - 1] & 1
    data = body[start : start + length * (2 if is_wide else 1)]
    return data.decode("utf-16-le" if is_wide else "latin-1", "replace").strip("\0 ")
