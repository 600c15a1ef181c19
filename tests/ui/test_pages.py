"""What holds for every page: nobody is kept out of it, in either theme and at either size; and it is small."""

from collections.abc import Mapping
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from gristmill.server.ui.static_files import load
from tests.ui.harness import PHONE, WIDE, ApiHelper, Theme, profile, violations

Pages = Mapping[str, tuple[str, str]]  # by a name: the address, and something that is shown there
BUDGET = 60_000  # bytes of code that a browser fetches to show a page for the first time, zipped


@pytest.fixture
def addresses(hand: ApiHelper) -> Pages:
    """Every page, with something on it."""
    name = uuid4().hex[:6]
    base = hand.create_base(f"pages {name}", acl=["org:*"])
    item, *_ = hand.add_notes(base, "# Stones\n\nThe miller dresses the stones.", "# Grain\n\nRye and oats.")
    hand.add_unreadable_files(base, "bad.bin")
    payload = {
        "name": f"tool {name}",
        "type": "github",
        "config": {"baseUrl": "http://127.0.0.1:9"},
        "credentials": {"token": "t"},
        "knowledgeBaseIds": [base],
    }
    tool = hand.http.post("/api/connectors", json=payload).json()["id"]
    run = hand.http.post(f"/api/connectors/{tool}/sync").json()["runId"]
    hook = hand.http.post("/api/webhooks", json={"url": "http://127.0.0.1:9/hook"}).json()["id"]
    hand.http.post("/api/api-keys", json={"name": f"key {name}", "role": "reader"})
    return {
        "bases": ("/", f"pages {name}"),
        "base": (f"/b/{base}?q=stones", "Stones"),
        "item": (f"/b/{base}/i/{item}", "Stones"),
        "add": (f"/b/{base}?add=note", "Add content"),
        "base settings": (f"/b/{base}/settings", "Name"),
        "connectors": ("/connectors", f"tool {name}"),
        "run": (f"/connectors/{tool}/runs/{run}", "By hand"),
        "queue": ("/queue", "bad.bin"),
        "events": (f"/events?base={base}", "was made"),
        "webhooks": (f"/events/webhooks/{hook}", "Every event"),
        "general": ("/settings/general", "Nothing is stuck"),
        "models": ("/settings/models", "quick"),
        "keys": ("/settings/keys", f"key {name}"),
        "workers": ("/settings/workers", "process"),
        "sign in": ("/sign-in", "API key"),
        "lost": ("/nowhere", "leads nowhere"),
    }


def open_page(page: Page, url: str, text: str) -> None:
    """The page, once what it fetches is there."""
    page.goto(url)
    expect(page.locator("main, dialog").get_by_text(text).filter(visible=True).first).to_be_visible()


@pytest.mark.parametrize(
    ("theme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE)]
)
def test_nobody_is_kept_out_of_any_page(
    browser: Browser, mill_url: str, addresses: Pages, theme: Theme, size: tuple[int, int]
) -> None:
    """axe's rules, contrast among them: no violation; and nothing is wider than a phone."""
    problems: dict[str, object] = {}
    with profile(browser, size, theme) as tabs:
        page = tabs.context.new_page()
        for name, (path, text) in addresses.items():
            open_page(page, mill_url + path, text)
            if violations_found := violations(page):
                problems[name] = violations_found
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > size[0]:
                problems[f"{name}, wide"] = width
        assert tabs.errors == []
    assert problems == {}, "\n".join(f"{name}: {what}" for name, what in problems.items())


def test_the_code_of_every_page_is_small(browser: Browser, mill_url: str, addresses: Pages) -> None:
    """Fetched by a browser that knows nothing yet, with the words of the larger language."""
    words = {name: len(file.gzipped or b"") for name, file in load().assets.items() if "/words/zh-" in name}
    sizes: dict[str, int] = {}
    for name in ("bases", "base", "item", "base settings", "run", "queue", "events", "webhooks", "general"):
        path, text = addresses[name]  # one of each module
        with profile(browser) as tabs:
            page = tabs.context.new_page()
            requests = record_requests(page)
            open_page(page, mill_url + path, text)
            code_requests = [
                one for one in requests if one.resource_type in ("document", "script", "stylesheet")
            ]
            has_admin_words = any(one.url.endswith("/machine-words.js") for one in code_requests)
            sizes[name] = sum(one.sizes()["responseBodySize"] for one in code_requests) + (
                sum(words.values()) if has_admin_words else words["js/words/zh-contents.js"]
            )
    assert {name: size for name, size in sizes.items() if not 20_000 < size < BUDGET} == {}, sizes


def record_requests(page: Page) -> list[Request]:
    """What the page fetches from now on."""
    requests: list[Request] = []

    def record(request: Request) -> None:
        requests.append(request)

    page.on("requestfinished", record)
    return requests
