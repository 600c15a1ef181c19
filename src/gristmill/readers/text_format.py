"""The shapes of plain text: what a text file is, by its first bytes and its name. Pure.

markdown     as it stands                          code, JSON, YAML    in a fence, with its language
text         as it stands                          csv, tsv            a table
subtitles    what is said, without the times       html, xml, ipynb    a reader of their own
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
_HTML_START = re.compile(rb"<(!doctype\s+html|html|head|body)[\s>]", re.I)
_BLANK = b"\xef\xbb\xbf \t\r\n"


@dataclass(frozen=True)
class TextFormat:
    """The kind of a text, and the language of its fence when it gets one."""

    kind: str
    language: str = ""


def detect_format(head: bytes, name: str, media_type: str | None) -> TextFormat:
    """The shape of a text that begins with `head`."""
    basename = name.replace("\\", "/").rpartition("/")[2].lower()
    suffix = basename.rpartition(".")[2] if "." in basename else ""
    start = head.lstrip(_BLANK)
    if suffix == "ipynb" and start.startswith(b"{"):
        return TextFormat("ipynb")
    if start.startswith(b"WEBVTT") or suffix in ("vtt", "srt"):
        return TextFormat("subtitles")
    if basename in _LANGUAGE_BY_NAME or suffix in _LANGUAGE_BY_SUFFIX:
        return TextFormat("code", _LANGUAGE_BY_NAME.get(basename) or _LANGUAGE_BY_SUFFIX[suffix])
    if suffix in _MARKDOWN_SUFFIXES:
        return TextFormat("markdown")
    if suffix in ("csv", "tsv", "tab"):
        return TextFormat("csv")
    if suffix in ("html", "htm", "xhtml") or _HTML_START.search(start[:2048]):
        return TextFormat("html" if b"<" in head else "text")
    if start.startswith(b"<?xml") or (suffix in ("xml", "svg", "rss", "atom") and start.startswith(b"<")):
        return TextFormat("xml")
    if suffix in ("txt", "text", "log", "rst", "adoc", "org"):
        return TextFormat("text")
    kind = _KIND_BY_MEDIA_TYPE.get((media_type or "").partition(";")[0].strip().lower(), "text")
    return TextFormat(kind, "json" if kind == "code" else "")


def looks_like_text(head: bytes) -> bool:
    """Whether `head` may be text in some encoding."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) or wide_encoding(head) is not None:
        return True
    return b"\0" not in head and _control_character_count(head) <= len(head) // 100


def has_iso2022_escapes(head: bytes) -> bool:
    """Whether `head` switches between sets of characters, as Japanese mail does: every byte of it is ASCII."""
    return b"\x1b$B" in head or b"\x1b$@" in head or b"\x1b$(" in head


def wide_encoding(head: bytes) -> str | None:
    """The encoding of two or four bytes a character that `head` is in without saying so, if it is."""
    head = head[: min(len(head), _SAMPLE_BYTES) // 4 * 4]
    if len(head) < 4 or (_control_character_count(head) <= len(head) // 50 and b"\0" not in head):
        return None
    for encoding in ("utf-32-le", "utf-32-be"):
        try:
            head.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    # Of text, whatever the script, spaces, digits and line ends have a zero byte on the same side.
    zeros = {"utf-16-le": head[1::2].count(0), "utf-16-be": head[0::2].count(0)}
    encoding = max(zeros, key=lambda name: zeros[name])
    if zeros[encoding] > max(4 * min(zeros.values()), len(head) // 100):
        return encoding if _printable_share(head, encoding) > 0.97 else None
    # Chinese and Japanese may do without any of these.
    return next((name for name in zeros if _common_share(head, name) > 0.9), None)


def _control_character_count(head: bytes) -> int:
    return len(head.translate(None, _TEXT_BYTES))


def _printable_share(head: bytes, encoding: str) -> float:
    text = head.decode(encoding, "replace")
    return 1 - sum(sign == "\ufffd" or (sign < " " and sign not in "\t\r\n\f") for sign in text) / len(text)


def _common_share(head: bytes, encoding: str) -> float:
    text = head.decode(encoding, "replace")
    return len(_COMMON_CHARACTERS.findall(text)) / len(text)


_SAMPLE_BYTES = 16 * 1024
_COMMON_CHARACTERS = re.compile(
    "[\t\r\n -~\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uff65\u2010-\u2026]"
)
# Everything but control characters; bytes from 0x80 on belong to some encoding's letters.
_TEXT_BYTES = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n\r\f\x1b\x08")
