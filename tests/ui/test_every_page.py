"""Checks of every page: no accessibility violation in either theme, at either size and in either language, nothing English on
a Chinese page, and a small amount of code."""

import contextlib
import re
from collections.abc import Mapping
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from gristmill.server.ui.static_files import load
from tests.readers import samples
from tests.thorough import IS_THOROUGH, examples
from tests.ui.harness import PHONE, WIDE, ApiHelper, Theme, profile, violations

Pages = Mapping[str, tuple[str, str]]  # name → path, and a text that the page shows
# Gzipped bytes of code that a browser fetches for its first page. Files are served as they are in the repository, with
# comments and indentation.
BUDGET = 120_000
_MODULES = (
    *(
        "bases",
        "base",
        "item",
        "reader of pdf",
        "search",
        "answer",
        "connect",
        "base settings",
        "run",
        "queue",
        "events",
    ),
    *("webhooks", "general", "people", "usage", "audit"),
)
_LARGEST = ("item", "base settings", "reader of pdf", "search")
Look = tuple[tuple[int, int], Theme]
THEMES: tuple[Theme, ...] = ("light", "dark")


@pytest.fixture
def page_paths(api: ApiHelper) -> Pages:
    """Every page, with content on it."""
    name = uuid4().hex[:6]
    base = api.create_base(f"pages {name}", acl=["org:*"])
    item, *_ = api.add_notes(base, "# Stones\n\nThe miller dresses the stones.", "# Grain\n\nRye and oats.")
    files = {
        "ledger.pdf": samples.pdf(["The heron wades.", "Rye and oats."]),
        "shade.png": samples.PNG,
        "mill.py": b"def grind(grain):\n    return grain\n",
    }
    uploaded = api.http.post(
        f"/api/knowledge-bases/{base}/files", files=[("files", it) for it in files.items()]
    )
    pdf, image, code = (entry["id"] for entry in uploaded.json()["created"])
    api.add_unreadable_files(base, "bad.bin")
    payload = {
        "name": f"tool {name}",
        "type": "github",
        "config": {"baseUrl": "http://127.0.0.1:9"},
        "credentials": {"token": "t"},
        "knowledgeBaseIds": [base],
    }
    tool = api.http.post("/api/connectors", json=payload).json()["id"]
    run = api.http.post(f"/api/connectors/{tool}/sync").json()["runId"]
    hook = api.http.post("/api/webhooks", json={"url": "http://127.0.0.1:9/hook"}).json()["id"]
    api.http.post("/api/api-keys", json={"name": f"key {name}", "role": "reader"})
    return {
        "queue": ("/queue", "bad.bin"),  # the first: from now on the file has failed
        "bases": ("/", f"pages {name}"),
        "base": (f"/b/{base}?q=stones&explain=1", "The miller dresses"),
        "search": (f"/search?q=heron&explain=1&bases={base}", "The heron wades."),
        "connect": (f"/b/{base}/connect", "Test it"),
        "item": (f"/b/{base}/i/{item}", "The miller dresses"),
        "reader": (f"/b/{base}/i/{item}/read?q=stones", "The miller dresses"),
        "reader of code": (f"/b/{base}/i/{code}/read", "def grind"),
        "reader of pdf": (f"/b/{base}/i/{pdf}/read?view=both", "The heron wades."),
        "reader of image": (f"/b/{base}/i/{image}/read", "shade.png"),
        "answer": (f"/search?q=stones&ask=1&bases={base}", "No answers here yet"),
        "connect all": ("/connect", "Test it"),
        "add": (f"/b/{base}?add=note", "Add content"),
        "base settings": (f"/b/{base}/settings", "Maximum chunk size, in tokens"),
        "connectors": ("/connectors", f"tool {name}"),
        "run": (f"/connectors/{tool}/runs/{run}", "Manual"),
        "events": (f"/events?base={base}", "was created"),
        "webhooks": (f"/events/webhooks/{hook}", "Every event"),
        "general": ("/settings/general", "All checks passed."),
        "models": ("/settings/models", "quick"),
        "people": ("/settings/people", "New user"),
        "keys": ("/settings/keys", f"key {name}"),
        "usage": ("/settings/usage", "indexing"),
        "workers": ("/settings/workers", "Running"),
        "storage": ("/settings/storage", "Chunks and vectors"),
        "audit": ("/settings/audit", "/api/api-keys"),
        "sign in": ("/sign-in", "API key"),
        "not found": ("/nowhere", "There is nothing at this address. It may have been deleted."),
    }


# Controls of a dialog that reach beyond its edge, where they can't be seen.
_CUT_OFF = """() => [...document.querySelectorAll("dialog[open] :is(input, textarea, select, button)")].filter((control) =>
  control.getBoundingClientRect().right > control.closest("dialog").getBoundingClientRect().right
).map((control) => control.outerHTML)"""


def open_page(page: Page, url: str, text: str) -> None:
    """Open a page, and wait until it shows `text`."""
    page.goto(url)
    expect(page.locator("main, dialog").get_by_text(text).filter(visible=True).first).to_be_visible()


