"""Documents, names and messages that attack the pages: nothing of them runs, and nothing is loaded from another origin."""

import http.server
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Request, expect

from tests.ui.harness import ApiHelper, Tabs
from tests.ui.test_reader import add_files, deck

pytestmark = pytest.mark.browser

_RUN = "window.attacked=1,alert(1)"
_MARKUP = f"<img src=ORIGIN/name.png onerror={_RUN}><svg onload={_RUN}>"
_TEXT = f"""# Wharf {_MARKUP}

The wharf ledger is safe to read.

<script>{_RUN}; fetch("ORIGIN/script")</script>
<img src="ORIGIN/img.png" srcset="ORIGIN/srcset.png 2x" onerror="{_RUN}"><svg onload="{_RUN}"><script>{_RUN}</script></svg>
<svg><foreignObject><iframe src="ORIGIN/foreign"></iframe></foreignObject><image href="ORIGIN/image"/><use href="ORIGIN/use#a"/></svg>
<svg><a xlink:href="javascript:{_RUN}"><text>drawn</text></a><animate attributeName="href" values="javascript:{_RUN}"/></svg>
<style>@import url("ORIGIN/style.css"); body {{ background: url(ORIGIN/body.png) }} @font-face {{ src: url(ORIGIN/font) }}</style>
<div style="background: url(ORIGIN/div.png)" class="toast" id="location" name="body" onclick="{_RUN}">styled</div>
<iframe src="ORIGIN/frame" srcdoc="<script>{_RUN}</script>"></iframe><object data="ORIGIN/object"></object><embed src="ORIGIN/embed">
<form action="ORIGIN/form"><input name="attributes" autofocus onfocus="{_RUN}"><button formaction="javascript:{_RUN}">go</button></form>
<link rel="stylesheet" href="ORIGIN/link.css"><meta http-equiv="refresh" content="0;url=ORIGIN/meta"><base href="ORIGIN/">
<video src="ORIGIN/video" poster="ORIGIN/poster"></video><math><mtext><style><img src=x onerror={_RUN}></style></math>
<details open ontoggle="{_RUN}"><summary>more</summary></details><a href="&#106;avascript:{_RUN}" ping="ORIGIN/ping">entity</a>

![tracker](ORIGIN/markdown.png) [run](javascript:{_RUN}) [data](data:text/html,<script>{_RUN}</script>) [own](/api/keys)
[file](file:///etc/passwd) [vb](vbscript:{_RUN}) <javascript:{_RUN}>

The end of the wharf.
"""
_DRAWING = """<?xml version="1.0"?><?xml-stylesheet href="ORIGIN/sheet.css"?>
<svg xmlns="http://www.w3.org/2000/svg" onload="RUN"><script>RUN</script><image href="ORIGIN/svg.png"/>
<foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="RUN"><iframe src="ORIGIN/svg-frame"/></body></foreignObject>
<text>The wharf ledger is safe to read.</text></svg>"""
# What no page has, whatever it shows.
_INTRUDERS = (
    "main iframe, main object, main embed, main base, main meta, main link, main style, main script, main video, main form[action], "
    "[onerror], [onload], [onclick], [onfocus], [ontoggle], [href^='javascript' i], [href^='data' i], [href^='vbscript' i], "
    "[src^='http'], [srcset], [ping], #location"
)


@dataclass
class Attack:
    """Another origin that records what is requested from it, and what happened in the browser."""

    origin: str
    paths: list[str] = field(default_factory=list[str])
    urls: list[str] = field(default_factory=list[str])  # of all requests of the browser
    dialogs: list[str] = field(default_factory=list[str])

    def fill(self, text: str) -> str:
        """A payload with the address of this origin."""
        return text.replace("ORIGIN", self.origin).replace("RUN", _RUN)

    def check(self, page: Page, own_url: str) -> None:
        """Nothing of a payload ran, was inserted, or was loaded."""
        place = page.url
        assert page.evaluate("window.attacked") is None, place
        assert page.locator(_INTRUDERS).count() == 0, (place, page.locator(_INTRUDERS).first.inner_html())
        assert self.dialogs == [], place
        assert [url for url in self.urls if not url.startswith((own_url, "blob:", "data:image/"))] == [], (
            place
        )
        assert self.paths == [], place


