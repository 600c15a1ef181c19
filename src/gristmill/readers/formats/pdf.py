"""PDF, page by page: text in reading order with headings, OCR for scanned pages, attachments and images.

One page at a time is in memory. The file is opened again every few hundred pages, because PDFium keeps what it has
seen. A page that can't be opened counts as not read; a page that kills the process is skipped by the parent. Pages up
to `after_page` count as read.
"""

import contextlib
import ctypes
import io
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from gristmill.readers.formats import ocr, pdf_boxes, pdf_extras, pdf_layout
from gristmill.readers.formats.pdf_outline import OutlineTitle, read_outline, titles_by_page
from gristmill.readers.formats.pdf_pages import LoadedPage, PdfPages
from gristmill.readers.formats.pdf_profile import PdfProfile
from gristmill.readers.formats.pdf_readability import Readability, readability
from gristmill.readers.libraries import pdfium, pdfium_c
from gristmill.readers.sink import DocumentRefused, Sink, clean_text, refuse_encrypted
from gristmill.readers.text_boxes import TextBox

_PAGES_PER_OPEN = 250
_MIN_LETTERS = 16  # a page with fewer counts as without text
_DPI = 200
_MAX_RENDERED_PIXELS = 25_000_000  # pixels
_MAX_IMAGES = 200  # of one document, as assets
_MAX_IMAGE_PIXELS = 16_000_000
_MAX_ATTACHMENT_BYTES = 256 * 1024 * 1024
_UNMAPPED_GLYPHS = re.compile("[\ufffd\ue000-\uf8ff]")


def read(sink: Sink) -> None:
    """Read a PDF."""
    with _open_document(sink) as document:
        total = len(document)
        if pdfium_c.FPDF_GetSecurityHandlerRevision(document) >= 0:
            sink.warn("encrypted")
        sink.describe(pdf_extras.metadata(document))
        titles = titles_by_page(read_outline(document))
        if not sink.task.after_page and not sink.task.carried:
            _add_attachments(sink, document)
    if _is_cross_reference_broken(sink):
        sink.warn("damaged")
    sink.report.pages_total, sink.report.pages_read = total, min(sink.task.after_page, total)
    profile: PdfProfile | None = None
    for first in range(sink.task.after_page, total, _PAGES_PER_OPEN):
        with _open_document(sink) as document:
            pdf_extras.open_forms(document)
            pages = PdfPages(document)
            profile = profile or pages.profile()
            for index in range(first, min(first + _PAGES_PER_OPEN, total)):
                sink.begin_page(index + 1, total)
                sink.check_turn()
                sink.report.pages_read += _read_page(sink, pages, index, profile, titles.get(index + 1, ()))
            pages.close()


def page_texts(document: Any) -> list[str]:
    """The texts of all pages of an open document, without OCR."""
    pages = PdfPages(document)
    profile = pages.profile()
    titles = titles_by_page(read_outline(document))
    texts: list[str] = []
    for index in range(len(document)):
        page = pages.take(index)
        texts.append(pdf_layout.markdown(page, profile, titles.get(index + 1, ())))
        page.close()
    return texts


@contextmanager
def _open_document(sink: Sink) -> Generator[Any]:
    try:
        document = pdfium.PdfDocument(str(sink.task.path))
        count = len(document)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            refuse_encrypted()
        raise DocumentRefused(f"It can't be opened as a PDF: {error}", code="corrupt") from None
    if count == 0:
        document.close()
        raise DocumentRefused("It is a PDF without pages.", code="corrupt")
    try:
        yield document
    finally:
        document.close()


def _read_page(
    sink: Sink, pages: PdfPages, index: int, profile: PdfProfile, titles: Sequence[OutlineTitle]
) -> bool:
    """Read one page; returns whether it could be read."""
    try:
        loaded = pages.take(index)
    except pdfium.PdfiumError:
        sink.warn("damaged")
        return False
    page = loaded.page
    try:
        raw_text = pdf_layout.markdown(loaded, profile, titles)
        text = clean_text(raw_text)
        boxes: Sequence[TextBox] | None = None
        images = _page_images(loaded)
        start = sink.characters
        judgement = readability(loaded.textpage, raw_text)
        is_garbage = judgement is Readability.UNREADABLE
        if judgement is Readability.PARTLY:
            sink.warn("unreadable_text")
        if is_garbage or (_lacks_text(text) and _looks_scanned(page, images)):
            if sink.reserve_ocr():
                recognised = ocr.recognise(_render_page(page))
                sink.count_ocr(is_doubtful=recognised.is_doubtful)
                if recognised.text:
                    text, boxes = recognised.text, recognised.boxes
            else:
                sink.warn("unreadable_text" if is_garbage else "ocr_skipped")
        elif images and sink.image_count < _MAX_IMAGES:
            _add_images(sink, images, index + 1, start)
        if text:
            boxes = pdf_boxes.text_boxes(loaded, text) if boxes is None else boxes
            sink.add_text(text + "\n\n", index + 1, boxes)
        for extra in pdf_extras.annotation_texts(pages.document, page):
            sink.add_text(extra + "\n\n", index + 1)
        _add_annotation_files(sink, page)
    finally:
        loaded.close()
    return True


