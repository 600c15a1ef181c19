"""What holds for every page: nobody is kept out of it, in either theme and at either size; and it is small."""

from collections.abc import Mapping
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.ui.harness import PHONE, WIDE, Hand, Theme, profile, violations

BUDGET = 60_000  # bytes of code that a browser fetches to show a page for the first time, zipped


@pytest.fixture
def addresses(hand: Hand) -> Mapping[str, str]:
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
        "bases": "/",
        "base": f"/b/{base}?q=stones",
        "item": f"/b/{base}/i/{item}",
        "add": f"/b/{base}?add=note",
        "base settings": f"/b/{base}/settings",
        "connectors": "/connectors",
        "run": f"/connectors/{tool}/runs/{run}",
        "queue": "/queue",
        "events": f"/events?base={base}",
        "webhooks": f"/events/webhooks/{hook}",
        "general": "/settings/general",
        "models": "/settings/models",
        "keys": "/settings/keys",
        "workers": "/settings/workers",
        "sign in": "/sign-in",
        "lost": "/nowhere",
    }


def shown(page: Page, url: str) -> None:
    """The page, once what it fetches is there."""
    page.goto(url)
    expect(page.locator("main > *").first).to_be_visible()
    page.wait_for_load_state("load")


@pytest.mark.parametrize(
    ("theme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE)]
)
def test_nobody_is_kept_out_of_any_page(
    browser: Browser, mill_url: str, addresses: Mapping[str, str], theme: Theme, size: tuple[int, int]
) -> None:
    """axe's rules, contrast among them: no violation; and nothing is wider than a phone."""
    found: dict[str, object] = {}
    with profile(browser, size, theme) as tabs:
        page = tabs.context.new_page()
        for name, path in addresses.items():
            shown(page, mill_url + path)
            if broken := violations(page):
                found[name] = broken
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > size[0]:
                found[f"{name}, wide"] = width
        assert tabs.errors == []
    assert found == {}, "\n".join(f"{name}: {what}" for name, what in found.items())


def test_the_code_of_every_page_is_small(
    browser: Browser, mill_url: str, addresses: Mapping[str, str]
) -> None:
    """Fetched by a browser that knows nothing yet, in the larger of both languages."""
    sizes: dict[str, int] = {}
    for name, path in addresses.items():
        fetched: list[Request] = []
        with profile(browser, language="zh-CN") as tabs:
            page = tabs.context.new_page()
            page.on("requestfinished", lambda one: fetched.append(one))
            shown(page, mill_url + path)
            page.wait_for_timeout(0)
            sizes[name] = sum(
                one.sizes()["responseBodySize"]
                for one in fetched
                if one.resource_type in ("document", "script", "stylesheet")
            )
    assert {name: size for name, size in sizes.items() if not 20_000 < size < BUDGET} == {}, sizes
