"""What holds for every page: nobody is kept out of it, in either theme and at either size; and it is small."""

from collections.abc import Mapping
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from gristmill.doors.ui.files import load
from tests.ui.harness import PHONE, WIDE, Hand, Theme, profile, violations

Pages = Mapping[str, tuple[str, str]]  # by a name: the address, and something that is shown there
BUDGET = 60_000  # bytes of code that a browser fetches to show a page for the first time, zipped


@pytest.fixture
def addresses(hand: Hand) -> Pages:
    """Every page, with something on it."""
    name = uuid4().hex[:6]
    base = hand.base(f"pages {name}", acl=["org:*"])
    item, *_ = hand.notes(base, "# Stones\n\nThe miller dresses the stones.", "# Grain\n\nRye and oats.")
    hand.unreadable(base, "bad.bin")
    asked = {
        "name": f"tool {name}",
        "type": "github",
        "config": {"baseUrl": "http://127.0.0.1:9"},
        "credentials": {"token": "t"},
        "knowledgeBaseIds": [base],
    }
    tool = hand.http.post("/api/connectors", json=asked).json()["id"]
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


def shown(page: Page, url: str, text: str) -> None:
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
    found: dict[str, object] = {}
    with profile(browser, size, theme) as tabs:
        page = tabs.context.new_page()
        for name, (path, text) in addresses.items():
            shown(page, mill_url + path, text)
            if broken := violations(page):
                found[name] = broken
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > size[0]:
                found[f"{name}, wide"] = width
        assert tabs.errors == []
    assert found == {}, "\n".join(f"{name}: {what}" for name, what in found.items())


def test_the_code_of_every_page_is_small(browser: Browser, mill_url: str, addresses: Pages) -> None:
    """Fetched by a browser that knows nothing yet, with the words of the larger language."""
    words = {name: len(file.zipped or b"") for name, file in load().assets.items() if "/words/zh-" in name}
    sizes: dict[str, int] = {}
    for name, (path, text) in addresses.items():
        with profile(browser) as tabs:
            page = tabs.context.new_page()
            fetched = coming_in(page)
            shown(page, mill_url + path, text)
            code = [one for one in fetched if one.resource_type in ("document", "script", "stylesheet")]
            brings_words = any(one.url.endswith("/machine-words.js") for one in code)
            sizes[name] = sum(one.sizes()["responseBodySize"] for one in code) + (
                sum(words.values()) if brings_words else words["js/words/zh-contents.js"]
            )
    assert {name: size for name, size in sizes.items() if not 20_000 < size < BUDGET} == {}, sizes


def coming_in(page: Page) -> list[Request]:
    """What the page fetches from now on."""
    fetched: list[Request] = []

    def finished(request: Request) -> None:
        fetched.append(request)

    page.on("requestfinished", finished)
    return fetched