# Words in a row that a Chinese page has in English; what documents and people wrote, names, code and addresses are left out.
_ENGLISH = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const { parentElement: parent, data } = walker.currentNode;
    if (parent.closest(".log, code, pre, script, time, a, b, option, .mono, .chunk, .hit, .cut, .text-block, .passage, .event")) continue;
    if (parent.checkVisibility() && /[a-z]{2,} [a-z]{2,} [a-z]{2,}/.test(data)) texts.push(data.trim());
  }
  return texts;
}"""


def chinese(text: str) -> str:
    """The Chinese of a label; `text` itself if it is none."""
    pattern = re.compile(rf'^  "?{re.escape(text)}"?: "(.+)",$', re.MULTILINE)
    locales = [file.plain.decode() for name, file in load().assets.items() if "/locales/zh-" in name]
    return next((found[1] for locale in locales if (found := pattern.search(locale))), text)


@pytest.mark.parametrize(
    ("language", "looks"),
    [("en-US", ((PHONE, "light"), (WIDE, "dark"))), ("zh-CN", ((WIDE, "light"), (PHONE, "dark")))],
)
def test_no_page_has_an_accessibility_violation(
    browser: Browser, ui_url: str, page_paths: Pages, language: str, looks: tuple[Look, ...]
) -> None:
    """axe finds no violation, no page is wider than its window, and no sentence of a Chinese page is English. Each language has
    a theme and a size, and with the second look, of a resized window, both have every pair of them."""
    problems: dict[str, object] = {}
    looks = looks[: examples(1, 2)]
    with profile(browser, looks[0][0], language=language) as tabs:
        page = tabs.context.new_page()
        for name, (path, text) in page_paths.items():
            for size, theme in looks:
                page.set_viewport_size({"width": size[0], "height": size[1]})
                page.emulate_media(color_scheme=theme)
                if (size, theme) == looks[0]:
                    open_page(page, ui_url + path, text if language == "en-US" else chinese(text))
                if violations_found := violations(page):
                    problems[f"{name}, {theme}"] = violations_found
                if (width := page.evaluate("document.documentElement.scrollWidth")) > size[0]:
                    problems[f"{name}, wide"] = width
                if cut_off := page.evaluate(_CUT_OFF):
                    problems[f"{name}, cut off"] = cut_off
            if language == "zh-CN" and (english := page.evaluate(_ENGLISH)):
                problems[f"{name}, English"] = english
        assert tabs.errors == []
    assert problems == {}, "\n".join(f"{name}: {problem}" for name, problem in problems.items())


_CONTRASTS = """() => {
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll(".toast")].flatMap((toast) =>
    [...toast.querySelectorAll("span, svg")].map((part) => {
      const [a, b] = [getComputedStyle(part).color, getComputedStyle(toast).backgroundColor].map(luminance);
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }));
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_every_kind_of_toast_can_be_read(browser: Browser, ui_url: str, theme: Theme) -> None:
    """The contrast of texts, actions and icons with their toast is at least 4.5:1."""
    with profile(browser, theme=theme) as tabs:
        page = tabs.open(f"{ui_url}/settings/general")
        expect(page.get_by_text("All checks passed.")).to_be_visible()
        page.evaluate(
            """async () => {
            const module = new URL("components/toast.js", document.querySelector("script[type=module]").src);
            const { showError, toast } = await import(module);
            const action = { label: "Undo", onclick() {} };
            toast("saved");
            toast("saved", { action });
            showError(new Error("failed"));
            toast("failed", { bad: true, action });
          }"""
        )
        expect(page.locator(".toast")).to_have_count(4)
        contrasts = page.evaluate(_CONTRASTS)
        assert len(contrasts) >= 10
        assert min(contrasts) >= 4.5, contrasts


def test_the_code_of_every_page_is_small(browser: Browser, ui_url: str, page_paths: Pages) -> None:
    """Measured with an empty cache, in Chinese, whose messages are files of their own; the largest pages, or one of each
    module. The reader has no viewer of PDF files: pages are drawn on the server."""
    sizes: dict[str, int] = {}
    for name in _MODULES if IS_THOROUGH else _LARGEST:
        path, text = page_paths[name]
        with profile(browser, language="zh-CN") as tabs:
            page = tabs.context.new_page()
            requests = record_requests(page)
            with contextlib.ExitStack() as stack:
                if name == "search":  # a hit that has pages: the reader is fetched before it is opened
                    stack.enter_context(page.expect_request("**/locales/zh-reader.js"))
                open_page(page, ui_url + path, chinese(text))
            sizes[name] = sum(
                body_size(request)
                for request in requests
                if request.resource_type in ("document", "script", "stylesheet")
            )
    assert {name: size for name, size in sizes.items() if not 20_000 < size < BUDGET} == {}, sizes


def body_size(request: Request) -> int:
    """The bytes of a response. Not by `sizes()`, which counts headers too behind a proxy with HTTP/2."""
    response = request.response()
    assert response is not None
    return int(response.headers["content-length"])


def record_requests(page: Page) -> list[Request]:
    """The requests that the page makes from now on."""
    requests: list[Request] = []

    def record(request: Request) -> None:
        requests.append(request)

    page.on("requestfinished", record)
    return requests
