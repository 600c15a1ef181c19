"""Which reader takes which kind of document, and how kinds are named in what is kept."""

from collections.abc import Callable

from gristmill.readers.detect import document_kind
from gristmill.readers.formats import (
    archive,
    binary_office,
    image,
    mail,
    markup,
    notebook,
    office,
    onenote,
    opendocument,
    outlook,
    pdf,
    pptx,
    text,
)
from gristmill.readers.sink import Sink

READERS: dict[str, Callable[[Sink], None]] = {
    **dict.fromkeys(("docx", "xlsx", "xlsb", "doc", "xls", "ppt", "rtf", "epub"), office.read),
    **dict.fromkeys(("odt", "ods", "odp"), opendocument.read),
    **dict.fromkeys(("text", "markdown", "code", "csv", "subtitles"), text.read),
    **dict.fromkeys(("gzip", "bzip2", "xz"), archive.read_compressed),
    "pdf": pdf.read,
    "pptx": pptx.read,
    "msg": outlook.read,
    "eml": mail.read,
    "mbox": mail.read_mbox,
    "html": markup.read_html,
    "xml": markup.read_xml,
    "ipynb": notebook.read,
    "image": image.read,
    "onenote": onenote.read,
    "zip": archive.read_zip,
    "tar": archive.read_tar,
    "7z": archive.read_7z,
    "ole": binary_office.read_unknown,
    "encrypted": binary_office.refuse_encrypted,
}

__all__ = ["READERS", "document_kind"]
