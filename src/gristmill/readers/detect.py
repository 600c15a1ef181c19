"""What kind of document a file is, by what is in it; its name decides only between kinds that look alike.

Runs in a child, because it opens archives and compound files. What no reader takes is refused by name.
"""

import re
import zipfile
from pathlib import Path
from typing import Any

from gristmill.readers import text_format
from gristmill.readers.libraries import olefile
from gristmill.readers.sink import DocumentRefused

HEAD_BYTES = 64 * 1024

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "pdf"),
    (b"{\\rtf", "rtf"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"BM", "bitmap"),
    (b"II*\0", "image"),
    (b"MM\0*", "image"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d\xae\xb1\x53\x78\xd0\x29\x96\xd3", "onenote"),
)
_UNSUPPORTED: tuple[tuple[bytes, str], ...] = (
    (b"ITSF", "a compiled help file"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"OggS", "sound"),
    (b"ID3", "sound"),
    (b"fLaC", "sound"),
    (b"SQLite format 3", "a database"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"!<arch>", "a library of programs"),
    (b"\0asm", "a program"),
)
# Members that say what a zip archive is.
_KIND_BY_ZIP_MEMBER = (
    ("word/document.xml", "docx"),
    ("word/document2.xml", "docx"),
    ("xl/workbook.xml", "xlsx"),
    ("xl/workbook.bin", "xlsb"),
    ("ppt/presentation.xml", "pptx"),
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
} | {
    "pptx": "pptx",
    "pptm": "pptx",
    "ppsx": "pptx",
    "odt": "odt",
    "ods": "ods",
    "odp": "odp",
    "epub": "epub",
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
_HEADER = re.compile(rb"[!-9;-~]+:[ \t]")
_MAIL_HEADERS = re.compile(
    rb"^(from|to|subject|date|received|return-path|message-id|mime-version|delivered-to):", re.I | re.M
)


def document_kind(path: Path, name: str, media_type: str | None) -> str:
    """The kind of the file at `path`, as `kinds.READERS` knows it; Refused when there is none."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    suffix = name.rpartition(".")[2].lower()
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08", b"PK00PK\x03\x04")):
        return _zip_kind(path, suffix)
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return _ole_kind(path, suffix)
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind if kind != "bitmap" else _bitmap_kind(head, path, name, media_type)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image"
    if head[257:262] == b"ustar":
        return "tar"
    if b"%PDF-" in head[:1024]:
        return "pdf"
    for magic, description in _UNSUPPORTED:
        if head.startswith(magic):
            raise DocumentRefused(f"It is {description}, which is not read.", code="unsupported_type")
    return _text_kind(head, path, name, media_type, suffix)


def _bitmap_kind(head: bytes, path: Path, name: str, media_type: str | None) -> str:
    return (
        "image"
        if head[6:10] == b"\0\0\0\0"
        else _text_kind(head, path, name, media_type, name.rpartition(".")[2])
    )


def _text_kind(head: bytes, path: Path, name: str, media_type: str | None, suffix: str) -> str:
    if not text_format.looks_like_text(head):
        if suffix == "zip" and zipfile.is_zipfile(path):
            return "zip"  # the last volume of several begins in the middle of an entry
        if suffix in _KIND_BY_ZIP_SUFFIX or suffix in (
            "doc",
            "xls",
            "ppt",
            "msg",
            "pdf",
            "one",
            "tar",
            "zip",
        ):
            raise DocumentRefused(
                f"Its name says {suffix}, but it is none, or its beginning is lost.", code="corrupt"
            )
        raise DocumentRefused(
            "It is neither text nor a kind of document that is read.", code="unsupported_type"
        )
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{\\rtf"):
        return "rtf"
    if head.startswith(b"From ") and (suffix == "mbox" or _has_mail_headers(head.partition(b"\n")[2])):
        return "mbox"
    if suffix in ("eml", "mht", "mhtml") or _has_mail_headers(start):
        return "eml"
    return text_format.detect_format(head, name, media_type).kind


def _has_mail_headers(text: bytes) -> bool:
    """Headers from the first line on, and at least three that only mail has together."""
    if _HEADER.match(text) is None:
        return False
    headers = re.split(rb"\r?\n\r?\n", text, maxsplit=1)[0]
    return len({found.lower() for found in _MAIL_HEADERS.findall(headers)}) >= 3


def _zip_kind(path: Path, suffix: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if "mimetype" in names:
                mimetype = archive.open("mimetype").read(200).decode("ascii", "replace").strip()
                if mimetype in _KIND_BY_MIMETYPE:
                    return _KIND_BY_MIMETYPE[mimetype]
    except Exception:  # zipfile raises whatever a broken archive makes it stumble over
        # Archives are walked without their directory where it is broken; office documents can't be.
        if suffix in _KIND_BY_ZIP_SUFFIX:
            raise DocumentRefused("Its archive is broken or cut off.", code="corrupt") from None
        return "zip"
    for member, kind in _KIND_BY_ZIP_MEMBER:
        if member in names:
            return kind
    if "[Content_Types].xml" in names and suffix in _KIND_BY_ZIP_SUFFIX:
        return _KIND_BY_ZIP_SUFFIX[suffix]
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
        raise DocumentRefused(f"It is a compound file without what a .{suffix} file needs.", code="corrupt")
    return "ole"
