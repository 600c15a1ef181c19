"""Pictures of pages, in the child process: how many a PDF or an image file has, how large they are, and one of them as a JPEG.

A PDF's form fields are not filled in, and none of its actions run. What can't be opened is refused like a document that is read.
"""

import base64
import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gristmill.readers import sandbox
from gristmill.readers.formats import ocr
from gristmill.readers.formats.pdf_outline import clean_title, read_outline
from gristmill.readers.libraries import image_operations, images, pdfium, pdfium_c
from gristmill.readers.protocol import Message
from gristmill.readers.sink import DocumentRefused, refuse_encrypted

MAX_PAGES = 20_000
_MAX_PIXELS = 12_000_000
_MAX_IMAGE_BYTES = 2_500_000  # of a message, which is text
_QUALITIES = (88, 75, 55, 35)
_HEAD_BYTES = 1_024
_MAX_FRAMES = 200


def run(message: Message) -> Message:
    """Do what the parent asks for: the list of pages, or the picture of one."""
    task: dict[str, Any] = message["task"]
    sandbox.limit_memory(task["memory"])
    sandbox.limit_cpu(task["cpu_seconds"])
    path = Path(task["path"])
    with path.open("rb") as file:
        is_pdf = b"%PDF-" in file.read(_HEAD_BYTES)
    if message["k"] == "pages":
        return _pdf_pages(path) if is_pdf else _image_pages(path)
    page, width = int(task["page"]), int(task["width"])
    picture = _pdf_picture(path, page, width) if is_pdf else _image_picture(path, page, width)
    return {"k": "image", "data": base64.b64encode(_jpeg(picture)).decode("ascii")}


def _jpeg(picture: Any) -> bytes:
    """The picture in the best quality that fits into a message."""
    data = b""
    for quality in _QUALITIES:
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=quality, subsampling=0 if quality > 80 else 2)
        data = file.getvalue()
        if len(data) <= _MAX_IMAGE_BYTES:
            break
    return data


# ── PDF ──────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _open_pdf(path: Path) -> Generator[Any]:
    try:
        document = pdfium.PdfDocument(str(path))
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            refuse_encrypted()
        raise DocumentRefused(f"It can't be opened as a PDF: {error}", code="corrupt") from None
    try:
        yield document
    finally:
        document.close()


def _pdf_pages(path: Path) -> Message:
    with _open_pdf(path) as document:
        count = min(len(document), MAX_PAGES)
        size = pdfium_c.FS_SIZEF()
        sizes: list[tuple[float, float]] = []
        labels: list[str] = []
        for index in range(count):
            is_known = pdfium_c.FPDF_GetPageSizeByIndexF(document, index, size)
            width, height = (size.width, size.height) if is_known else (612.0, 792.0)
            sizes.append((round(max(1.0, width), 1), round(max(1.0, height), 1)))
            labels.append(clean_title(document.get_page_label(index) or ""))
        outline = [
            (entry.level, entry.title, entry.page) for entry in read_outline(document) if entry.page <= count
        ]
        return {"k": "pages", "sizes": sizes, "labels": labels, "outline": outline}


def _pdf_picture(path: Path, number: int, width: int) -> Any:
    with _open_pdf(path) as document:
        if not 1 <= number <= len(document):
            raise DocumentRefused(f"It has no page {number}.", code="page_not_found")
        try:
            page = document[number - 1]
        except pdfium.PdfiumError as error:
            raise DocumentRefused(f"Page {number} can't be opened: {error}", code="corrupt") from None
        page_width, page_height = (max(1.0, side) for side in page.get_size())
        scale = width / page_width
        pixels = scale * scale * page_width * page_height
        if pixels > _MAX_PIXELS:
            scale *= (_MAX_PIXELS / pixels) ** 0.5
        picture = page.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB")
        page.close()
        return picture


# ── images ───────────────────────────────────────────────────────────────────────────────────────────────


def _image_pages(path: Path) -> Message:
    try:
        with images.open(path) as image:
            is_animation = image.format in ("GIF", "PNG", "WEBP")
            frames = 1 if is_animation else min(int(getattr(image, "n_frames", 1)), _MAX_FRAMES)
            sizes: list[tuple[float, float]] = []
            for frame in range(frames):
                image.seek(frame)
                shown = image_operations.exif_transpose(image) if frames == 1 else image
                sizes.append((float(shown.size[0]), float(shown.size[1])))
    except DocumentRefused:
        raise
    except Exception as error:
        raise ocr.image_error(error) from error
    return {"k": "pages", "sizes": sizes, "labels": [""] * frames, "outline": []}


def _image_picture(path: Path, number: int, width: int) -> Any:
    try:
        with images.open(path) as image:
            if not 1 <= number <= int(getattr(image, "n_frames", 1)):
                raise DocumentRefused(f"It has no page {number}.", code="page_not_found")
            if image.size[0] * image.size[1] > 16 * _MAX_PIXELS:
                raise DocumentRefused("The image is too large to be shown.", code="bomb")
            image.seek(number - 1)
            shown = image_operations.exif_transpose(image) if number == 1 else image
            shown = ocr.with_8_bits(shown)
            if shown.mode in ("P", "LA", "PA", "RGBA"):  # put it on white paper
                layer = shown.convert("RGBA")
                shown = images.new("RGBA", layer.size, "white")
                shown.alpha_composite(layer)
            picture = shown.convert("RGB")
            picture.thumbnail((width, max(1, _MAX_PIXELS // width)))
            return picture
    except DocumentRefused:
        raise
    except Exception as error:
        raise ocr.image_error(error) from error
