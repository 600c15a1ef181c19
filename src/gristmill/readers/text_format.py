"""The format of a text file, by its first bytes and its name. Pure, and the only place that decides it.

text, markdown           stays as it is
code, JSON, YAML         goes into a code fence that names its language
csv, tsv                 becomes a table
html, xml, ipynb, rtf,   have a reader of their own
eml, mbox, subtitles
"""

import re
from dataclasses import dataclass

_MARKDOWN_SUFFIXES = frozenset(("md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd"))
_LANGUAGE_BY_SUFFIX = {
    "py": "python",
    "pyi": "python",
    "pyx": "python",
    "js": "javascript",
    "mjs": "javascript",
    "cjs": "javascript",
    "jsx": "jsx",
    "ts": "typescript",
    "tsx": "tsx",
    "vue": "vue",
    "svelte": "svelte",
    "c": "c",
    "h": "c",
    "cc": "cpp",
    "cpp": "cpp",
    "cxx": "cpp",
    "hpp": "cpp",
    "hh": "cpp",
    "cs": "csharp",
    "java": "java",
    "kt": "kotlin",
    "kts": "kotlin",
    "scala": "scala",
    "go": "go",
    "rs": "rust",
    "rb": "ruby",
    "php": "php",
    "pl": "perl",
    "pm": "perl",
    "lua": "lua",
    "r": "r",
    "jl": "julia",
    "swift": "swift",
    "m": "objectivec",
    "mm": "objectivec",
    "dart": "dart",
    "ex": "elixir",
    "exs": "elixir",
    "erl": "erlang",
    "hs": "haskell",
    "ml": "ocaml",
    "fs": "fsharp",
    "clj": "clojure",
    "sh": "bash",
    "bash": "bash",
    "zsh": "bash",
    "fish": "fish",
    "ps1": "powershell",
    "bat": "bat",
    "sql": "sql",
    "css": "css",
    "scss": "scss",
    "less": "less",
    "proto": "protobuf",
    "graphql": "graphql",
    "yaml": "yaml",
    "yml": "yaml",
    "toml": "toml",
    "ini": "ini",
    "cfg": "ini",
    "conf": "ini",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "geojson": "json",
    "json5": "json",
    "tf": "hcl",
    "cmake": "cmake",
    "gradle": "groovy",
    "groovy": "groovy",
    "vb": "vb",
    "asm": "asm",
    "s": "asm",
    "zig": "zig",
    "nim": "nim",
    "d": "d",
    "f90": "fortran",
    "cob": "cobol",
    "pas": "pascal",
    "diff": "diff",
    "patch": "diff",
    "tex": "latex",
    "sty": "latex",
    "bib": "bibtex",
}
_LANGUAGE_BY_NAME = {
    "dockerfile": "dockerfile",
    "makefile": "makefile",
    "cmakelists.txt": "cmake",
    "jenkinsfile": "groovy",
}
_KIND_BY_MEDIA_TYPE = {"text/markdown": "markdown", "text/csv": "csv", "text/tab-separated-values": "csv"} | {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/json": "code",
    "application/xml": "xml",
    "text/xml": "xml",
    "text/vtt": "subtitles",
}
_XML_SUFFIXES = frozenset(("xml", "svg", "rss", "atom", "opml", "docbook", "dbk", "jats", "nxml"))
_MAIL_SUFFIXES = frozenset(("eml", "mht", "mhtml"))
_HEADER_LINE = re.compile(rb"[!-9;-~]+:[ \t]")
_MAIL_HEADER = re.compile(
    rb"^(from|to|subject|date|received|return-path|message-id|mime-version|delivered-to):", re.I | re.M
)
_TRANSPORT_HEADERS = frozenset((b"mime-version", b"message-id", b"received", b"return-path"))
_HTML_START = re.compile(rb"<(!doctype\s+html|html|head|body)[\s>]", re.I)
_HTML_ROOT = re.compile(rb"<(!doctype\s+html|html)[\s>]", re.I)
_BLANK = b"\xef\xbb\xbf \t\r\n"
HEAD_BYTES = 64 * 1024  # of a file that callers pass as `head`
PLAIN_KINDS = frozenset(("text", "markdown", "code", "csv"))

_WIDE_SAMPLE_BYTES = 16 * 1024
_COMMON_CHARACTERS = re.compile(
    "[\t\r\n -~\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uff65\u2010-\u2026]"
)
# Everything but control characters; bytes from 0x80 on are letters in some encoding.
_TEXT_BYTES = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n\r\f\x1b\x08")


@dataclass(frozen=True)
class FileFormat:
    """The kind of a text, and the language that its code fence names."""

    kind: str
    language: str = ""


def plain_format(head: bytes, name: str, media_type: str | None) -> FileFormat | None:
    """The format of a file that may be plain text in UTF-8, else None: whether it is UTF-8 to its end shows later."""
    if b"\0" in head or head.startswith((b"%PDF-", b"PK\x03\x04")) or has_iso2022_escapes(head):
        return None
    file_format = detect_format(head, name, media_type)
    return file_format if file_format.kind in PLAIN_KINDS else None


