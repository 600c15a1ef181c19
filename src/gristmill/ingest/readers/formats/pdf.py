"""PDF, page by page: text in reading order with headings, OCR for what was scanned, attachments and images.

Pages are read one at a time and let go; the file is never whole in memory, and is opened anew every few hundred pages
because PDFium keeps what it has seen. A page that can't be opened is counted as not read; one that kills the process
is passed over by the parent. Pages up to `after_page` are taken as read.
"""

import contextlib
import ctypes
import io
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from gristmill.ingest.readers.formats import ocr, pdf_layout
from gristmill.ingest.readers.sink import Refused, Sink
from gristmill.ingest.readers.untyped import pdfium, pdfium_c

_WINDOW = 250
_FEW = 16  # letters: a page with fewer has no text to speak of
_DPI = 200
_MOST_RENDERED = 25_000_000  # pixels
_MOST_IMAGES = 200  # of one document, as assets
_MOST_IMAGE_PIXELS = 16_000_000
_ATTACHMENT_LIMIT = 256 * 1024 * 1024
_MEANINGLESS = re.compile("[\ufffd\ue000-\uf8ff]")
_FIELDS = ("Title", "Author", "Subject", "Keywords", "Creator", "CreationDate", "ModDate")


def read(sink: Sink) -> None:
    """Read a PDF."""
    with _opened(sink) as document:
        total = len(document)
        described = document.get_metadata_dict()
        sink.told.metadata |= {
            name.lower(): described[name][:1000] for name in _FIELDS if described.get(name)
        }
        sink.told.title = (described.get("Title") or "").strip()[:500] or None
        if pdfium_c.FPDF_GetSecurityHandlerRevision(document) >= 0:
            sink.warn("encrypted")
        if not sink.task.after_page:
            _attachments(sink, document)
    if _cross_reference_is_off(sink):
        sink.warn("damaged")
    sink.told.total, sink.told.read = total, min(sink.task.after_page, total)
    for first in range(sink.task.after_page, total, _WINDOW):
        with _opened(sink) as document:
            for index in range(first, min(first + _WINDOW, total)):
                sink.at(index + 1, total)
                sink.told.read += _page(sink, document, index)


@contextmanager
def _opened(sink: Sink) -> Generator[Any]:
    try:
        document = pdfium.PdfDocument(str(sink.task.path))
        count = len(document)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise Refused("It needs a password to be opened.", code="encrypted") from None
        raise Refused(f"It can't be opened as a PDF: {error}", code="corrupt") from None
    if count == 0:
        document.close()
        raise Refused("It is a PDF without any page that can be found.", code="corrupt")
    try:
        yield document
    finally:
        document.close()


def _page(sink: Sink, document: Any, index: int) -> bool:
    """One page; tells whether it could be read."""
    try:
        page = document[index]
    except pdfium.PdfiumError:
        sink.warn("damaged")
        return False
    try:
        text = _text(page)
        pictures = _pictures(page)
        start = sink.characters
        if _unreadable(text) and _has_looks(page, pictures):
            if sink.may_recognise():
                text = ocr.recognise(_render(page)) or text
                sink.recognised += 1
            else:
                sink.warn("ocr_skipped")
        elif pictures and sink.images < _MOST_IMAGES:
            _images(sink, pictures, index + 1, start)
        if text:
            sink.part(text + "\n\n", index + 1)
        _pinned(sink, page)
    finally:
        page.close()
    return True


def _pictures(page: Any) -> list[Any]:
    """The images of a page; most pages have none, and that is found without an object for each of its words."""
    count = pdfium_c.FPDFPage_CountObjects(page)
    types = {pdfium_c.FPDFPageObj_GetType(pdfium_c.FPDFPage_GetObject(page, index)) for index in range(count)}
    if not types & {pdfium_c.FPDF_PAGEOBJ_IMAGE, pdfium_c.FPDF_PAGEOBJ_FORM}:
        return []
    return list(page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=3))


def _text(page: Any) -> str:
    textpage = page.get_textpage()
    try:
        return pdf_layout.markdown(textpage)
    finally:
        textpage.close()


