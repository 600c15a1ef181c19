"""The static files of the UI, read once per process: each with its content type and its gzipped form.

All files are below one prefix that contains a hash of every byte. A browser can therefore cache them without asking again,
and modules that import each other by relative paths always belong to one version. The page itself is not cached: it names
the current version. A missing file is a mistake in the package, and is reported when the server starts.

Files are served as they are in the repository, byte for byte. The style sheets of the page are served as one file, in the order in
which the page names them, because each request delays the first paint.
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
# In the source, the page names its files below this prefix. The versioned prefix replaces it.
_PREFIX_PLACEHOLDER = "/assets/dev/"
_STYLE_SHEETS = re.compile(r'(?:<link rel="stylesheet" href="/assets/dev/[^"]+">\s*)+')
STYLES = "styles.css"
_ENTRY_SCRIPT = re.compile(r'<script[^>]*\bsrc="/assets/dev/([^"]+)"')
_IMPORT = re.compile(r"""^\s*(?:import|export)\s(?:[^;]*?\bfrom\s+)?["'](\.[^"']+)["']""", re.MULTILINE)
# The table of pages: the paths of each page, and its module.
_PAGE_TABLE = "js/pages.js"
_PAGE_TABLE_ENTRY = re.compile(r'paths: \[([^\]]+)\].*?import\("\.(/[^"]+)"\)', re.DOTALL)
_PRELOAD_PLACEHOLDER = re.compile(r"[ \t]*<!-- modulepreload -->\n?")


@dataclass(frozen=True)
class StaticFile:
    """A file as it is sent. `gzipped` is None where compression does not make it smaller."""

    type: str
    plain: bytes
    gzipped: bytes | None


@dataclass(frozen=True)
class StaticFiles:
    """The index page for every path that people visit, and the assets below `prefix`.

    The index pages differ in the modules that they preload; `page` is the one for unknown paths.
    """

    prefix: str
    page: StaticFile
    assets: Mapping[str, StaticFile]
    pages: Sequence[tuple[re.Pattern[str], StaticFile]] = ()

    def page_of(self, path: str) -> StaticFile:
        """The index page for a path."""
        return next((page for pattern, page in self.pages if pattern.fullmatch(path)), self.page)


@cache
def load() -> StaticFiles:
    """The files of this package."""
    folder = resources.files("gristmill.server.ui") / "static"
    return build({name: file.read_bytes() for name, file in _list_files(folder)})


def build(files: Mapping[str, bytes]) -> StaticFiles:
    """Prepare any files, given by their paths, for serving."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    prefix = f"/assets/{digest.hexdigest()[:10]}/"
    files = _with_one_style_sheet(files)
    return StaticFiles(
        prefix,
        _index_page(files, prefix),
        {name: _static_file(name, data) for name, data in files.items() if name != INDEX},
        [
            (re.compile(re.sub(r":\w+", "[^/]+", path)), page)
            for paths, module in _PAGE_TABLE_ENTRY.findall(files.get(_PAGE_TABLE, b"").decode())
            for page in [_index_page(files, prefix, f"js{module}")]
            for path in re.findall(r'"([^"]+)"', paths)
        ],
    )


def _with_one_style_sheet(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files with one style sheet in place of those that the page names."""
    index = files[INDEX].decode()
    links = _STYLE_SHEETS.search(index)
    if links is None:
        return files
    names = re.findall(rf'href="{_PREFIX_PLACEHOLDER}([^"]+)"', links[0])
    link = f'<link rel="stylesheet" href="{_PREFIX_PLACEHOLDER}{STYLES}">\n'
    return {
        **{name: data for name, data in files.items() if name not in names},
        INDEX: index.replace(links[0], link).encode(),
        STYLES: b"\n".join(files[name] for name in names),
    }


def _index_page(files: Mapping[str, bytes], prefix: str, module: str | None = None) -> StaticFile:
    links = _preload_links(files, module)
    page = _PRELOAD_PLACEHOLDER.sub(lambda _: links, files[INDEX].decode(), count=1)
    return _static_file(INDEX, page.replace(_PREFIX_PLACEHOLDER, prefix).encode())


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
    """A link for each module that a page needs, so that the browser fetches them at once and not one after the other."""
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
