"""How pages and assets are served: versioned, cached, under a strict policy, and without hiding the API."""

import gzip
import re
import subprocess
import zipfile
from pathlib import Path

import httpx
import pytest

from gristmill import app
from gristmill.server.ui.static_files import STYLES, StaticFile, StaticFiles, build, load
from tests.server.clients import client_with_key

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", ["/", "/b/01a1de95", "/connectors", "/settings/keys", "/no/such/page"])
async def test_every_page_path_returns_the_index_page(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path, headers=HTML)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-frame-options"] == "DENY"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy


async def test_the_page_names_the_data_that_it_will_ask_for(http: httpx.AsyncClient) -> None:
    base = "01a1eba2-c5cb-7db2-b77c-823ff82e9286"
    every = {"/api/session", "/api/knowledge-bases?limit=500"}
    tree = {f"/api/knowledge-bases/{base}/tree?offset=0&limit=100"}
    named = {
        path: set(re.findall(r"<([^>]+)>", (await http.get(path, headers=HTML)).headers["link"]))
        for path in ("/", f"/b/{base}", f"/b/{base}?filter=failed", "/b/x%3E%22", "/settings/keys")
    }
    assert named.pop(f"/b/{base}") == every | tree
    assert all(paths == every for paths in named.values())


async def test_the_page_names_the_current_version_and_has_no_inline_code(
    http: httpx.AsyncClient,
) -> None:
    page = (await http.get("/", headers=HTML)).text
    urls = re.findall(r'(?:src|href)="(/[^"]*)"', page)
    assert any(name.endswith(".js") for name in urls)
    for name in urls:
        answer = await http.get(name)
        assert answer.status_code == 200, name
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]*\bsrc=)", page)


async def test_every_file_has_its_type_and_is_gzipped_on_request(http: httpx.AsyncClient) -> None:
    files = load()
    types = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
    for name, file in files.assets.items():
        plain = await http.get(files.prefix + name, headers={"accept-encoding": "identity"})
        assert plain.content == file.plain
        assert "content-encoding" not in plain.headers
        suffix = "." + name.rpartition(".")[2]
        assert plain.headers["content-type"] == types.get(suffix, plain.headers["content-type"])
        plain = await http.get(files.prefix + name, headers={"accept-encoding": "gzip;q=0"})
        assert "content-encoding" not in plain.headers
        if file.gzipped is not None:
            compressed = await http.get(files.prefix + name, headers={"accept-encoding": "br, gzip"})
            assert compressed.headers["content-encoding"] == "gzip"
            assert compressed.content == file.plain


async def test_a_file_of_another_version_is_not_found(http: httpx.AsyncClient) -> None:
    name = next(iter(load().assets))
    for path in (f"/assets/0123456789/{name}", f"{load().prefix}nothing.js", "/assets/"):
        answer = await http.get(path, headers=HTML)
        assert (answer.status_code, answer.json()["code"]) == (404, "file_not_found")


async def test_pages_do_not_hide_other_endpoints(http: httpx.AsyncClient) -> None:
    for path in (
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/metrics",
        "/api/knowledge-bases",
        "/api/nothing",
        "/mcp",
    ):
        answer = await http.get(path, headers=HTML)
        assert not answer.headers["content-type"].startswith("text/html"), path
    assert (await http.get("/", headers={"accept": "*/*"})).json()["name"] == "Gristmill"
    assert (await http.get("/nothing")).status_code == 404
    assert (await http.post("/b/x", headers=HTML)).status_code in (404, 405)
    assert (await http.get("/", headers={**HTML, "host": "evil.example"})).json()["code"] == "foreign_host"


async def test_pages_need_no_key_but_their_data_does(mill: app.Gristmill) -> None:
    async with client_with_key(mill, None) as http:
        assert (await http.get("/", headers=HTML)).status_code == 200
        assert (await http.get(load().prefix + next(iter(load().assets)))).status_code == 200
        assert (await http.get("/api/knowledge-bases", headers=HTML)).status_code == 401


def test_a_change_of_one_byte_changes_the_version() -> None:
    files = _files_with_script(b"export const a = 1;")
    assert (
        files.prefix
        == _files_with_script(b"export const a = 1;").prefix
        != _files_with_script(b"export const a = 2;").prefix
    )
    assert files.prefix in files.page.plain.decode()


def test_the_modules_of_the_page_are_preloaded() -> None:
    page = _files_with_script(b'import { b } from "./b/b.js";\nimport("./later.js");').page.plain.decode()
    assert [
        name.rpartition("assets/")[2][11:] for name in re.findall(r'modulepreload" href="([^"]+)"', page)
    ] == [
        "js/app.js",
        "js/b/b.js",
    ]


def test_each_page_preloads_its_own_modules() -> None:
    table = b'{ paths: ["/x", "/x/:id"], load: () => import("./pages/x.js") },\n'
    pages = {
        "js/pages.js": table,
        "js/pages/x.js": b'import "../words.js";\nimport { y } from "./y.js";',
        "js/words.js": b"",
    }
    files = build(
        {
            "index.html": PAGE,
            "js/app.js": b'import { pages } from "./pages.js";',
            "js/pages/y.js": b"",
            **pages,
        }
    )
    for path in ("/x", "/x/7"):
        assert preloaded_modules(files.page_of(path)) == {
            "app.js",
            "pages.js",
            "pages/x.js",
            "words.js",
            "pages/y.js",
        }
    assert preloaded_modules(files.page_of("/")) == preloaded_modules(files.page) == {"app.js", "pages.js"}


def test_the_style_sheets_of_the_page_are_one_file_in_their_order() -> None:
    links = b"".join(b'<link rel="stylesheet" href="/assets/dev/%s.css">\n' % name for name in (b"b", b"a"))
    files = build({"index.html": links + PAGE, "js/app.js": b"", "a.css": b".a {}", "b.css": b".b {}"})
    assert re.findall(r'stylesheet" href="([^"]+)"', files.page.plain.decode()) == [files.prefix + STYLES]
    assert files.assets[STYLES].plain == b".b {}\n.a {}"
    assert "a.css" not in files.assets


def preloaded_modules(page: StaticFile) -> set[str]:
    names = re.findall(r'modulepreload" href="/assets/\w+/js/([^"]+)"', page.plain.decode())
    return set(names)


PAGE = b'<script type="module" src="/assets/dev/js/app.js"></script><!-- modulepreload -->'


def _files_with_script(script: bytes) -> StaticFiles:
    return build({"index.html": PAGE, "js/app.js": script, "js/b/b.js": b"", "js/later.js": b""})


def test_gzipped_content_equals_the_file() -> None:
    for file in load().assets.values():
        assert file.gzipped is None or gzip.decompress(file.gzipped) == file.plain


def test_the_files_are_in_the_wheel(tmp_path: Path) -> None:
    subprocess.run(
        ["uv", "build", "--wheel", "-q", "-o", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    packed_files = set(zipfile.ZipFile(wheel).namelist())
    for name in ("index.html", "app.css", *(name for name in load().assets if name != STYLES)):
        assert f"gristmill/server/ui/static/{name}" in packed_files