def _page_images(loaded: LoadedPage) -> list[Any]:
    """The images of a page. Most pages have none: that is checked first, without an object for each word."""
    if not loaded.objects.has_images:
        return []
    return list(loaded.page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=3))


def _lacks_text(text: str) -> bool:
    """Whether a page has too little text, or fonts that don't map their glyphs to characters."""
    if len(text) < 20 * _MIN_LETTERS and sum(character.isalnum() for character in text) < _MIN_LETTERS:
        return True
    return len(_UNMAPPED_GLYPHS.findall(text)) > 0.3 * len(text)


def _looks_scanned(page: Any, images: list[Any]) -> bool:
    """Whether the page may show text without having any: a large image, or many strokes."""
    width, height = page.get_size()
    area = 0.0
    for image in images:
        left, bottom, right, top = image.get_bounds()
        area += max(0.0, right - left) * max(0.0, top - bottom)
    if area > 0.05 * width * height:
        return True
    return pdfium_c.FPDFPage_CountObjects(page) - len(images) > 50


def _render_page(page: Any) -> Any:
    width, height = page.get_size()
    scale = _DPI / 72
    pixels = width * height * scale * scale
    if pixels > _MAX_RENDERED_PIXELS:
        scale *= (_MAX_RENDERED_PIXELS / pixels) ** 0.5
    return page.render(scale=scale, rev_byteorder=True).to_numpy()[:, :, :3]


def _add_images(sink: Sink, images: list[Any], page: int, start: int) -> None:
    for image in images:
        if sink.image_count >= _MAX_IMAGES:
            return
        # A broken image is left out.
        with contextlib.suppress(pdfium.PdfiumError, ValueError, OSError):
            data, media_type = _encode_image(image)
            sink.add_asset(data, media_type, page=page, start=start)


def _encode_image(image: Any) -> tuple[bytes, str]:
    width, height = image.get_px_size()
    if width * height > _MAX_IMAGE_PIXELS:
        raise ValueError("too large")
    if image.get_filters(skip_simple=True) == ["DCTDecode"]:
        return bytes(image.get_data(decode_simple=True)), "image/jpeg"
    file = io.BytesIO()
    image.get_bitmap(render=False).to_pil().save(file, "PNG", compress_level=1)
    return file.getvalue(), "image/png"


def _add_attachments(sink: Sink, document: Any) -> None:
    for number in range(document.count_attachments()):
        with contextlib.suppress(pdfium.PdfiumError):
            attachment = document.get_attachment(number)
            sink.add_attachment(attachment.get_name(), bytes(attachment.get_data()))


def _add_annotation_files(sink: Sink, page: Any) -> None:
    """Hand over the files that are attached to annotations of the page."""
    for number in range(pdfium_c.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            if pdfium_c.FPDFAnnot_GetSubtype(annotation) != pdfium_c.FPDF_ANNOT_FILEATTACHMENT:
                continue
            if file := pdfium_c.FPDFAnnot_GetFileAttachment(annotation):
                sink.add_attachment(*_attachment(file))
        finally:
            pdfium_c.FPDFPage_CloseAnnot(annotation)


def _attachment(file: Any) -> tuple[str, bytes]:
    length = pdfium_c.FPDFAttachment_GetName(file, None, 0)
    name = ctypes.create_string_buffer(length)
    pdfium_c.FPDFAttachment_GetName(file, ctypes.cast(name, ctypes.POINTER(ctypes.c_ushort)), length)
    size = ctypes.c_ulong()
    pdfium_c.FPDFAttachment_GetFile(file, None, 0, ctypes.byref(size))
    data = ctypes.create_string_buffer(min(size.value, _MAX_ATTACHMENT_BYTES))
    pdfium_c.FPDFAttachment_GetFile(file, data, len(data), ctypes.byref(size))
    return name.raw.decode("utf-16-le", "replace").rstrip("\0"), data.raw


def _is_cross_reference_broken(sink: Sink) -> bool:
    """Whether the cross-reference table is not where the file says; PDFium then rebuilds one as well as it can."""
    with sink.task.path.open("rb") as file:
        head = file.read(1024)
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - 2048))
        offsets = re.findall(rb"startxref\s+(\d+)", file.read())
        if not offsets:
            return True
        for shift in (0, max(head.find(b"%PDF-"), 0)):
            file.seek(min(int(offsets[-1]) + shift, size))
            if re.match(rb"\s*(xref|\d+\s+\d+\s+obj)", file.read(64)):
                return False
    return True