@contextmanager
def other_origin() -> Generator[Attack]:
    """Serve another origin, which records every request."""

    class Recorder(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            attack.paths.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    attack = Attack(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield attack
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def attack(tabs: Tabs) -> Generator[Attack]:
    """The other origin; every request and dialog of the browser is recorded."""
    with other_origin() as attack:

        def record(request: Request) -> None:
            attack.urls.append(request.url)

        tabs.context.on("request", record)
        tabs.context.on("dialog", lambda dialog: attack.dialogs.append(dialog.message) or dialog.dismiss())
        yield attack


def test_nothing_of_a_hostile_document_runs_or_loads_from_elsewhere(
    page: Page, ui_url: str, api: ApiHelper, attack: Attack
) -> None:
    """Markdown, HTML and SVG in the reader, as chunks and as content; the original is a download, never a page."""
    base = api.create_base(f"Hostile {uuid4().hex[:6]}")
    text = attack.fill(_TEXT)
    page_html = (
        f"<html><head><title>{attack.fill(_MARKUP)}</title></head><body><h1>Wharf</h1>"
        f"<p>The wharf ledger is safe to read.</p>{text}</body></html>"
    )
    files = {
        "<img src=x onerror=alert(1)>\u202efdp.md": text.encode(),
        "page.html": page_html.encode(),
        "drawing.svg": attack.fill(_DRAWING).encode(),
    }
    items = add_files(api, base, files)
    assert not any("\u202e" in title for title in items)  # a name can't look like another one
    for item in items.values():
        page.goto(f"{ui_url}/b/{base}/i/{item}/read?q=wharf")
        document = page.locator(".reader-document")
        expect(document.get_by_text("wharf ledger is safe").first).to_be_visible()
        attack.check(page, ui_url)
        assert document.locator("img, svg, input, [style], [id], [name]").count() == 0
        assert document.locator("a:not([href^='http'])[href]").count() == 0
        page.goto(f"{ui_url}/b/{base}/i/{item}")
        expect(page.locator(".chunk", has_text="wharf ledger is safe").first).to_be_visible()
        attack.check(page, ui_url)
        page.get_by_role("button", name="Content", exact=True).click()
        expect(page.locator(".item-pane").get_by_text("wharf ledger is safe").first).to_be_visible()
        attack.check(page, ui_url)
        for part, kind in (("original", "application/octet-stream"), ("content", "text/markdown")):
            response = api.http.get(f"/api/knowledge-items/{item}/{part}")
            assert response.headers["content-type"].startswith(kind)
            assert response.headers["x-content-type-options"] == "nosniff"


def test_nothing_of_a_hostile_image_in_a_document_runs_or_loads(
    page: Page, ui_url: str, api: ApiHelper, attack: Attack
) -> None:
    """An SVG with scripts and links, inside a presentation: the reader shows it as a picture, and its address is a download."""
    base = api.create_base(f"Hostile image {uuid4().hex[:6]}")
    drawing = attack.fill(_DRAWING).replace("<svg ", '<svg width="60" height="40" ').encode()
    item = add_files(api, base, {"deck.pptx": deck(drawing, "wheel.svg")})["deck.pptx"]
    page.goto(f"{ui_url}/b/{base}/i/{item}/read")
    image = page.locator(".reader-document").get_by_role("img", name="A mill wheel")
    image.scroll_into_view_if_needed()
    expect(page.locator(".text-image.loading")).to_have_count(0)
    assert image.evaluate("image => image.naturalWidth") == 60  # it is shown
    attack.check(page, ui_url)
    response = api.http.get(image.get_attribute("src") or "")
    assert response.headers["content-type"] == "image/svg+xml"
    assert response.headers["content-disposition"] == "attachment"
    assert "sandbox" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"


@dataclass(frozen=True)
class Names:
    """A base whose names, tags, metadata and errors all have markup, and what else has such names."""

    markup: str
    base: str
    note: str
    file: str
    connector: str


@contextmanager
def hostile_names(api: ApiHelper, attack: Attack) -> Generator[Names]:
    """Markup in everything that has a name, until the end of the block: other tests share the server."""
    markup = attack.fill(f"{_MARKUP} {uuid4().hex[:6]}")
    base = api.create_base(f"b {markup}", acl=["org:*"])
    note = {
        "type": "note",
        "title": f"n {markup}",
        "content": f"# Quay {markup}\n\nThe quay is calm. {markup}",
        "metadata": {markup[:60]: markup, "folder": markup, "tags": [f"t {markup}"[:60]]},
    }
    page_of_nowhere = {"type": "url", "url": f"http://127.0.0.1:9/{markup}"}
    added = api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": [note, page_of_nowhere]})
    assert added.status_code == 202, added.text
    api.add_unreadable_files(base, f"f {markup.replace('/', '')}.bin")
    connector = {
        "name": f"c {markup}"[:200],
        "type": "github",
        "config": {"baseUrl": "http://127.0.0.1:9"},
        "credentials": {"token": "t"},
        "knowledgeBaseIds": [base],
    }
    tool = api.http.post("/api/connectors", json=connector)
    assert tool.status_code == 201, tool.text
    api.http.post(f"/api/connectors/{tool.json()['id']}/sync").raise_for_status()
    named = {
        "/api/webhooks": {"url": "http://127.0.0.1:9/hook", "description": markup},
        "/api/api-keys": {"name": f"k {markup}"[:100], "role": "reader"},
        "/api/saved-searches": {"name": f"s {markup}"[:100], "search": {"query": markup}},
    }
    addresses: list[str] = []
    try:
        for path, body in named.items():
            response = api.http.post(path, json=body)
            assert response.status_code == 201, (path, response.text)
            addresses.append(f"{path}/{response.json()['id']}")
        note_id, url_id = (item["id"] for item in added.json()["created"])
        yield Names(markup, base, note_id, url_id, tool.json()["id"])
    finally:
        for address in addresses:
            api.http.delete(address).raise_for_status()


def test_no_name_tag_entry_or_message_becomes_markup(
    page: Page, ui_url: str, api: ApiHelper, attack: Attack
) -> None:
    """In the tree, the search page, chunks, events, dialogs, menus, toasts and the pages for admins."""
    with hostile_names(api, attack) as names:
        start = names.markup[:24]
        query = f"quay {names.markup}"

        def open_and_check(path: str, text: str) -> None:
            page.goto(ui_url + path)
            expect(page.get_by_text(text).filter(visible=True).first).to_be_visible()
            attack.check(page, ui_url)

        open_and_check(f"/b/{names.base}", f"n {start}")
        expect(page.get_by_role("row", name="Failed")).to_have_count(
            2
        )  # with messages that quote their names
        attack.check(page, ui_url)
        expect(page).to_have_title(f"b {names.markup} · Gristmill")
        page.get_by_role("treegrid").focus()
        page.keyboard.press("Home")
        page.keyboard.press("F2")
        expect(page.get_by_label("Title")).to_have_value(f"n {names.markup}")
        page.keyboard.press("Escape")
        page.keyboard.press("Control+k")
        expect(page.get_by_role("combobox")).to_be_focused()
        page.keyboard.insert_text(f"b {start}")
        expect(page.get_by_role("option").filter(has_text=start).first).to_be_visible()
        attack.check(page, ui_url)
        page.keyboard.press("Escape")
        row = page.get_by_role("row").filter(has_text=f"n {start}")
        row.hover()
        row.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator(".toast")).to_contain_text(start)
        attack.check(page, ui_url)
        page.get_by_role("button", name="Undo").click()
        page.evaluate(
            """async (text) => {
              const module = new URL("components/toast.js", document.querySelector("script[type=module]").src);
              (await import(module)).showError(new Error(text));
            }""",
            names.markup,
        )
        expect(page.locator(".toast.bad")).to_contain_text(start)
        attack.check(page, ui_url)

        page.goto(f"{ui_url}/search?explain=1&bases={names.base}")
        page.get_by_role("searchbox", name="Search all bases").fill(f'{query} "{names.markup}x"')
        page.keyboard.press("Enter")
        expect(page.locator(".hit").first).to_contain_text(start)
        attack.check(page, ui_url)
        for path, text in {
            f"/b/{names.base}?tag={names.markup[:58]}&q=quay&explain=1": f"n {start}",
            f"/b/{names.base}/i/{names.note}": "The quay is calm.",
            f"/b/{names.base}/i/{names.note}/read?q=quay": "The quay is calm.",
            f"/b/{names.base}/i/{names.file}": "127.0.0.1:9",
            f"/b/{names.base}/i/{names.file}?tab=timeline": "· attempt ",
            f"/b/{names.base}/settings": "Maximum chunk size",
            "/": f"b {start}",
            "/search": f"s {start}",
            "/events": f"n {start}",
            "/queue": f"f {start[:14]}",
            "/connectors": f"c {start}",
            f"/connectors/{names.connector}": f"c {start}",
            "/events/webhooks": start,
            "/settings/keys": f"k {start}",
            "/settings/audit": "/api/api-keys",
            "/settings/storage": f"b {start}",
        }.items():
            open_and_check(path, text)
