"""The reader: from a hit to its marked place, as pages and as text, by keyboard, on a phone."""

import re
import time

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.readers import samples
from tests.ui.harness import PHONE, ApiHelper, profile, violations
from tests.wait_until import LIMIT

pytestmark = pytest.mark.browser

PAGES = 60
CODE = "".join(f"def stone_{number}():\n    return {number}\n" for number in range(120))


def add_files(api: ApiHelper, base: str, files: dict[str, bytes]) -> dict[str, str]:
    """Upload files, wait until they are completed, and return their ids by title."""
    form = [("files", (name, data)) for name, data in files.items()]
    assert api.http.post(f"/api/knowledge-bases/{base}/files", files=form).status_code == 202
    end, items = time.monotonic() + 4 * LIMIT, list[dict[str, str]]()
    while not items or any(item["status"] not in ("completed", "failed") for item in items):
        assert time.monotonic() < end, "the files are not read"
        items = api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
    assert [item["status"] for item in items] == ["completed"] * len(items), items
    return {item["title"]: item["id"] for item in items}


def ledger() -> bytes:
    """A PDF of which one page, far in, has the passage."""
    texts = [f"Page {number} of the ledger lists grain." for number in range(1, PAGES + 1)]
    texts[41] = (
        "First come the sacks of barley.\nThe heron stands beside the millrace at dusk.\nThen comes the rye."
    )
    return samples.pdf(texts)


def is_in_view(page: Page, selector: str) -> bool:
    """Whether an element is within the window."""
    box = page.locator(selector).first.bounding_box()
    size = page.viewport_size
    return box is not None and size is not None and 0 < box["y"] < size["height"]


def test_a_hit_opens_its_page_with_the_passage_marked(page: Page, ui_url: str, api: ApiHelper) -> None:
    base = api.create_base("Ledger")
    api.add_notes(base, "# Herons\n\nA heron also nests at the weir.")
    item = add_files(api, base, {"ledger.pdf": ledger()})["ledger.pdf"]
    page.goto(f"{ui_url}/b/{base}?q=heron+millrace&mode=text")
    hit = page.get_by_role("link", name=re.compile("ledger.pdf"))
    hit.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/i/{item}/read\?.*chunk="))
    mark = page.locator(".page-mark-box")
    expect(mark.first).to_be_visible()
    expect(page.locator('.page-image[data-page="42"] .page-mark-box.match').first).to_be_visible()
    assert is_in_view(page, ".page-mark-box.match")
    image = page.locator('.page-image[data-page="42"] img')
    expect(image).to_be_visible()
    image.evaluate("image => image.decode()")
    expect(page.get_by_text(f"page 42 of {PAGES}")).to_be_visible()
    assert page.locator(".page-image").count() < 8  # only what is near the viewport
    assert violations(page) == []
    # The link can be shared; without its search too.
    page.goto(re.sub(r"q=[^&]*&", "", page.url))
    expect(page.locator(".page-mark-box").first).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator(".text-block.passage", has_text="stands beside the").first).to_be_visible()
    expect(page.locator(".text-block mark").first).to_be_in_viewport()
    page.reload()  # the text before the passage is added above it, and it stays where it is
    expect(page.locator(".text-block mark").first).to_be_in_viewport()
    # By keyboard: the hit before it is in another document, and Escape goes back to the search.
    expect(page.get_by_text("hit 2 of 2")).to_be_visible()
    page.keyboard.press("k")
    expect(page.get_by_role("heading", name="Herons").first).to_be_visible()
    expect(page.locator(".text-block.passage").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator(".page-mark-box").first).to_be_visible()
    page.get_by_role("button", name="Details").click()
    expect(page.locator(".item-pane")).to_be_visible()
    page.get_by_role("link", name="Open reader").click()
    expect(page.locator(".page-image").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox", name="Search this base")).to_have_value("heron millrace")


def reload_with_late_beginning(page: Page) -> None:
    """Open the passage again; the beginning of the text, requested before the passage was known, arrives after it."""
    searches, beginnings = list[Route](), list[Route]()
    page.route("**/search", lambda route: searches.append(route))
    page.route(re.compile(r"/rendered\?at=0$"), lambda route: beginnings.append(route))
    with page.expect_request(re.compile(r"/rendered\?at=0$")):
        page.reload()
    searches[0].continue_()
    expect(page.locator(".code-line.passage").first).to_be_in_viewport()
    with page.expect_response(re.compile(r"/rendered\?at=0$")) as response:
        beginnings[0].continue_()
    response.value.finished()
    expect(page.locator(".code-line.passage").first).to_be_in_viewport()
    page.unroute_all()


def test_code_has_line_numbers_and_the_reader_works_in_chinese_on_a_phone(
    browser: Browser, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base("Code")
    files = {
        "stones.py": CODE.encode(),
        "deck.pptx": samples.pptx([("Oats", "and spelt"), ("Rye", "and emmer")]),
    }
    items = add_files(api, base, files)
    with profile(browser, PHONE, "dark", "zh-CN") as tabs:
        page = tabs.open(f"{ui_url}/b/{base}?q=stone_77&mode=text&pane=search")
        page.get_by_role("link", name=re.compile("stones.py")).first.click()
        expect(page.locator(".code-line", has_text="def stone_77")).to_have_attribute("data-line", "155")
        expect(page.locator(".code-line.passage").first).to_be_visible()
        expect(page.get_by_role("button", name="返回搜索")).to_be_visible()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        reload_with_late_beginning(page)
        page.goto(f"{ui_url}/b/{base}/i/{items['deck.pptx']}/read")
        expect(page.get_by_text("第 2 张幻灯片")).to_be_visible()
        page.get_by_role("button", name="大纲").click()
        page.get_by_role("navigation", name="大纲").get_by_role("button", name="Rye").click()
        assert violations(page) == []
        assert tabs.errors == []
