"""The files of the pages, read once: each with its type and its gzipped form, all under one name that changes with them.

The name is made of every byte, so that a browser may keep what it got for ever, and modules that import each other by
relative paths are always of one version. The page itself is not kept: it says which version is the present one. A file that
is not there is a mistake in the package, and told when the server starts.

Comments and indents are for those who read the sources, and a fifth of what would be sent: they are left out. Lines stay where
they are, so that an error's place is that in the source.
"""

import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
PAGE = "index.html"
# In the sources, the page names its files below this; the version takes its place.
_PLACEHOLDER = "/assets/dev/"
_ENTRY = re.compile(r'<script[^>]*\bsrc="/assets/dev/([^"]+)"')
_IMPORT = re.compile(r"""^\s*(?:import|export)\s(?:[^;]*?\bfrom\s+)?["'](\.[^"']+)["']""", re.MULTILINE)
# The table of pages: the addresses of each, and its module.
_TABLE = "js/pages.js"
_PAGES = re.compile(r'paths: \[([^\]]+)\].*?import\("\.(/[^"]+)"\)', re.DOTALL)
# Documentation, and what stands on a line by itself: neither is found in a string or a pattern of ours, which a test checks.
_COMMENTS = re.compile(r"/\*[*!]? .*?\*/|^[ \t]*/\*\*\n.*?\*/|^[ \t]*//[^\n]*", re.MULTILINE | re.DOTALL)
_INDENTS = re.compile(r"^[ \t]+", re.MULTILINE)
_LINE = re.compile(r"[ \t]*<!-- modulepreload -->\n?")


@dataclass(frozen=True)
class File:
    """A file as it is sent. `zipped` is None where that would not make it smaller."""

    type: str
    plain: bytes
    zipped: bytes | None


@dataclass(frozen=True)
class Files:
    """All of them: a page for every path that people see, the rest below `prefix`. Pages differ in what they have fetched ahead;
    `page` is that of paths that nobody has."""

    prefix: str
    page: File
    assets: Mapping[str, File]
    pages: Sequence[tuple[re.Pattern[str], File]] = ()

    def page_of(self, path: str) -> File:
        """The page for a path."""
        return next((page for pattern, page in self.pages if pattern.fullmatch(path)), self.page)


@cache
def load() -> Files:
    """The files of this package."""
    return make(
        {name: entry.read_bytes() for name, entry in _walk(resources.files("gristmill.doors.ui") / "static")}
    )


def make(files: Mapping[str, bytes]) -> Files:
    """The same, of any files by their paths."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    prefix = f"/assets/{digest.hexdigest()[:10]}/"
    return Files(
        prefix,
        _page(files, prefix),
        {name: _file(name, bare(name, data)) for name, data in files.items() if name != PAGE},
        [
            (re.compile(re.sub(r":\w+", "[^/]+", path)), page)
            for paths, module in _PAGES.findall(files.get(_TABLE, b"").decode())
            for page in [_page(files, prefix, f"js{module}")]
            for path in re.findall(r'"([^"]+)"', paths)
        ],
    )


def _page(files: Mapping[str, bytes], prefix: str, module: str | None = None) -> File:
    links = _preloads(files, module)
    page = _LINE.sub(lambda _: links, files[PAGE].decode(), count=1).replace(_PLACEHOLDER, prefix)
    return _file(PAGE, page.encode())


def bare(name: str, data: bytes) -> bytes:
    """A module or a style sheet without comments and indents."""
    if not name.endswith((".js", ".css")):
        return data
    told = _COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), data.decode())
    return _INDENTS.sub("", told).encode()


def _walk(folder: Traversable, above: str = "") -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{above}{entry.name}/")
        elif "." + entry.name.rpartition(".")[2] in _TYPES:
            found.append((above + entry.name, entry))
    return found


def _file(name: str, data: bytes) -> File:
    zipped = gzip.compress(data, 9, mtime=0)
    return File(_TYPES["." + name.rpartition(".")[2]], data, zipped if len(zipped) < len(data) else None)


def _preloads(files: Mapping[str, bytes], module: str | None) -> str:
    """A link for each module that a page needs before it shows anything: fetched at once, not one after the other."""
    entry = _ENTRY.search(files[PAGE].decode())
    if entry is None:
        return ""
    wanted, found = [entry[1], *([] if module is None else [module])], dict[str, None]()
    while wanted:
        name = wanted.pop(0)
        if name in found:
            continue
        found[name] = None
        wanted += [normpath(join(dirname(name), path)) for path in _IMPORT.findall(files[name].decode())]
    return "".join(f'<link rel="modulepreload" href="{_PLACEHOLDER}{name}">\n' for name in found)
