"""Text recognition: RapidOCR with the models in its wheel, loaded at first use.

A page that is rotated is turned until it reads well. Lines with little confidence are left out. It takes 3 to 6
CPU-seconds a page and up to 1.2 GB: callers ask for it first (`Sink.reserve_ocr`).
"""

import functools
import io
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from gristmill.readers.libraries import images, numpy, rapidocr
from gristmill.readers.sink import DocumentRefused

_MIN_CONFIDENCE = 0.5  # a line with less is noise
_UPRIGHT_CONFIDENCE = 0.9  # with less on average, the page may be upside down
_MAX_SIDE = 4_000
_MAX_PIXELS = 200_000_000


@dataclass(frozen=True)
class _RecognisedLine:
    text: str
    score: float
    left: float
    top: float
    width: float
    height: float


def recognise(picture: Any) -> str:
    """The text of a picture (an array of RGB pixels), in reading order."""
    best = _recognise_lines(picture)
    for quarter_turns in _candidate_rotations(best):
        rotated = _recognise_lines(numpy.ascontiguousarray(numpy.rot90(picture, quarter_turns)))
        if _quality(rotated) > _quality(best) + 0.02:
            best = rotated
    return _in_reading_order([line for line in best if line.score >= _MIN_CONFIDENCE])


def open_image(data: bytes) -> Any:
    """The pixels of an image file, scaled down for recognition."""
    try:
        with images.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > _MAX_PIXELS:
                raise DocumentRefused(f"The image has {width:,} × {height:,} pixels.", code="bomb")
            image.draft("RGB", (_MAX_SIDE, _MAX_SIDE))
            picture = image.convert("RGBA") if image.mode in ("P", "LA", "PA", "RGBA") else image
            if picture.mode == "RGBA":  # put it on white paper
                background = images.new("RGBA", picture.size, "white")
                background.alpha_composite(picture)
                picture = background
            picture = picture.convert("RGB")
            picture.thumbnail((_MAX_SIDE, _MAX_SIDE))
            return numpy.asarray(picture)
    except (DocumentRefused, MemoryError):
        raise
    except Exception as error:
        raise image_error(error) from error


def image_error(error: Exception) -> DocumentRefused:
    """The refusal for an image that can't be opened: Pillow raises errors of any type."""
    if type(error).__name__ == "DecompressionBombError":
        return DocumentRefused(f"The image is too large when decompressed: {error}"[:300], code="bomb")
    return DocumentRefused(f"The image can't be opened: {error}"[:300], code="corrupt")


def _candidate_rotations(lines: list[_RecognisedLine]) -> list[int]:
    """The quarter turns after which the page may read better."""
    if not lines:
        return []
    if (
        median(line.height / max(line.width, 1) for line in lines if len(line.text) > 1 or len(lines) == 1)
        > 1.5
    ):
        return [1, 3]
    return [2] if _quality(lines) < _UPRIGHT_CONFIDENCE else []


def _quality(lines: list[_RecognisedLine]) -> float:
    """The mean confidence, weighted by length; lines that run vertically count half."""
    if not lines:
        return 0.0
    weights = [len(line.text) * (0.5 if line.height > 1.5 * line.width else 1.0) for line in lines]
    return fmean((line.score for line in lines), [len(line.text) for line in lines]) * (
        sum(weights) / sum(len(line.text) for line in lines)
    )


def _recognise_lines(picture: Any) -> list[_RecognisedLine]:
    result = _engine()(picture)
    if result.boxes is None or not result.txts:
        return []
    lines: list[_RecognisedLine] = []
    for box, text, score in zip(result.boxes, result.txts, result.scores, strict=True):
        xs, ys = [float(point[0]) for point in box], [float(point[1]) for point in box]
        if text.strip():
            lines.append(
                _RecognisedLine(
                    text.strip(), float(score), min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)
                )
            )
    return lines


def _in_reading_order(lines: list[_RecognisedLine]) -> str:
    """Lines from top to bottom, those at one height from left to right; a gap begins a paragraph."""
    rows: list[list[_RecognisedLine]] = []
    for line in sorted(lines, key=lambda line: line.top + line.height / 2):
        middle = line.top + line.height / 2
        if rows and middle < max(other.top + other.height * 0.6 for other in rows[-1]):
            rows[-1].append(line)
        else:
            rows.append([line])
    text, bottom = "", 0.0
    for row in rows:
        top, height = min(line.top for line in row), median(line.height for line in row)
        if text:
            text += "\n\n" if top - bottom > height else "\n"
        text += " ".join(line.text for line in sorted(row, key=lambda line: line.left))
        bottom = max(line.top + line.height for line in row)
    return text


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
