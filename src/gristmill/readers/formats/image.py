"""Image files: their text, by OCR. An image without text is refused with `no_text`."""

import io

from gristmill.readers.document_metadata import DocumentMetadata, split_names
from gristmill.readers.formats import ocr
from gristmill.readers.libraries import images, numpy
from gristmill.readers.sink import DocumentRefused, Sink

_MAX_FRAMES = 200
_EXIF_IFD, _DATE_TAKEN, _DESCRIPTION, _ARTIST, _DATE_CHANGED = 0x8769, 36867, 270, 315, 306


def read(sink: Sink) -> None:
    """Read an image file; if it has several pages, like a fax, page by page."""
    data = sink.task.path.read_bytes()
    frames = _frame_count(data)
    sink.describe(image_metadata(data))
    sink.report.pages_total, sink.report.pages_read = frames, 0
    if not sink.task.ocr:
        raise DocumentRefused("It is an image, and OCR is turned off.", code="no_text")
    for frame in range(sink.task.after_page, frames):
        sink.begin_page(frame + 1, frames)
        if not sink.reserve_ocr():
            break
        picture = ocr.open_image(data) if frames == 1 else _frame_pixels(data, frame)
        recognised = ocr.recognise(picture)
        sink.count_ocr(is_doubtful=recognised.is_doubtful)
        sink.report.pages_read = frame + 1
        if recognised.text:
            sink.add_text(recognised.text + "\n\n", frame + 1, recognised.boxes)


def image_metadata(data: bytes) -> DocumentMetadata:
    """What a camera or an image program noted: when, by whom, and of what."""
    try:
        with images.open(io.BytesIO(data)) as image:
            tags = image.getexif()
            taken = tags.get_ifd(_EXIF_IFD).get(_DATE_TAKEN)
            description, artist, changed = (tags.get(tag) for tag in (_DESCRIPTION, _ARTIST, _DATE_CHANGED))
    except Exception:  # Pillow raises errors of any type for a made-up image; OCR reports those that matter
        return DocumentMetadata()
    created = taken or changed
    return DocumentMetadata(
        title=description if isinstance(description, str) else None,
        authors=split_names(artist) if isinstance(artist, str) else (),
        created=created if isinstance(created, str) else None,
    )


def _frame_count(data: bytes) -> int:
    try:
        with images.open(io.BytesIO(data)) as image:
            is_animation = image.format in ("GIF", "PNG", "WEBP")  # its frames are one picture
            return 1 if is_animation else min(int(getattr(image, "n_frames", 1)), _MAX_FRAMES)
    except Exception as error:
        raise ocr.image_error(error) from error


def _frame_pixels(data: bytes, number: int) -> object:
    try:
        with images.open(io.BytesIO(data)) as image:
            image.seek(number)
            picture = ocr.with_8_bits(image).convert("RGB")
            picture.thumbnail((4_000, 4_000))
            return numpy.asarray(picture)
    except Exception as error:
        raise ocr.image_error(error) from error
