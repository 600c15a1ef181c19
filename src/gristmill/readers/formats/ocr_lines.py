"""The lines of a picture, by RapidOCR with the models in its wheel, loaded at first use.

find        the boxes of text, whichever way it runs
turn        a few lines are recognised in both directions: the picture is turned to the one with more confidence, and the
            slant of its lines is taken out
divide      a box is cut where a drawn line goes through it, where a wide gap is, and where most boxes above and below have a gap:
            cells and columns are lines of their own
recognise   every line; one with little confidence is noise and left out
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from gristmill.readers.formats import ocr_rulings
from gristmill.readers.formats.ocr_rulings import Rulings
from gristmill.readers.libraries import cv2, numpy, rapidocr

_MIN_CONFIDENCE = 0.5  # a line with less is noise
_UPRIGHT_CONFIDENCE = 0.93  # with less on average, the lines may be upside down
_SAMPLE = 4  # lines that are recognised to find out which way is up
_MIN_SLANT, _MAX_SLANT = 0.2, 20.0  # degrees
_MIN_GAP = 0.7  # between parts of a line, relative to its height
_MIN_GUTTER = 0.35  # of a gap that may be between columns, relative to the height of its line
_MIN_GUTTER_LINES = 5
_GUTTER_SHARE = 0.7  # of the lines that cross a place, that have a gap there
_MIN_CONTRAST = 40  # between ink and paper
_INK_SHARE = 0.35  # of the contrast, that a pixel of ink differs from the paper


@dataclass(frozen=True)
class PixelBox:
    """A rectangle in pixels, from the upper left."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """How wide it is."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """How high it is."""
        return self.bottom - self.top

    @property
    def middle(self) -> tuple[float, float]:
        """Its middle, across and down."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def has_middle_of(self, other: "PixelBox") -> bool:
        """Whether the middle of another one is inside."""
        across, down = other.middle
        return self.left <= across <= self.right and self.top <= down <= self.bottom

    @classmethod
    def around(cls, boxes: "Sequence[PixelBox]") -> "PixelBox":
        """The rectangle around others."""
        return cls(
            min(box.left for box in boxes),
            min(box.top for box in boxes),
            max(box.right for box in boxes),
            max(box.bottom for box in boxes),
        )


@dataclass(frozen=True)
class OcrLine:
    """A line of text, or a part of one between wide gaps, where it stands on the upright page."""

    text: str
    score: float
    box: PixelBox


@dataclass(frozen=True)
class OcrPage:
    """The lines of a picture that was turned upright, in no order, and the lines that are drawn on it."""

    lines: list[OcrLine]
    rulings: Rulings
    width: int
    height: int
    to_picture: Any  # from the upright page to shares of the picture: a matrix of two rows

    @property
    def confidence(self) -> float:
        """The mean confidence of its letters."""
        letters = sum(len(line.text) for line in self.lines)
        return sum(line.score * len(line.text) for line in self.lines) / max(1, letters)

    def share_of_picture(self, box: PixelBox) -> PixelBox:
        """Where a rectangle of the upright page is in the picture, as shares of its width and height."""
        corners = [
            (box.left, box.top),
            (box.right, box.top),
            (box.right, box.bottom),
            (box.left, box.bottom),
        ]
        places = [self.to_picture @ numpy.array([x, y, 1.0]) for x, y in corners]
        xs, ys = [float(place[0]) for place in places], [float(place[1]) for place in places]
        return PixelBox(min(xs), min(ys), max(xs), max(ys))


def read_lines(picture: Any) -> OcrPage:
    """The lines of a picture (an array of RGB pixels)."""
    height, width = picture.shape[:2]
    boxes = _find_boxes(picture)
    if not len(boxes):
        return OcrPage([], Rulings([], []), width, height, _shares(width, height))
    matrix, size = _upright_transform(picture, boxes)
    if not numpy.allclose(matrix, numpy.eye(2, 3)):
        picture = cv2.warpAffine(
            picture, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
        )
        boxes = boxes @ matrix[:, :2].T + matrix[:, 2]
    gray = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    rectangles = [_bounds(box, *size) for box in boxes]
    rulings = ocr_rulings.find_rulings(gray, median(rectangle.height for rectangle in rectangles))
    parts = divide_at_gutters(
        [part for rectangle in rectangles for part in _divide(gray, rectangle, rulings)]
    )
    lines = [
        OcrLine(text, score, part)
        for part, (text, score) in zip(
            parts, _recognise([_crop(picture, part) for part in parts]), strict=True
        )
        if text and score >= _MIN_CONFIDENCE
    ]
    inverse = cv2.invertAffineTransform(matrix)
    return OcrPage(lines, rulings, *size, _shares(width, height)[:, :2] @ inverse)


