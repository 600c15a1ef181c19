"""Where text stands on its page: rectangles with the characters that they show, packed into 12 bytes each.

    uint16  characters between the end of the box before and its start
    uint16  characters that it shows; the highest bit: it is a block of several lines, such as a table
    uint16  × 4: left, top, right, bottom, as shares of the page from its upper left, as the page is displayed

Boxes are sorted by their characters and don't share any. The bytes are stored with the part of a content whose characters they
count (`content_part.boxes`). Pure.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

_BOX = struct.Struct("<6H")
_MAX_GAP, _MAX_LENGTH, _BLOCK = 0xFFFF, 0x7FFF, 0x8000
_UNITS = 0xFFFF
MAX_BOXES = 4_000  # of a part: a page has some hundred lines
_SAME_LINE = 0.5  # of the height of the lower one, that two boxes of a line have in common
_ROUNDING = 4  # digits: a tenth of a millimetre of a large page


@dataclass(slots=True)
class TextBox:
    """A rectangle as shares of the page, and the characters that it shows. A block has several lines."""

    start: int
    end: int
    left: float
    top: float
    right: float
    bottom: float
    is_block: bool = False


@dataclass(frozen=True)
class PageBox:
    """A rectangle on a page, as shares of its width and height from the upper left, and the characters that it shows."""

    page: int
    left: float
    top: float
    right: float
    bottom: float
    start: int
    end: int


def pack(boxes: Iterable[TextBox]) -> bytes:
    """The boxes as bytes. What can't be shown is left out: empty rectangles, and characters that another box shows."""
    packed = bytearray()
    at = 0
    for box in sorted(boxes, key=_start):
        left, top = _to_units(box.left), _to_units(box.top)
        right, bottom = _to_units(box.right), _to_units(box.bottom)
        start = max(box.start, at)
        length = min(box.end - start, _MAX_LENGTH)
        if length <= 0 or right <= left or bottom <= top or start - at > _MAX_GAP:
            continue
        if len(packed) >= MAX_BOXES * _BOX.size:
            break
        packed += _BOX.pack(start - at, length | (_BLOCK if box.is_block else 0), left, top, right, bottom)
        at = start + length
    return bytes(packed)


def unpack(data: bytes) -> Iterator[TextBox]:
    """The boxes in `data`."""
    at = 0
    for gap, length, *places in _BOX.iter_unpack(data[: len(data) - len(data) % _BOX.size]):
        start, at = at + gap, at + gap + (length & _MAX_LENGTH)
        left, top, right, bottom = (place / _UNITS for place in places)
        yield TextBox(start, at, left, top, right, bottom, bool(length & _BLOCK))


def after(data: bytes, offset: int) -> bytes:
    """The boxes of what remains of a text without its first `offset` characters."""
    if not offset or not data:
        return data
    return pack(
        replace(box, start=max(0, box.start - offset), end=box.end - offset)
        for box in unpack(data)
        if box.end > offset
    )


def boxes_between(data: bytes, page: int, start: int, end: int) -> list[PageBox]:
    """The rectangles of the characters from `start` to `end`; those of one line are joined.

    A line that is only partly within is cut, as if all its letters had the same width.
    """
    boxes = [_cut(box, start, end) for box in unpack(data) if box.start < end and box.end > start]
    return [_page_box(box, page) for box in _join_lines(boxes)]


def _cut(box: TextBox, start: int, end: int) -> TextBox:
    if box.is_block:
        return box
    letter = (box.right - box.left) / (box.end - box.start)
    return replace(
        box,
        start=max(box.start, start),
        end=min(box.end, end),
        left=box.left + max(0, start - box.start) * letter,
        right=box.right - max(0, box.end - end) * letter,
    )


def _join_lines(boxes: Sequence[TextBox]) -> list[TextBox]:
    """Join neighbours of one line, also across the gaps between words and cells."""
    lines: list[TextBox] = []
    for box in boxes:
        last = lines[-1] if lines else None
        if last is not None and not box.is_block and not last.is_block and _is_same_line(last, box):
            lines[-1] = replace(
                last,
                end=box.end,
                left=min(last.left, box.left),
                top=min(last.top, box.top),
                right=max(last.right, box.right),
                bottom=max(last.bottom, box.bottom),
            )
        else:
            lines.append(box)
    return lines


def _is_same_line(left: TextBox, right: TextBox) -> bool:
    common = min(left.bottom, right.bottom) - max(left.top, right.top)
    is_level = common > _SAME_LINE * min(left.bottom - left.top, right.bottom - right.top)
    return is_level and right.left - left.right < 3 * (right.bottom - right.top)


def _page_box(box: TextBox, page: int) -> PageBox:
    left, top, right, bottom = (
        round(place, _ROUNDING) for place in (box.left, box.top, box.right, box.bottom)
    )
    return PageBox(page, left, top, right, bottom, box.start, box.end)


_start = attrgetter("start")


def _to_units(share: float) -> int:
    return 0 if share <= 0 else _UNITS if share >= 1 else round(share * _UNITS)
