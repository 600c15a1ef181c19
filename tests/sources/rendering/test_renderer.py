"""Pages that scripts make, rendered by the real Chromium, against a real web site."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from gristmill import net
from gristmill.errors import Permanent, Transient
from gristmill.sources import Original
from gristmill.sources.page import MIN_TEXT, is_made_by_scripts
from gristmill.sources.rendering import BrowserLimits, Renderer, RenderSettings, chromium_guard
from gristmill.sources.rendering.renderer import DIGEST
from gristmill.stage_gate import ANYBODY, StageGate
from tests.sources.rendering.chromium_here import (
    PUBLIC,
    create_renderer,
    needs_chromium,
    render,
    rendered_text,
)
from tests.sources.site import Site
from tests.wait_until import wait_until

APP = """<!doctype html><title>Loading</title><link rel=stylesheet href=/style.css><img src=/logo.png>
<body><div id=app></div><noscript>Turn scripts on.</noscript><iframe src=/frame.html></iframe><script src=/app.js></script>"""
SCRIPT = """
const style = document.querySelector("link[rel=stylesheet]");
fetch("/data.json").then((response) => response.json()).then(async (data) => {
  alert("a dialog must not stop the page");
  document.title = data.title;
  document.getElementById("app").innerHTML = `<h1 data-nonce=${Math.random()}>${data.title}</h1><p>${data.text}</p><a href="deep/page">more</a>`;
  const host = document.body.appendChild(document.createElement("div"));
  host.attachShadow({mode: "open"}).innerHTML = "<p>Bran is in the shadow.</p>";
  await fetch("/later", {method: "POST", body: "grain"});
  document.getElementById("app").append("Husks come later.");
});
"""


def publish_app(site: Site, title: str = "Emmer") -> str:
    """A page without text, whose script loads it as data."""
    site.add_page("/app.js", SCRIPT, Content_Type="text/javascript")
    site.add_page("/data.json", f'{{"title": "{title}", "text": "{title} is sold by the sack."}}')
    site.add_page("/later", "ok")
    site.add_page("/robots.txt", "")
    return site.add_page("/start", APP, Content_Type="text/html")


@needs_chromium
async def test_a_page_is_taken_as_its_scripts_have_made_it_and_nothing_else_is_fetched(
    site: Site, tmp_path: Path
) -> None:
    url = publish_app(site)
    long_path = tmp_path / ("x" * 50)
    long_path.mkdir()
    first = await render(create_renderer(scratch=long_path), APP, url)
    text = rendered_text(first)
    assert "<title>Emmer</title>" in text
    assert "Emmer is sold by the sack." in text
    assert "Bran is in the shadow." in text
    assert "Husks come later." in text
    assert f'href="{site.url}/deep/page"' in text
    assert "<script" not in text
    assert "<iframe" not in text
    assert sorted(site.requested_paths()) == ["/app.js", "/data.json", "/later"], "the page itself was here"
    assert [request.body for request in site.requests if request.method == "POST"] == [b"grain"]
    assert {request.headers["User-Agent"] for request in site.requests} == {net.USER_AGENT}

    second = await render(create_renderer(), APP, url)
    assert first.original is not None
    assert second.original is not None
    assert first.original.data != second.original.data, "the script writes another number each time"
    assert first.original.metadata == second.original.metadata
    publish_app(site, "Spelt")
    third = await render(create_renderer(), APP, url)
    assert third.original is not None
    assert third.original.metadata[DIGEST] != first.original.metadata[DIGEST]


@needs_chromium
async def test_a_script_that_leads_to_another_page_is_a_redirect_and_is_not_followed_here(site: Site) -> None:
    html = "<script>location.replace('/en/')</script>"
    page = await render(create_renderer(), html, site.url + "/")
    assert page.location == site.url + "/en/"
    assert page.original is None
    assert site.requests == []


ATTEMPTS = """<!doctype html><body><ul></ul><script>
const note = (text) => { document.querySelector("ul").innerHTML += `<li>${text}</li>`; };
const attempts = {
  "by address": () => fetch("http://127.0.0.1:PORT/secret"),
  "by name": () => fetch("http://localhost:PORT/secret"),
  "without cors": () => fetch("http://127.0.0.1:PORT/secret", {mode: "no-cors"}),
  "by redirect": () => fetch("http://public.example:PORT/away"),
  "by IPv6": () => fetch("http://[::ffff:127.0.0.1]:PORT/secret"),
  "file": () => fetch("file:///etc/hostname"),
  "websocket": () => new Promise((open, fail) => {
    const socket = new WebSocket("ws://127.0.0.1:PORT/secret"); socket.onopen = open; socket.onerror = fail; }),
  "event source": () => new Promise((open, fail) => {
    const source = new EventSource("http://127.0.0.1:PORT/secret"); source.onopen = open; source.onerror = fail; }),
  "worker": () => new Promise((done, fail) => {
    const code = `fetch("http://127.0.0.1:PORT/secret", {mode: "no-cors"}).then(() => postMessage("read"), () => postMessage("refused"))`;
    const worker = new Worker(URL.createObjectURL(new Blob([code])));
    worker.onmessage = (event) => event.data === "read" ? done() : fail(); worker.onerror = fail; }),
  "script": () => new Promise((load, fail) => {
    const script = document.createElement("script"); script.src = "http://127.0.0.1:PORT/secret.js";
    script.onload = load; script.onerror = fail; document.head.append(script); }),
};
for (const [name, attempt] of Object.entries(attempts)) {
  Promise.resolve().then(attempt).then(() => note(`${name}: read`), () => note(`${name}: refused`));
}
for (const source of ["http://127.0.0.1:PORT/secret", "file:///etc/hostname"]) {
  const frame = document.createElement("iframe"); frame.src = source; document.body.append(frame);
}
for (const tag of ["img", "video", "embed"]) {
  const element = document.createElement(tag); element.src = "http://127.0.0.1:PORT/secret"; document.body.append(element);
}
const connection = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:PORT"}]});
connection.createDataChannel("x"); connection.createOffer().then((offer) => connection.setLocalDescription(offer));
navigator.sendBeacon("http://127.0.0.1:PORT/secret");
window.open("http://127.0.0.1:PORT/secret");
</script><link rel=preconnect href="http://127.0.0.1:PORT"><link rel=dns-prefetch href="//localhost">"""


@needs_chromium
@pytest.mark.parametrize("has_namespaces", [True, False], ids=["with namespaces", "by flags alone"])
async def test_a_public_page_reaches_no_private_address_in_any_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_namespaces: bool
) -> None:
    """Even where private addresses may be read, a page of the public internet must not lead there. Counted are connections, of which
    the only one is that to the public name. Where the kernel forbids namespaces, Chromium's flags have to do."""
    if not has_namespaces:
        monkeypatch.setattr(chromium_guard, "__file__", str(guard_without_namespaces(tmp_path)))
    connections: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readline()).decode()
        connections.append(request.split(" ")[1] if " " in request else request)
        port = writer.get_extra_info("sockname")[1]
        location = f"http://127.0.0.1:{port}/secret"
        writer.write(
            f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    real = net._public_address  # pyright: ignore[reportPrivateUsage]

    async def public_address(host: str, port: int) -> str:
        return "127.0.0.1" if host == "public.example" else await real(host, port)

    monkeypatch.setattr(net, "_public_address", public_address)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        html = ATTEMPTS.replace("PORT", str(port))
        renderer = create_renderer(allow_private=True)
        page = await render(renderer, html, "http://public.example/", peer=PUBLIC)
    text = rendered_text(page)
    assert text.count(": refused</li>") == 10, text
    assert ": read" not in text
    assert connections == ["/away"]


@pytest.fixture
def short_folder() -> Generator[Path]:
    """A folder with a short path; see `_MAX_SCRATCH_LENGTH`."""
    folder = Path(tempfile.mkdtemp(prefix="gm-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@needs_chromium
async def test_a_page_that_never_ends_or_takes_too_much_memory_costs_itself_alone(
    site: Site, short_folder: Path
) -> None:
    """Afterwards neither processes nor files are left."""
    endless = create_renderer(scratch=short_folder, limits=BrowserLimits(seconds=4))
    with pytest.raises(Transient) as caught:
        await render(endless, "<p>before</p><script>for (;;) {}</script>", site.url + "/endless")
    assert caught.value.code == "render_timeout"

    small = create_renderer(scratch=short_folder, limits=BrowserLimits(memory=400 << 20))
    filling = "const all = []; for (let i = 0; i < 4000; i++) all.push(new Uint8Array(1 << 20).fill(i));"
    with pytest.raises(Permanent) as refused:
        await render(small, f"<p>before</p><script>{filling}</script>", site.url + "/large")
    assert refused.value.code == "render_too_large"

    async def is_clean() -> bool:
        return not names_in(short_folder) and not processes_with(str(short_folder))

    await wait_until(is_clean)


def guard_without_namespaces(folder: Path) -> Path:
    """The guard as it works where the kernel forbids namespaces."""
    source, call = Path(chromium_guard.__file__).read_text(encoding="utf-8"), "        _leave_network(libc)\n"
    assert call in source
    copy = folder / "guard.py"
    copy.write_text(source.replace(call, ""), encoding="utf-8")
    return copy


def names_in(folder: Path) -> list[str]:
    """The names in a folder."""
    return [path.name for path in folder.iterdir()]


def processes_with(text: str) -> list[int]:
    """The processes whose command line has this text."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            found += [int(folder.name)] if text in command else []
    return found


@needs_chromium
async def test_robots_txt_holds_for_what_a_page_requests_from_its_own_site(site: Site) -> None:
    url = publish_app(site)
    original = Original(APP.encode(), "page", "text/html", "utf-8", url, peer="127.0.0.1")
    page = await create_renderer().render(original, url, ANYBODY, lambda url: not url.endswith(".json"))
    assert "Emmer" not in rendered_text(page)
    assert site.requested_paths() == ["/app.js"]


async def test_without_a_chromium_the_error_says_what_to_do(tmp_path: Path) -> None:
    settings = RenderSettings(chromium=tmp_path / "chromium")
    renderer = Renderer(StageGate(1), tmp_path, settings, allow_private=True)
    with pytest.raises(Permanent) as caught:
        await render(renderer, APP, "http://localhost/")
    assert caught.value.code == "render_unavailable"
    assert "chromium_path" in caught.value.message

    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o700)
    with pytest.raises(Transient) as broken:
        await render(renderer, APP, "http://localhost/")
    assert (broken.value.code, broken.value.max_attempts) == ("render_failed", 3)
    assert names_in(tmp_path) == ["chromium"]


@pytest.mark.parametrize(
    ("html", "is_made"),
    [
        (APP, True),
        ("<p>short</p>", False),
        (f"<script></script><p>{'word ' * (MIN_TEXT // 4)}</p>", False),
        ("<script>let text = '" + "word " * 100 + "'</script><noscript>Turn scripts on.</noscript>", True),
        ("", False),
    ],
)
def test_a_page_with_scripts_and_hardly_any_text_is_made_by_scripts(html: str, is_made: bool) -> None:
    assert is_made_by_scripts(html.encode(), None) is is_made


async def test_only_pages_are_rendered_and_only_if_the_rule_says_so() -> None:
    renderer = create_renderer()
    page = Original(APP.encode(), "page", "text/html")
    plain = Original(b"<p>text</p>", "page", "text/html")
    document = Original(b"%PDF-", "file", "application/pdf")
    assert await renderer.must_render(page, "auto")
    assert not await renderer.must_render(page, "never")
    assert not await renderer.must_render(plain, "auto")
    assert await renderer.must_render(plain, "always")
    assert not await renderer.must_render(document, "always")
    assert not await renderer.must_render(Original(b"", "page", unchanged=True), "always")