def _unreadable(text: str) -> bool:
    """Whether a page has too little text, or text whose fonts don't say what their glyphs mean."""
    if len(text) < 20 * _FEW and sum(sign.isalnum() for sign in text) < _FEW:
        return True
    return len(_MEANINGLESS.findall(text)) > 0.3 * len(text)


def _has_looks(page: Any, pictures: list[Any]) -> bool:
    """Whether there is something to see that may be text: an image of some size, or many strokes."""
    width, height = page.get_size()
    area = 0.0
    for picture in pictures:
        left, bottom, right, top = picture.get_bounds()
        area += max(0.0, right - left) * max(0.0, top - bottom)
    if area > 0.05 * width * height:
        return True
    return pdfium_c.FPDFPage_CountObjects(page) - len(pictures) > 50


def _render(page: Any) -> Any:
    width, height = page.get_size()
    scale = _DPI / 72
    pixels = width * height * scale * scale
    if pixels > _MOST_RENDERED:
        scale *= (_MOST_RENDERED / pixels) ** 0.5
    return page.render(scale=scale, rev_byteorder=True).to_numpy()[:, :, :3]


def _images(sink: Sink, pictures: list[Any], page: int, start: int) -> None:
    for picture in pictures:
        if sink.images >= _MOST_IMAGES:
            return
        # A broken image costs itself.
        with contextlib.suppress(pdfium.PdfiumError, ValueError, OSError):
            data, media_type = _image(picture)
            sink.asset(data, media_type, page=page, start=start)


def _image(picture: Any) -> tuple[bytes, str]:
    width, height = picture.get_px_size()
    if width * height > _MOST_IMAGE_PIXELS:
        raise ValueError("too large")
    if picture.get_filters(skip_simple=True) == ["DCTDecode"]:
        return bytes(picture.get_data(decode_simple=True)), "image/jpeg"
    file = io.BytesIO()
    picture.get_bitmap(render=False).to_pil().save(file, "PNG", compress_level=1)
    return file.getvalue(), "image/png"


def _attachments(sink: Sink, document: Any) -> None:
    for number in range(document.count_attachments()):
        with contextlib.suppress(pdfium.PdfiumError):
            attachment = document.get_attachment(number)
            sink.embedded(attachment.get_name(), bytes(attachment.get_data()))


def _pinned(sink: Sink, page: Any) -> None:
    """Files that are attached to a place on the page."""
    for number in range(pdfium_c.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            if pdfium_c.FPDFAnnot_GetSubtype(annotation) != pdfium_c.FPDF_ANNOT_FILEATTACHMENT:
                continue
            if file := pdfium_c.FPDFAnnot_GetFileAttachment(annotation):
                sink.embedded(*_file_of(file))
        finally:
            pdfium_c.FPDFPage_CloseAnnot(annotation)


def _file_of(file: Any) -> tuple[str, bytes]:
    length = pdfium_c.FPDFAttachment_GetName(file, None, 0)
    name = ctypes.create_string_buffer(length)
    pdfium_c.FPDFAttachment_GetName(file, ctypes.cast(name, ctypes.POINTER(ctypes.c_ushort)), length)
    size = ctypes.c_ulong()
    pdfium_c.FPDFAttachment_GetFile(file, None, 0, ctypes.byref(size))
    data = ctypes.create_string_buffer(min(size.value, _ATTACHMENT_LIMIT))
    pdfium_c.FPDFAttachment_GetFile(file, data, len(data), ctypes.byref(size))
    return name.raw.decode("utf-16-le", "replace").rstrip("\0"), data.raw


def _cross_reference_is_off(sink: Sink) -> bool:
    """Whether the file's own table of contents is not where it says: PDFium then puts one together as it can."""
    with sink.task.path.open("rb") as file:
        head = file.read(1024)
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - 2048))
        found = re.findall(rb"startxref\s+(\d+)", file.read())
        if not found:
            return True
        for shift in (0, max(head.find(b"%PDF-"), 0)):
            file.seek(min(int(found[-1]) + shift, size))
            if re.match(rb"\s*(xref|\d+\s+\d+\s+obj)", file.read(64)):
                return False
    return True
