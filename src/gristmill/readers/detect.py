"""The format of a document, by what is in the file; its name decides only between formats that look alike.

Runs in the child process, because it opens archives and compound files. Refuses what no reader takes.
"""

import zipfile
from pathlib import Path
from typing import Any

from gristmill.readers.libraries import olefile
from gristmill.readers.sink import DocumentRefused
from gristmill.readers.text_format import HEAD_BYTES, FileFormat, detect_format, looks_like_text

_KIND_BY_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "pdf"),
    (b"{\\rtf", "rtf"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"II*\0", "image"),
    (b"MM\0*", "image"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"!BDN", "pst"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d\xae\xb1\x53\x78\xd0\x29\x96\xd3", "onenote"),
)
# What can't be read, by its first bytes, and what to do instead.
_UNSUPPORTED: tuple[tuple[bytes, str, str], ...] = (
    (b"ITSF", "a compiled help file (chm)", "Decompile it, and add the pages."),
    (b"Rar!", "a RAR archive", "Unpack it, and add the files or a zip archive of them."),
    (b"AT&TFORM", "a DjVu document", "Convert it to PDF."),
    (b"\x7fELF", "a program", ""),
    (b"MZ", "a program", ""),
    (b"SQLite format 3", "a database", ""),
    (b"!<arch>", "a library of programs", ""),
    (b"\0asm", "a program", ""),
)
# A member with this name identifies the zip archive.
_KIND_BY_ZIP_MEMBER = (
    ("word/document.xml", "docx"),
    ("word/document2.xml", "docx"),
    ("xl/workbook.xml", "xlsx"),
    ("xl/workbook.bin", "xlsb"),
    ("ppt/presentation.xml", "pptx"),
    ("visio/document.xml", "vsdx"),
    ("FixedDocumentSequence.fdseq", "xps"),
    ("FixedDocSeq.fdseq", "xps"),
    ("Index/Document.iwa", "iwork"),
    ("Index.zip", "iwork"),
    ("index.apxl", "iwork"),
    ("index.apxl.gz", "iwork"),
)
_KIND_BY_MIMETYPE = {
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.text-template": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.spreadsheet-template": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.oasis.opendocument.presentation-template": "odp",
    "application/vnd.oasis.opendocument.graphics": "odp",
    "application/epub+zip": "epub",
}
_KIND_BY_ZIP_SUFFIX = {
    "docx": "docx",
    "docm": "docx",
    "dotx": "docx",
    "xlsx": "xlsx",
    "xlsm": "xlsx",
    "xlsb": "xlsb",
    "pptx": "pptx",
    "pptm": "pptx",
    "ppsx": "pptx",
    "odt": "odt",
    "ods": "ods",
    "odp": "odp",
    "epub": "epub",
    "vsdx": "vsdx",
    "vsdm": "vsdx",
    "xps": "xps",
    "oxps": "xps",
}
_KIND_BY_OLE_STREAM = (
    ("EncryptedPackage", "encrypted"),
    ("EncryptionInfo", "encrypted"),
    ("WordDocument", "doc"),
    ("Workbook", "xls"),
    ("Book", "xls"),
    ("PowerPoint Document", "ppt"),
    ("__properties_version1.0", "msg"),
)
_BINARY_SUFFIXES = frozenset(("doc", "xls", "ppt", "msg", "pdf", "one", "tar", "zip"))


def detect_document(path: Path, name: str, media_type: str | None) -> FileFormat:
    """The format of the file at `path`, whose kind is a key of `formats.READERS`; refuses what no reader takes."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    kind = _binary_kind(head, path, name)
    if kind is not None:
        return FileFormat(kind)
    if not looks_like_text(head):
        raise _refusal(name)
    return detect_format(head, name, media_type)


def _binary_kind(head: bytes, path: Path, name: str) -> str | None:
    """The kind of a file that is not text; None for what may be text."""
    suffix = _suffix(name)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08", b"PK00PK\x03\x04")):
        return _zip_kind(path, suffix)
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return _ole_kind(path, suffix)
    for magic, kind in _KIND_BY_MAGIC:
        if head.startswith(magic):
            return kind
    if head.startswith(b"BM"):  # two letters that many a text begins with too
        return "image" if head[6:10] == b"\0\0\0\0" else None
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image"
    if head[257:262] == b"ustar":
        return "tar"
    if b"%PDF-" in head[:1024]:
        return "pdf"
    for magic, description, advice in _UNSUPPORTED:
        if head.startswith(magic):
            message = f"It is {description}, which can't be read. {advice}".rstrip()
            raise DocumentRefused(message, code="unsupported_type")
    # The last volume of a split archive begins in the middle of an entry.
    is_last_volume = suffix == "zip" and not looks_like_text(head) and zipfile.is_zipfile(path)
    return "zip" if is_last_volume else None


def _refusal(name: str) -> DocumentRefused:
    suffix = _suffix(name)
    if suffix in _KIND_BY_ZIP_SUFFIX or suffix in _BINARY_SUFFIXES:
        return DocumentRefused(
            f"It is not a {suffix} file despite its name, or its beginning is damaged. Check it and add it again.",
            code="corrupt",
        )
    return DocumentRefused("It is neither text nor a document of a known format.", code="unsupported_type")


def _suffix(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _zip_kind(path: Path, suffix: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if "mimetype" in names:
                mimetype = archive.open("mimetype").read(200).decode("ascii", "replace").strip()
                if mimetype in _KIND_BY_MIMETYPE:
                    return _KIND_BY_MIMETYPE[mimetype]
    except Exception:  # zipfile raises errors of any type for a broken archive
        # An archive can be read without its central directory, an Office document can't.
        if suffix in _KIND_BY_ZIP_SUFFIX:
            raise DocumentRefused("Its zip archive is broken or cut off.", code="corrupt") from None
        return "zip"
    for member, kind in _KIND_BY_ZIP_MEMBER:
        if member in names:
            return kind
    if "[Content_Types].xml" in names and suffix in _KIND_BY_ZIP_SUFFIX:
        return _KIND_BY_ZIP_SUFFIX[suffix]
    if suffix in ("pages", "numbers", "key") and names & {
        "index.xml",
        "index.xml.gz",
        "QuickLook/Preview.pdf",
    }:
        return "iwork"
    if "content.xml" in names and "META-INF/manifest.xml" in names and suffix in ("odt", "ods", "odp"):
        return suffix
    return "zip"


def _ole_kind(path: Path, suffix: str) -> str:
    try:
        with olefile.OleFileIO(str(path)) as ole:
            streams: list[list[Any]] = ole.listdir(streams=True, storages=True)
    except Exception:
        raise DocumentRefused("Its compound file is broken or cut off.", code="corrupt") from None
    top = {str(entry[0]).lower() for entry in streams if len(entry) == 1}
    for stream, kind in _KIND_BY_OLE_STREAM:
        if stream.lower() in top:
            return kind
    if suffix in ("doc", "xls", "ppt", "msg"):
        raise DocumentRefused(
            f"It is a compound file, but has none of the streams of a .{suffix} file.", code="corrupt"
        )
    return "ole"