def _find_boxes(picture: Any) -> Any:
    """The corners of each box of text, clockwise from the upper left."""
    output = _engine()(picture, use_det=True, use_cls=False, use_rec=False)
    return (
        numpy.zeros((0, 4, 2)) if output.boxes is None else numpy.asarray(output.boxes, dtype=numpy.float64)
    )


def _recognise(crops: Sequence[Any]) -> list[tuple[str, float]]:
    """The text of each picture of a line, with its confidence."""
    if not crops:
        return []
    output = _engine().recognize_txt(list(crops))
    return [(text.strip(), float(score)) for text, score in zip(output.txts, output.scores, strict=True)]


@functools.cache
def _engine() -> Any:
    parameters = {
        "Global.use_cls": False,
        "Global.log_level": "critical",
        "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        "EngineConfig.onnxruntime.enable_cpu_mem_arena": False,
    }
    return rapidocr.RapidOCR(params=parameters)


# ── which way is up ──────────────────────────────────────────────────────────────────────────────────────


def _upright_transform(picture: Any, boxes: Any) -> tuple[Any, tuple[int, int]]:
    """The matrix that turns the picture upright, and its size then."""
    height, width = picture.shape[:2]
    turns = _quarter_turns(picture, boxes)
    slant = _slant(boxes @ _turn_matrix(turns, width, height)[0][:, :2].T)
    matrix, size = _turn_matrix(turns, width, height)
    if not _MIN_SLANT <= abs(slant) <= _MAX_SLANT:
        return matrix, size
    straighten = cv2.getRotationMatrix2D((size[0] / 2, size[1] / 2), slant, 1.0)
    return straighten[:, :2] @ matrix + numpy.column_stack([numpy.zeros((2, 2)), straighten[:, 2]]), size


def _turn_matrix(turns: int, width: int, height: int) -> tuple[Any, tuple[int, int]]:
    """The matrix of so many quarter turns to the left, and the size of the turned picture."""
    match turns:
        case 1:
            return numpy.array([[0.0, 1, 0], [-1, 0, width - 1]]), (height, width)
        case 2:
            return numpy.array([[-1.0, 0, width - 1], [0, -1, height - 1]]), (width, height)
        case 3:
            return numpy.array([[0.0, -1, height - 1], [1, 0, 0]]), (height, width)
        case _:
            return numpy.eye(2, 3), (width, height)


def _quarter_turns(picture: Any, boxes: Any) -> int:
    """How many quarter turns to the left let the lines be read."""
    sizes = [(_length(box[0], box[1]), _length(box[1], box[2])) for box in boxes]
    long = [each for each in sizes if max(each) > 1.5 * min(each)] or sizes
    is_sideways = sum(high > wide for wide, high in long) > len(long) / 2
    first, second = (1, 3) if is_sideways else (0, 2)
    longest = sorted(range(len(boxes)), key=lambda place: -max(sizes[place]))[:_SAMPLE]
    crops = [_crop(picture, _bounds(boxes[place], picture.shape[1], picture.shape[0])) for place in longest]
    confidence = _confidence(crops, first)
    if confidence >= _UPRIGHT_CONFIDENCE:
        return first
    return second if _confidence(crops, second) > confidence + 0.02 else first


def _confidence(crops: Sequence[Any], turns: int) -> float:
    turned = [numpy.ascontiguousarray(numpy.rot90(crop, turns)) for crop in crops]
    results = _recognise(turned)
    letters = sum(len(text) for text, _ in results)
    return sum(score * len(text) for text, score in results) / max(1, letters)


def _slant(boxes: Any) -> float:
    """The angle of the lines in degrees, by the median of the long ones: positive if they fall to the right."""
    angles: list[float] = []
    for corners in boxes:
        x = [float(place) for place in corners[:, 0]]
        order = sorted(range(4), key=lambda place: x[place])
        left, right = corners[order[:2]].mean(axis=0), corners[order[2:]].mean(axis=0)
        across, down = float(right[0] - left[0]), float(right[1] - left[1])
        high = float(corners[:, 1].max() - corners[:, 1].min())
        if across > 4 * max(1.0, high - abs(down)):
            angles.append(math.degrees(math.atan2(down, across)))
    return median(angles) if len(angles) >= 2 else 0.0


# ── boxes ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LineStrip:
    """A box of text, and the gaps in it that are wider than most spaces between words."""

    box: PixelBox
    gaps: Sequence[tuple[float, float]] = ()


