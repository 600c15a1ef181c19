"""One module for each family of formats. Its functions take a `Sink`, run in the child process, and fill the sink."""

from collections.abc import Callable

from gristmill.readers import plain_text
from gristmill.readers.formats import (
    archive,
    binary_office,
    docx,
    image,
    iwork,
    mail,
    markup,
    notebook,
    office,
    onenote,
    opendocument,
    outlook,
    outlook_folders,
    pdf,
    pptx,
    rtf,
    subtitles,
    visio,
    xlsx,
    xps,
)
from gristmill.readers.sink import Sink

# Which function reads which kind of document; kinds are what `detect.py` names.
READERS: dict[str, Callable[[Sink], None]] = {
    **dict.fromkeys(("xlsb", "doc", "xls", "ppt", "epub"), office.read),
    **dict.fromkeys(("odt", "ods", "odp"), opendocument.read),
    **dict.fromkeys(("text", "markdown", "code", "csv"), plain_text.read_any_encoding),
    **dict.fromkeys(("gzip", "bzip2", "xz", "zstd"), archive.read_compressed),
    "docx": docx.read,
    "pdf": pdf.read,
    "pptx": pptx.read,
    "rtf": rtf.read,
    "xlsx": xlsx.read,
    "msg": outlook.read,
    "eml": mail.read,
    "mbox": mail.read_mbox,
    "pst": outlook_folders.read,
    "html": markup.read_html,
    "xml": markup.read_xml,
    "ipynb": notebook.read,
    "subtitles": subtitles.read,
    "iwork": iwork.read,
    "vsdx": visio.read,
    "xps": xps.read,
    "image": image.read,
    "onenote": onenote.read,
    "zip": archive.read_zip,
    "tar": archive.read_tar,
    "7z": archive.read_7z,
    "ole": binary_office.read_unknown,
    "encrypted": binary_office.read_encrypted,
}
