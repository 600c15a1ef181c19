"""Images: their text, by OCR. An image without text has none, and says so."""

import io

from gristmill.ingest.readers.formats import ocr
from gristmill.ingest.readers.sink import Refused, Sink
from gristmill.ingest.readers.untyped import images, numpy

_MOST_FRAMES = 200


def read(sink: Sink) -> None:
    """Read an image file; one of several pages, such as a fax, page by page."""
    data = sink.task.path.read_bytes()
    frames = _frames(data)
    sink.told.total, sink.told.read = frames, 0
    if not sink.task.ocr:
        raise Refused("It is an image, and OCR is off.", code="no_text")
    for frame in range(sink.task.after_page, frames):
        sink.at(frame + 1, frames)
        if not sink.may_recognise():
            break
        picture = ocr.open_image(data) if frames == 1 else _frame(data, frame)
        text = ocr.recognise(picture)
        sink.recognised += 1
        sink.told.read = frame + 1
        if text:
            sink.part(text + "\n\n", frame + 1)


def _frames(data: bytes) -> int:
    try:
        with images.open(io.BytesIO(data)) as opened:
            animated = opened.format in ("GIF", "PNG", "WEBP")  # many pictures, one meaning
            return 1 if animated else min(int(getattr(opened, "n_frames", 1)), _MOST_FRAMES)
    except Exception as error:
        raise ocr.unopened(error) from error


def _frame(data: bytes, number: int) -> object:
    try:
        with images.open(io.BytesIO(data)) as opened:
            opened.seek(number)
            picture = opened.convert("RGB")
            picture.thumbnail((4_000, 4_000))
            return numpy.asarray(picture)
    except Exception as error:
        raise ocr.unopened(error) from error
