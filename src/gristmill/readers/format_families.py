"""The formats that can be read, as people know them: families with the usual endings of file names.

A list to show. What a file is, is decided by its bytes (`detect.py`), so a file with another ending may be readable too.
"""

from dataclasses import dataclass
from typing import Literal

from gristmill.readers.media_format import MEDIA_SUFFIXES

FamilyName = Literal[
    "text", "web", "office", "documents", "mail", "subtitles", "images", "archives", "recordings"
]


@dataclass(frozen=True)
class FormatFamily:
    """A family: the kinds of `detect.py` that belong to it, and the endings of their names."""

    name: FamilyName
    kinds: tuple[str, ...]
    suffixes: tuple[str, ...]


_OFFICE = ("docx", "xlsx", "xlsb", "pptx", "doc", "xls", "ppt", "odt", "ods", "odp", "rtf")
FAMILIES = (
    FormatFamily("documents", ("pdf", "epub", "xps"), ("pdf", "epub", "xps", "oxps")),
    FormatFamily(
        "office",
        (*_OFFICE, "onenote", "vsdx", "iwork"),
        (*_OFFICE, "one", "vsdx", "pages", "numbers", "key"),
    ),
    FormatFamily(
        "text",
        ("text", "markdown", "code", "csv", "ipynb"),
        ("md", "txt", "csv", "tsv", "json", "yaml", "ipynb", "py", "js", "java", "go", "rs", "sql"),
    ),
    FormatFamily("web", ("html", "xml"), ("html", "xhtml", "xml", "opml")),
    FormatFamily("mail", ("eml", "msg", "mbox", "pst"), ("eml", "mht", "msg", "mbox", "pst")),
    FormatFamily("images", ("image",), ("png", "jpg", "jpeg", "gif", "tiff", "bmp", "webp")),
    FormatFamily("subtitles", ("subtitles",), ("srt", "vtt")),
    FormatFamily(
        "archives",
        ("zip", "tar", "gzip", "bzip2", "xz", "zstd", "7z"),
        ("zip", "tar", "gz", "bz2", "xz", "zst", "7z"),
    ),
)
# Read only where an endpoint transcribes them.
RECORDINGS = FormatFamily("recordings", (), MEDIA_SUFFIXES)