def _divide(gray: Any, box: PixelBox, rulings: Rulings) -> list[LineStrip]:
    """The parts of a box between drawn lines that go through it and between wide gaps."""
    parts: list[LineStrip] = []
    edges = [box.left, *rulings.crossing(box.left, box.top, box.right, box.bottom), box.right]
    for left, right in itertools.pairwise(edges):
        if right - left > 0.3 * box.height:
            parts += _divide_at_gaps(gray, PixelBox(left, box.top, right, box.bottom))
    return parts or [LineStrip(box)]


def _divide_at_gaps(gray: Any, box: PixelBox) -> list[LineStrip]:
    columns = _ink_columns(gray, box)
    if len(columns) < 2:
        return [LineStrip(box)]
    steps = numpy.diff(columns)
    gaps = [
        (box.left + float(columns[place]), box.left + float(columns[place + 1]))
        for place in numpy.flatnonzero(steps > _MIN_GUTTER * box.height)
    ]
    wide = [gap for gap in gaps if gap[1] - gap[0] > _MIN_GAP * box.height]
    ends = [float(columns[0]) + box.left, float(columns[-1]) + box.left]
    return [
        LineStrip(part, [gap for gap in gaps if part.left < gap[0] and gap[1] < part.right])
        for part in (_cut(box, wide, ends) if wide else [box])
    ]


def _ink_columns(gray: Any, box: PixelBox) -> Any:
    """The columns of pixels in a box that have ink; none if it is too short to have gaps."""
    crop = _crop(gray, box)
    if box.width < 3 * box.height or not crop.size:
        return []
    paper = float(numpy.median(crop))
    contrast = float(numpy.abs(crop.astype(numpy.float32) - paper).max())
    if contrast < _MIN_CONTRAST:
        return []
    margin = max(1, round(0.12 * crop.shape[0]))  # a neighbour's letters or a drawn line may stand there
    ink = numpy.abs(crop[margin:-margin].astype(numpy.float32) - paper) > _INK_SHARE * contrast
    return numpy.flatnonzero(ink.sum(axis=0) >= 2)


def _cut(box: PixelBox, gaps: Sequence[tuple[float, float]], ends: Sequence[float]) -> list[PixelBox]:
    """The parts of a box between gaps; `ends` are those of its ink."""
    pad = 0.15 * box.height
    lefts, rights = [ends[0], *(gap[1] for gap in gaps)], [*(gap[0] for gap in gaps), ends[1]]
    return [
        PixelBox(max(box.left, left - pad), box.top, min(box.right, right + pad), box.bottom)
        for left, right in zip(lefts, rights, strict=True)
    ]


def divide_at_gutters(strips: Sequence[LineStrip]) -> list[PixelBox]:
    """The boxes, cut where most of those that cross a place have a gap: columns that stand close to each other."""
    if not strips:
        return []
    step = max(1.0, median(strip.box.height for strip in strips) / 8)
    count = int(max(strip.box.right for strip in strips) / step) + 2
    crossing, open_ones = numpy.zeros(count), numpy.zeros(count)
    for strip in strips:
        crossing[int(strip.box.left / step) + 1 : int(strip.box.right / step)] += 1
        for left, right in strip.gaps:
            open_ones[int(left / step) + 1 : int(right / step)] += 1
    is_gutter = (open_ones >= _MIN_GUTTER_LINES) & (open_ones >= _GUTTER_SHARE * crossing)
    boxes: list[PixelBox] = []
    for strip in strips:
        cuts = [gap for gap in strip.gaps if is_gutter[int(gap[0] / step) + 1 : int(gap[1] / step)].any()]
        boxes += _cut(strip.box, cuts, (strip.box.left, strip.box.right)) if cuts else [strip.box]
    return boxes


def _bounds(corners: Any, width: int, height: int) -> PixelBox:
    """The rectangle around a box, inside the picture."""
    return PixelBox(
        max(0.0, float(corners[:, 0].min())),
        max(0.0, float(corners[:, 1].min())),
        min(float(width), float(corners[:, 0].max()) + 1),
        min(float(height), float(corners[:, 1].max()) + 1),
    )


def _crop(picture: Any, box: PixelBox) -> Any:
    top, left = max(0, math.floor(box.top)), max(0, math.floor(box.left))
    return picture[top : max(top + 2, math.ceil(box.bottom)), left : max(left + 2, math.ceil(box.right))]


def _length(start: Any, end: Any) -> float:
    return math.hypot(float(end[0] - start[0]), float(end[1] - start[1]))


def _shares(width: int, height: int) -> Any:
    """From pixels to shares of the picture."""
    return numpy.array([[1 / width, 0.0, 0.0], [0.0, 1 / height, 0.0]])
