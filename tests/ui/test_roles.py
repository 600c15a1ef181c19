"""Pages offer each caller what the server accepts from them, and nothing else."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.reverse_proxy import BEHIND_NGINX
from tests.ui.harness import ApiHelper, Tabs, profile


@pytest.fixture
def public_base(api: ApiHelper) -> tuple[str, str]:
    """A base that everyone may read, with a note and a failed file; the note's id."""
    base = api.create_base(f"Shared {uuid4().hex[:6]}", acl=["org:*"])
    (note,) = api.add_notes(base, "# Bolting\n\nFlour is bolted through silk.")
    api.add_unreadable_files(base, "broken.bin")
    return base, note


@contextmanager
def sign_in(browser: Browser, url: str, api: ApiHelper, role: str) -> Generator[tuple[Tabs, list[str]]]:
    """A profile that is signed in with a key of this role, and the requests that the server refused as forbidden."""
    key = api.http.post("/api/api-keys", json={"name": f"{role} of pages", "role": role}).json()["key"]
    rejected_requests: list[str] = []

    def record(response: Response) -> None:
        # The stream is for admins: pages of others try it once, and then poll.
        if response.status == 403 and not response.url.endswith("/api/events/stream"):
            rejected_requests.append(response.url)

    with profile(browser) as tabs:
        headers = {"Content-Type": "application/json", "Origin": url}
        response = tabs.context.request.post(
            f"{url}/api/session", data=json.dumps({"key": key}), headers=headers
        )
        assert response.ok, response.text()
        tabs.context.on("response", record)
        yield tabs, rejected_requests
        assert tabs.errors == []


def navigation(page: Page) -> list[str]:
    """The links of the sidebar's first part."""
    return page.get_by_role("navigation", name="Pages").first.get_by_role("link").all_inner_texts()


def test_a_reader_sees_what_can_be_read_and_no_more(
    browser: Browser, ui_url: str, api: ApiHelper, public_base: tuple[str, str]
) -> None:
    """No button, page or check that answers 403, and no request that does."""
    base, note = public_base
    with sign_in(browser, ui_url, api, "reader") as (tabs, rejected_requests):
        page = tabs.open(ui_url)
        expect(page.get_by_role("link", name=re.compile("Shared")).first).to_be_visible()
        assert navigation(page) == ["Bases", "Search", "Connect", "Settings"]
        expect(page.get_by_role("button", name="New base")).to_have_count(0)

        page.goto(f"{ui_url}/b/{base}?q=silk&add=note")
        expect(page.locator(".hit").first).to_contain_text("silk")
        row = page.get_by_role("row").filter(has_text="broken.bin")
        expect(row).to_contain_text("Failed")
        row.hover()
        page.get_by_role("treegrid").focus()
        for key in ("Delete", "r", "a", " "):
            page.keyboard.press(key)
        for name in ("Add content", "Reindex", "Delete", "Retry", "Settings", "Why is a document missing?"):
            expect(page.locator("main").get_by_role("button", name=name)).to_have_count(0)
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("checkbox")).to_have_count(0)

        page.goto(f"{ui_url}/b/{base}/i/{note}")
        expect(page.locator(".chunk")).to_contain_text("bolted")
        expect(page.get_by_role("button", name="Content", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Timeline")).to_have_count(0)

        page.goto(f"{ui_url}/settings/general")
        expect(page.get_by_text("role: reader")).to_be_visible()
        expect(page.get_by_text("Integrity checks")).to_have_count(0)
        assert page.get_by_role("navigation", name="Settings").get_by_role("link").all_inner_texts() == [
            "General",
            "Models",
        ]
        for path in ("/queue", "/connectors", "/events", "/events/webhooks", f"/b/{base}/settings"):
            page.goto(ui_url + path)
            expect(page.get_by_role("heading", name="This page is for admins").first).to_be_visible()
        page.keyboard.press("Control+k")
        expect(page.get_by_role("option").filter(has_text="Settings")).to_be_visible()
        expect(page.get_by_role("option").filter(has_text="Queue")).to_have_count(0)
        assert rejected_requests == []


def test_an_editor_sees_what_can_be_edited(
    browser: Browser, ui_url: str, api: ApiHelper, public_base: tuple[str, str]
) -> None:
    """Not what only admins may do, no paths on the server, and nothing to change in a base with hidden items."""
    base, note = public_base
    partly_hidden_base = api.create_base(f"Partly hidden {uuid4().hex[:6]}", acl=["org:*"])
    (secret,) = api.add_notes(partly_hidden_base, "Only for admins")
    response = api.http.patch(f"/api/knowledge-items/{secret}", json={"acl": []})
    assert response.status_code < 300, response.text
    api.add_notes(partly_hidden_base, "For all")
    with sign_in(browser, ui_url, api, "editor") as (tabs, rejected_requests):
        page = tabs.open(ui_url)
        expect(page.get_by_role("button", name="New base").first).to_be_visible()
        assert navigation(page) == ["Bases", "Search", "Connect", "Settings"]
        page.goto(f"{ui_url}/b/{base}?q=silk")
        expect(page.get_by_role("button", name="Reindex all")).to_be_visible()
        expect(page.locator(".hit").first).to_contain_text("silk")
        for name in ("Settings", "Why is a document missing?"):
            expect(page.locator("main").get_by_role("button", name=name)).to_have_count(0)
        page.keyboard.press("a")
        dialog = page.get_by_role("dialog", name="Add content")
        expect(dialog.get_by_role("button", name="Sitemap")).to_be_visible()
        # Behind nginx, the test's server has allowed_paths.
        expect(dialog.get_by_role("button", name="Folder", exact=True)).to_have_count(int(BEHIND_NGINX))
        dialog.get_by_role("button", name="Note").click()
        dialog.get_by_label("Text").fill("Silk is woven.")
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_role("row").filter(has_text="Silk is woven")).to_contain_text("Indexed")
        page.goto(f"{ui_url}/b/{base}/i/{note}?tab=timeline")
        expect(page.get_by_text("index document")).to_be_visible()
        assert rejected_requests == []

        page.goto(f"{ui_url}/b/{partly_hidden_base}")
        expect(page.get_by_text("it contains items you can't see")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text="For all")).to_be_visible()
        expect(page.get_by_role("button", name="Add content")).to_have_count(0)


def test_an_admin_sees_everything(browser: Browser, ui_url: str, api: ApiHelper) -> None:
    with sign_in(browser, ui_url, api, "admin") as (tabs, rejected_requests):
        page = tabs.open(f"{ui_url}/settings/general")
        expect(page.get_by_text("All checks passed")).to_be_visible()
        assert navigation(page)[0] == "Bases"
        assert len(navigation(page)) == 7
        page.get_by_role("navigation", name="Settings").get_by_role("link", name="Workers").click()
        expect(page.get_by_role("list", name="Workers").get_by_role("listitem").first).to_contain_text(
            "Running"
        )
        assert rejected_requests == []
