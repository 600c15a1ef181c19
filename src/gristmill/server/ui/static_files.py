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
INDEX = "index.html"
# In the sources, the page names its files below this; the version takes its place.
_PREFIX_PLACEHOLDER = "/assets/dev/"
_ENTRY_SCRIPT = re.compile(r'<script[^>]*\bsrc="/assets/dev/([^"]+)"')
_IMPORT = re.compile(r"""^\s*(?:import|export)\s(?:[^;]*?\bfrom\s+)?["'](\.[^"']+)["']""", re.MULTILINE)
# The table of pages: the addresses of each, and its module.
_PAGE_TABLE = "js/pages.js"
_PAGE_TABLE_ENTRY = re.compile(r'paths: \[([^\]]+)\].*?import\("\.(/[^"]+)"\)', re.DOTALL)
# Documentation, and what stands on a line by itself: neither is found in a string or a pattern of ours, which a test checks.
_COMMENTS = re.compile(r"/\*[*!]? .*?\*/|^[ \t]*/\*\*\n.*?\*/|^[ \t]*//[^\n]*", re.MULTILINE | re.DOTALL)
_INDENTS = re.compile(r"^[ \t]+", re.MULTILINE)
_PRELOAD_PLACEHOLDER = re.compile(r"[ \t]*<!-- modulepreload -->\n?")


@dataclass(frozen=True)
class StaticFile:
    """A file as it is sent. `zipped` is None where that would not make it smaller."""

    type: str
    plain: bytes
    gzipped: bytes | None


@dataclass(frozen=True)
class StaticFiles:
    """All of them: a page for every path that people see, the rest below `prefix`. Pages differ in what they have fetched ahead;
    `page` is that of paths that nobody has."""

    prefix: str
    page: StaticFile
    assets: Mapping[str, StaticFile]
    pages: Sequence[tuple[re.Pattern[str], StaticFile]] = ()

    def page_of(self, path: str) -> StaticFile:
        """The page for a path."""
        return next((page for pattern, page in self.pages if pattern.fullmatch(path)), self.page)


@cache
def load() -> StaticFiles:
    """The files of this package."""
    return build(
        {
            name: entry.read_bytes()
            for name, entry in _list_files(resources.files("gristmill.server.ui") / "static")
        }
    )


def build(files: Mapping[str, bytes]) -> StaticFiles:
    """The same, of any files by their paths."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    prefix = f"/assets/{digest.hexdigest()[:10]}/"
    return StaticFiles(
        prefix,
        _index_page(files, prefix),
        {name: _static_file(name, bare(name, data)) for name, data in files.items() if name != INDEX},
        [
            (re.compile(re.sub(r":\w+", "[^/]+", path)), page)
            for paths, module in _PAGE_TABLE_ENTRY.findall(files.get(_PAGE_TABLE, b"").decode())
            for page in [_index_page(files, prefix, f"js{module}")]
            for path in re.findall(r'"([^"]+)"', paths)
        ],
    )


def _index_page(files: Mapping[str, bytes], prefix: str, module: str | None = None) -> StaticFile:
    links = _preload_links(files, module)
    page = _PRELOAD_PLACEHOLDER.sub(lambda _: links, files[INDEX].decode(), count=1).replace(
        _PREFIX_PLACEHOLDER, prefix
    )
    return _static_file(INDEX, page.encode())


def bare(name: str, data: bytes) -> bytes:
    """A module or a style sheet without comments and indents."""
    if not name.endswith((".js", ".css")):
        return data
    told = _COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), data.decode())
    return _INDENTS.sub("", told).encode()


def _list_files(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    files: list[tuple[str, Traversable]] = []
    for child in folder.iterdir():
        if child.is_dir():
            files += _list_files(child, f"{prefix}{child.name}/")
        elif "." + child.name.rpartition(".")[2] in _TYPES:
            files.append((prefix + child.name, child))
    return files


def _static_file(name: str, data: bytes) -> StaticFile:
    gzipped = gzip.compress(data, 9, mtime=0)
    return StaticFile(
        _TYPES["." + name.rpartition(".")[2]], data, gzipped if len(gzipped) < len(data) else None
    )


def _preload_links(files: Mapping[str, bytes], module: str | None) -> str:
    """A link for each module that a page needs before it shows anything: fetched at once, not one after the other."""
    script = _ENTRY_SCRIPT.search(files[INDEX].decode())
    if script is None:
        return ""
    queue, modules = [script[1], *([] if module is None else [module])], dict[str, None]()
    while queue:
        name = queue.pop(0)
        if name in modules:
            continue
        modules[name] = None
        queue += [normpath(join(dirname(name), path)) for path in _IMPORT.findall(files[name].decode())]
    return "".join(f'<link rel="modulepreload" href="{_PREFIX_PLACEHOLDER}{name}">\n' for name in modules)
