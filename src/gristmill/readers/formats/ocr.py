"""Text recognition: the lines of a picture are found, turned upright and recognised, then put in reading order.

It takes 3 to 6 CPU-seconds a page and up to 1.2 GB: callers ask for it first (`Sink.reserve_ocr`).
"""

import io
from dataclasses import dataclass
from typing import Any

from gristmill.readers.formats import ocr_layout, ocr_lines
from gristmill.readers.libraries import image_operations, images, numpy
from gristmill.readers.sink import DocumentRefused
from gristmill.readers.text_boxes import TextBox

_MAX_SIDE = 4_000
_MAX_PIXELS = 200_000_000
_MIN_CONFIDENCE = 0.8  # of the letters of a page: with less, its text is doubtful
_MIN_LETTERS = 20  # of a page that can be doubtful


@dataclass(frozen=True)
class OcrText:
    """The markdown of a picture, where its lines stand, and how confident the recognition is, from 0 to 1."""

    text: str
    boxes: list[TextBox]
    confidence: float

    @property
    def is_doubtful(self) -> bool:
        """Whether the text is probably not what the picture shows: another script, or handwriting."""
        letters = sum(character.isalnum() for character in self.text)
        return letters >= _MIN_LETTERS and self.confidence < _MIN_CONFIDENCE


def recognise(picture: Any) -> OcrText:
    """The text of a picture (an array of RGB pixels), in reading order."""
    page = ocr_lines.read_lines(picture)
    text, boxes = ocr_layout.page_text(page)
    return OcrText(text, boxes, page.confidence)


def open_image(data: bytes) -> Any:
    """The pixels of an image file, scaled down for recognition."""
    try:
        with images.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > _MAX_PIXELS:
                raise DocumentRefused(f"The image has {width:,} × {height:,} pixels.", code="bomb")
            image.draft("RGB", (_MAX_SIDE, _MAX_SIDE))
            # As it is displayed: a camera notes in the file how it was held.
            image = image_operations.exif_transpose(image)
            image = with_8_bits(image)
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


def with_8_bits(image: Any) -> Any:
    """The image, with greys of 16 bits scaled to 8: a conversion would cut them off, and leave white paper."""
    if not image.mode.startswith("I"):
        return image
    scale = 255 / max(255, image.getextrema()[1])

    def scale_grey(grey: Any) -> Any:
        return grey * scale

    return image.point(scale_grey).convert("L")


def image_error(error: Exception) -> DocumentRefused:
    """The refusal for an image that can't be opened: Pillow raises errors of any type."""
    if type(error).__name__ == "DecompressionBombError":
        return DocumentRefused(f"The image is too large when decompressed: {error}"[:300], code="bomb")
    return DocumentRefused(f"The image can't be opened: {error}"[:300], code="corrupt")