def detect_format(head: bytes, name: str, media_type: str | None) -> FileFormat:
    """The format of a text that begins with `head`."""
    basename = name.replace("\\", "/").rpartition("/")[2].lower()
    suffix = basename.rpartition(".")[2] if "." in basename else ""
    start = head.lstrip(_BLANK)
    if start.startswith(b"{\\rtf"):
        return FileFormat("rtf")
    if head.startswith(b"From ") and (suffix == "mbox" or len(_mail_headers(head.partition(b"\n")[2])) >= 3):
        return FileFormat("mbox")
    if suffix in _MAIL_SUFFIXES or _is_mail(start):
        return FileFormat("eml")
    if suffix == "ipynb" and start.startswith(b"{"):
        return FileFormat("ipynb")
    if start.startswith(b"WEBVTT") or suffix in ("vtt", "srt"):
        return FileFormat("subtitles")
    if basename in _LANGUAGE_BY_NAME or suffix in _LANGUAGE_BY_SUFFIX:
        return FileFormat("code", _LANGUAGE_BY_NAME.get(basename) or _LANGUAGE_BY_SUFFIX[suffix])
    if suffix in _MARKDOWN_SUFFIXES:
        return FileFormat("markdown")
    if suffix in ("csv", "tsv", "tab"):
        return FileFormat("csv")
    is_xml = start.startswith(b"<?xml") or (suffix in _XML_SUFFIXES and start.startswith(b"<"))
    if is_xml and not _HTML_ROOT.search(start[:2048]):  # elements like body are in other vocabularies too
        return FileFormat("xml")
    if suffix in ("html", "htm", "xhtml") or _HTML_START.search(start[:2048]):
        return FileFormat("html" if b"<" in head else "text")
    if is_xml:
        return FileFormat("xml")
    if suffix in ("txt", "text", "log", "rst", "adoc", "org"):
        return FileFormat("text")
    kind = _KIND_BY_MEDIA_TYPE.get((media_type or "").partition(";")[0].strip().lower(), "text")
    return FileFormat(kind, "json" if kind == "code" else "")


def _is_mail(start: bytes) -> bool:
    """A memo has From, To and Subject as well; a mail also has a header that a mail program wrote."""
    headers = _mail_headers(start)
    return len(headers) >= 3 and bool(headers & _TRANSPORT_HEADERS)


def _mail_headers(start: bytes) -> set[bytes]:
    """The mail headers in the block that `start` begins with; none unless its first line is a header."""
    if _HEADER_LINE.match(start) is None:
        return set()
    block = re.split(rb"\r?\n\r?\n", start, maxsplit=1)[0]
    return {header.lower() for header in _MAIL_HEADER.findall(block)}


def looks_like_text(head: bytes) -> bool:
    """Whether `head` may be text in some encoding."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) or wide_encoding(head) is not None:
        return True
    return b"\0" not in head and _control_character_count(head) <= len(head) // 100


def has_iso2022_escapes(head: bytes) -> bool:
    """Whether `head` has escape sequences that switch character sets, as Japanese mail does: all its bytes are ASCII."""
    return b"\x1b$B" in head or b"\x1b$@" in head or b"\x1b$(" in head


def wide_encoding(head: bytes) -> str | None:
    """The encoding of two or four bytes a character that `head` is in, if it has no byte order mark; else None."""
    head = head[: min(len(head), _WIDE_SAMPLE_BYTES) // 4 * 4]
    if len(head) < 4 or (_control_character_count(head) <= len(head) // 50 and b"\0" not in head):
        return None
    for encoding in ("utf-32-le", "utf-32-be"):
        try:
            head.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    # In text of any script, spaces, digits and line ends have their zero byte on the same side.
    zeros = {"utf-16-le": head[1::2].count(0), "utf-16-be": head[0::2].count(0)}
    encoding = max(zeros, key=lambda name: zeros[name])
    if zeros[encoding] > max(4 * min(zeros.values()), len(head) // 100):
        return encoding if _printable_share(head, encoding) > 0.97 else None
    # Chinese and Japanese text may have none of these characters.
    return next((name for name in zeros if _common_share(head, name) > 0.9), None)


def _control_character_count(head: bytes) -> int:
    return len(head.translate(None, _TEXT_BYTES))


def _printable_share(head: bytes, encoding: str) -> float:
    text = head.decode(encoding, "replace")
    unprintable = sum(
        character == "\ufffd" or (character < " " and character not in "\t\r\n\f") for character in text
    )
    return 1 - unprintable / len(text)


def _common_share(head: bytes, encoding: str) -> float:
    text = head.decode(encoding, "replace")
    return len(_COMMON_CHARACTERS.findall(text)) / len(text)
