"""Checks of every page: no accessibility violation in either theme and at either size, and a small amount of code."""

from collections.abc import Mapping
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from gristmill.server.ui.static_files import load
from tests.ui.harness import PHONE, WIDE, ApiHelper, Theme, profile, violations

Pages = Mapping[str, tuple[str, str]]  # name → path, and a text that the page shows
# Gzipped bytes of code that a browser fetches for its first page. Files are served as they are in the repository, with
# comments and indentation.
BUDGET = 120_000
THEMES: tuple[Theme, ...] = ("light", "dark")


@pytest.fixture
def page_paths(api: ApiHelper) -> Pages:
    """Every page, with content on it."""
    name = uuid4().hex[:6]
    base = api.create_base(f"pages {name}", acl=["org:*"])
    item, *_ = api.add_notes(base, "# Stones\n\nThe miller dresses the stones.", "# Grain\n\nRye and oats.")
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
        "search": ("/search?q=stones&explain=1", "The miller dresses"),
        "connect": (f"/b/{base}/connect", "Test it"),
        "item": (f"/b/{base}/i/{item}", "The miller dresses"),
        "reader": (f"/b/{base}/i/{item}/read?q=stones", "The miller dresses"),
        "add": (f"/b/{base}?add=note", "Add content"),
        "base settings": (f"/b/{base}/settings", "Maximum chunk size"),
        "connectors": ("/connectors", f"tool {name}"),
        "run": (f"/connectors/{tool}/runs/{run}", "Manual"),
        "events": (f"/events?base={base}", "was created"),
        "webhooks": (f"/events/webhooks/{hook}", "Every event"),
        "general": ("/settings/general", "All checks passed"),
        "models": ("/settings/models", "quick"),
        "people": ("/settings/people", "New user"),
        "keys": ("/settings/keys", f"key {name}"),
        "usage": ("/settings/usage", "indexing"),
        "workers": ("/settings/workers", "process"),
        "storage": ("/settings/storage", "Chunks and vectors"),
        "audit": ("/settings/audit", "/api/api-keys"),
        "sign in": ("/sign-in", "API key"),
        "not found": ("/nowhere", "nothing at this address"),
    }


def open_page(page: Page, url: str, text: str) -> None:
    """Open a page, and wait until it shows `text`."""
    page.goto(url)
    expect(page.locator("main, dialog").get_by_text(text).filter(visible=True).first).to_be_visible()


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_no_page_has_an_accessibility_violation(
    browser: Browser, ui_url: str, page_paths: Pages, size: tuple[int, int]
) -> None:
    """axe finds no violation in either theme, and no page is wider than its window."""
    problems: dict[str, object] = {}
    with profile(browser, size) as tabs:
        page = tabs.context.new_page()
        for name, (path, text) in page_paths.items():
            open_page(page, ui_url + path, text)
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                if violations_found := violations(page):
                    problems[f"{name}, {theme}"] = violations_found
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > size[0]:
                problems[f"{name}, wide"] = width
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
        expect(page.get_by_text("All checks passed")).to_be_visible()
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
    """Measured with an empty cache, with the messages of the larger language."""
    locales = {
        name: len(file.gzipped or b"") for name, file in load().assets.items() if "/locales/zh-" in name
    }
    sizes: dict[str, int] = {}
    for name in (
        "bases",
        "base",
        "item",
        "search",
        "connect",
        "base settings",
        "run",
        "queue",
        "events",
        "webhooks",
        "general",
    ):
        path, text = page_paths[name]  # one page of each module
        with profile(browser) as tabs:
            page = tabs.context.new_page()
            requests = record_requests(page)
            open_page(page, ui_url + path, text)
            code_requests = [
                request
                for request in requests
                if request.resource_type in ("document", "script", "stylesheet")
            ]
            kinds = ["common", "tend"] + [
                kind
                for kind in ("admin", "find")
                if any(request.url.endswith(f"/{kind}-locale.js") for request in code_requests)
            ]
            sizes[name] = sum(map(body_size, code_requests)) + sum(
                locales[f"js/locales/zh-{kind}.js"] for kind in kinds
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
