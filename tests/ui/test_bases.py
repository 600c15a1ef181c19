"""Bases, search and items: what else a person does there, for every eye and on every screen."""

import re
import time

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.harness import PHONE, WIDE, ApiHelper, Theme, profile, violations
from tests.wait_until import LIMIT

_TEXT = "# Dressing\n\nThe miller sharpens the stones every spring."


@pytest.fixture
def filled(hand: ApiHelper) -> tuple[str, str]:
    """A base with a note and a file that failed; the note's id."""
    existing = hand.http.get("/api/knowledge-bases", params={"name": "Filled"}).json()["items"]
    if existing:
        base = existing[0]["id"]
        items = hand.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
        return base, next(item["id"] for item in items if item["type"] == "note")
    base = hand.create_base("Filled")
    (note,) = hand.add_notes(base, _TEXT)
    hand.add_unreadable_files(base, "broken.bin")
    end = time.monotonic() + LIMIT
    while hand.http.get(f"/api/knowledge-bases/{base}").json()["leafCounts"] != {"completed": 1, "failed": 1}:
        assert time.monotonic() < end, "neither of them is done"
    return base, note


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nobody_is_kept_out_of_a_page(
    browser: Browser, mill_url: str, filled: tuple[str, str], theme: Theme
) -> None:
    """axe finds nothing on bases, base, hits, item, dialogs and settings, in either theme."""
    base, note = filled
    with profile(browser, WIDE, theme) as tabs:
        page = tabs.open(f"{mill_url}/")
        expect(page.get_by_role("link", name=re.compile("Filled")).first).to_be_visible()
        assert violations(page) == []
        page.goto(f"{mill_url}/b/{base}?q=stones&explain=1")
        expect(page.locator(".hit").first).to_be_visible()
        expect(page.get_by_role("row").first).to_be_visible()
        assert violations(page) == []
        page.goto(f"{mill_url}/b/{base}/i/{note}")
        expect(page.locator(".chunk")).to_contain_text("sharpens")
        assert violations(page) == []
        page.goto(f"{mill_url}/b/{base}?add=note")
        expect(page.get_by_role("dialog", name="Add content")).to_be_visible()
        assert violations(page) == []
        page.goto(f"{mill_url}/b/{base}/settings")
        expect(page.get_by_label("Longest chunk")).to_be_visible()
        assert violations(page) == []
        assert tabs.errors == []


def test_an_item_shows_its_chunks_content_original_and_history(
    page: Page, mill_url: str, filled: tuple[str, str]
) -> None:
    base, note = filled
    page.goto(f"{mill_url}/b/{base}/i/{note}?chunk=0")
    expect(page.locator(".chunk.current")).to_contain_text("sharpens the stones")
    page.get_by_role("button", name="Content", exact=True).click()
    expect(page.locator("pre.content")).to_contain_text("# Dressing")
    page.get_by_role("button", name="Timeline").click()
    expect(page.get_by_text("index document")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Original").click()
    assert download.value.path().read_text() == _TEXT


def test_a_document_that_is_no_hit_is_explained(page: Page, mill_url: str, filled: tuple[str, str]) -> None:
    base, _ = filled
    page.goto(f"{mill_url}/b/{base}?q=stones")
    page.get_by_role("button", name="Why is a document not here?").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the document").fill("broken")
    dialog.get_by_role("button", name=re.compile("broken.bin")).click()
    expect(dialog).to_contain_text("never_extracted")


def test_content_is_added_by_the_dialog_and_a_refusal_is_told_in_it(
    page: Page, mill_url: str, hand: ApiHelper
) -> None:
    base = hand.create_base("Dialog")
    page.goto(f"{mill_url}/b/{base}?add=dir")
    dialog = page.get_by_role("dialog", name="Add content")
    dialog.get_by_label("Path on the server").fill("/nowhere/at/all")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("/nowhere/at/all")
    dialog.get_by_role("button", name="Note").click()
    dialog.get_by_label("Title").fill("Emmer")
    dialog.get_by_label("Text").fill("Emmer is an old wheat.")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("row", name=re.compile("Emmer"))).to_contain_text("Indexed")


def test_a_base_is_renamed_and_deleted_after_its_name_was_typed(
    page: Page, mill_url: str, hand: ApiHelper
) -> None:
    base = hand.create_base("Short-lived")
    page.goto(f"{mill_url}/b/{base}/settings")
    page.get_by_label("Name", exact=True).fill("Soon gone")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Soon gone").first).to_be_visible()
    page.get_by_role("button", name="Delete the base").click()
    dialog = page.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name="Delete the base")
    expect(confirm).to_be_disabled()
    dialog.get_by_role("textbox").fill("Soon gone")
    confirm.click()
    expect(page).to_have_url(f"{mill_url}/")
    expect(page.get_by_role("link", name="Soon gone")).to_have_count(0)


def test_the_palette_goes_to_a_base_by_its_name(page: Page, mill_url: str, filled: tuple[str, str]) -> None:
    base, _ = filled
    page.goto(mill_url)
    expect(page.get_by_role("link", name=re.compile("Filled")).first).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("Fill")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/b/{base}"))


def test_on_a_phone_items_and_search_take_turns(
    browser: Browser, mill_url: str, filled: tuple[str, str]
) -> None:
    base, _ = filled
    with profile(browser, PHONE) as tabs:
        page = tabs.open(f"{mill_url}/b/{base}")
        row = page.get_by_role("row", name=re.compile("Dressing"))
        expect(row).to_be_visible()
        page.get_by_role("group", name="What is shown").get_by_role("button", name="Search").click()
        expect(row).not_to_be_visible()
        page.get_by_role("searchbox", name="Search this base").fill("stones")
        expect(page.locator(".hit").first).to_be_visible()
        page.get_by_role("group", name="What is shown").get_by_role("button", name="Items").click()
        expect(row).to_be_visible()
        assert violations(page) == []
        assert tabs.errors == []


def test_who_reads_chinese_is_spoken_to_in_chinese(
    browser: Browser, mill_url: str, filled: tuple[str, str]
) -> None:
    base, _ = filled
    with profile(browser, language="zh-CN") as tabs:
        page = tabs.open(f"{mill_url}/b/{base}")
        expect(page.get_by_role("button", name="添加内容").first).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("Dressing"))).to_contain_text("已索引")
