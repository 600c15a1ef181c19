"""What a PDF has apart from the text of its pages: its metadata, the fields of forms, and comments.

The value of a field follows the page with the field's name; free text on the page is a paragraph, and a comment is quoted. PDFium
needs an environment for forms before it knows the value of a field; `open_forms` makes it for documents that have one.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from gristmill.readers.document_metadata import DocumentMetadata, split_keywords, split_names
from gristmill.readers.libraries import pdfium, pdfium_c

_MAX_ANNOTATIONS = 2_000  # of a page
_MAX_BYTES = 64 * 1024  # of one text


def metadata(document: Any) -> DocumentMetadata:
    """What the document says of itself."""
    try:
        fields: dict[str, str] = document.get_metadata_dict(skip_empty=True)
    except (pdfium.PdfiumError, ValueError, UnicodeError):
        return DocumentMetadata()
    return DocumentMetadata(
        title=fields.get("Title"),
        authors=split_names(fields.get("Author")),
        created=fields.get("CreationDate"),
        modified=fields.get("ModDate"),
        keywords=split_keywords(fields.get("Keywords")),
        subject=fields.get("Subject"),
        language=_language(document),
    )


def _language(document: Any) -> str | None:
    get_language = getattr(pdfium_c, "FPDFCatalog_GetLanguage", None)
    return _string(lambda buffer, size: get_language(document, buffer, size)) if get_language else None


def open_forms(document: Any) -> None:
    """Make the values of fields known, before the first page is loaded."""
    with contextlib.suppress(pdfium.PdfiumError):
        if document.get_formtype() != pdfium_c.FORMTYPE_NONE:
            document.init_forms()


def annotation_texts(document: Any, page: Any) -> list[str]:
    """The filled fields, free texts and comments of a page, in order."""
    count = pdfium_c.FPDFPage_GetAnnotCount(page)
    if not count:
        return []
    texts: dict[str, None] = {}
    for number in range(min(count, _MAX_ANNOTATIONS)):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, number)
        if annotation:
            texts.update(dict.fromkeys(_texts_of(document, annotation)))
            pdfium_c.FPDFPage_CloseAnnot(annotation)
    return list(texts)


def _texts_of(document: Any, annotation: Any) -> Iterator[str]:
    kind = pdfium_c.FPDFAnnot_GetSubtype(annotation)
    if kind == pdfium_c.FPDF_ANNOT_WIDGET:
        if document.formenv is not None and (text := _field_text(document.formenv, annotation)):
            yield text
        return
    if kind in (pdfium_c.FPDF_ANNOT_LINK, pdfium_c.FPDF_ANNOT_POPUP, pdfium_c.FPDF_ANNOT_FILEATTACHMENT):
        return
    text = " ".join(_entry(annotation, b"Contents").split())
    if kind == pdfium_c.FPDF_ANNOT_FREETEXT:
        yield from filter(None, [text])
    elif text:
        author = " ".join(_entry(annotation, b"T").split())
        yield f"> {f'{author}: ' if author else ''}{text}"


def _field_text(forms: Any, annotation: Any) -> str:
    """A field with its name, if it has a value."""
    kind = pdfium_c.FPDFAnnot_GetFormFieldType(forms, annotation)
    if kind in (pdfium_c.FPDF_FORMFIELD_PUSHBUTTON, pdfium_c.FPDF_FORMFIELD_SIGNATURE, -1):
        return ""
    name = _field_string(pdfium_c.FPDFAnnot_GetFormFieldAlternateName, forms, annotation)
    name = " ".join((name or _field_string(pdfium_c.FPDFAnnot_GetFormFieldName, forms, annotation)).split())
    if kind in (pdfium_c.FPDF_FORMFIELD_CHECKBOX, pdfium_c.FPDF_FORMFIELD_RADIOBUTTON):
        if not pdfium_c.FPDFAnnot_IsChecked(forms, annotation):
            return ""
        value = _field_string(pdfium_c.FPDFAnnot_GetFormFieldExportValue, forms, annotation)
        return f"{name}: {value or 'yes'}"
    value = _field_string(pdfium_c.FPDFAnnot_GetFormFieldValue, forms, annotation).strip()
    return f"{name}: {value}" if value and name else value


def _field_string(get: Callable[..., int], forms: Any, annotation: Any) -> str:
    return _string(lambda buffer, size: get(forms, annotation, buffer, size))


def _entry(annotation: Any, key: bytes) -> str:
    return _string(lambda buffer, size: pdfium_c.FPDFAnnot_GetStringValue(annotation, key, buffer, size))


def _string(get: Callable[[Any, int], int]) -> str:
    """The text that PDFium writes into a buffer, once its size is known."""
    size = min(get(None, 0), _MAX_BYTES)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    get(ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0").replace("\r\n", "\n").replace("\r", "\n")
