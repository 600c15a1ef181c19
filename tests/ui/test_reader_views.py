"""The views of the reader: each begins where people read, and shows one text."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.readers import samples
from tests.ui.harness import ApiHelper, profile
from tests.ui.test_reader import add_files

pytestmark = pytest.mark.browser


def test_another_view_begins_at_the_page_that_is_read(page: Page, ui_url: str, api: ApiHelper) -> None:
    base = api.create_base("Views")
    filler = "".join(f"\nSack {number} of the ledger." for number in range(30))
    texts = [f"Page {number} of the ledger.{filler}" for number in range(1, 31)]
    item = add_files(api, base, {"ledger.pdf": samples.pdf(texts)})["ledger.pdf"]
    page.goto(f"{ui_url}/b/{base}/i/{item}/read")
    expect(page).to_have_title("ledger.pdf · Gristmill")
    expect(page.locator(".page-image").first).to_be_visible()
    page.get_by_role("region", name="Pages").evaluate("region => region.scrollTop = region.scrollHeight / 2")
    expect(page.get_by_text("page 16 of 30")).to_be_visible()
    sixteenth = page.get_by_role("region", name="Text").locator('[data-page="16"] > .part-name')
    for view in ("Side by side", "Text"):
        page.get_by_role("button", name=view, exact=True).click()
        expect(sixteenth).to_be_in_viewport()
    expect(page.get_by_text("page 16 of 30")).to_have_count(0)
    page.locator('[data-page="20"] > .part-name').evaluate("name => name.scrollIntoView()")
    expect(sixteenth).not_to_be_in_viewport()
    page.get_by_role("button", name="Pages", exact=True).click()
    expect(page.get_by_text("page 20 of 30")).to_be_visible()
    numbers = page.locator(".page-image").evaluate_all(
        "pages => pages.map((page) => Number(page.dataset.page))"
    )
    assert numbers == sorted(numbers)  # as screen readers read them


def test_the_hit_at_the_end_of_low_pages_is_on_its_page_and_the_steps_keep_the_focus(
    browser: Browser, ui_url: str, api: ApiHelper
) -> None:
    """There, pages above the last one are at a third of the window, too."""
    base = api.create_base("Slides")
    filler = "\nGrain is sold at the market of the town, and oats too." * 8
    texts = [f"{'A bittern booms.' if number in (1, 5, 9) else 'Rye.'}{filler}" for number in range(10)]
    slides = samples.pdf(texts).replace(b"/MediaBox[0 0 612 792]", b"/MediaBox[0 600 612 792]")
    add_files(api, base, {"slides.pdf": slides})
    with profile(browser, (1280, 1300)) as tabs:
        tabs.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = tabs.open(f"{ui_url}/b/{base}?q=bittern&mode=text")
        page.locator(".hit a").first.click()
        following = page.get_by_role("button", name="Next hit")
        following.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text("hit 2 of 3")).to_be_visible()
        expect(following).to_be_focused()
        page.goto(f"{ui_url}/b/{base}?q=bittern&mode=text")
        page.locator(".hit a", has_text="page 10").click()
        expect(page.locator('[data-page="10"] .page-mark-box.match').first).to_be_in_viewport()
        expect(page.get_by_text("page 10 of 10")).to_be_visible()
        page.get_by_role("button", name="Copy link to this place").click()
        expect(page.get_by_text("Copied")).to_be_visible()
        assert "chunk=" in page.evaluate("navigator.clipboard.readText()")
        assert tabs.errors == []


def test_a_text_that_changes_while_it_is_read_is_not_mixed_with_the_one_before(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base("Changes")
    lines = "".join(f"Sack {number} of the old ledger weighs {number} pounds.\n\n" for number in range(1_500))
    (note,) = api.add_notes(base, lines)
    api.wait_until_indexed(base)
    page.goto(f"{ui_url}/b/{base}/i/{note}/read")
    expect(page.get_by_text("Sack 20 of the old ledger")).to_be_visible()
    changed = {"content": f"# New\n\n{lines.replace('old', 'newest')}"}
    api.http.patch(f"/api/knowledge-items/{note}", json=changed).raise_for_status()
    api.wait_until_indexed(base)
    region = page.get_by_role("region", name="Text")
    region.evaluate("region => region.scrollTop = region.scrollHeight")
    expect(page.get_by_text("The document has changed meanwhile. This is its new text.")).to_be_visible()
    expect(region.get_by_text("of the newest ledger").first).to_be_attached()
    assert "old ledger" not in region.inner_text()
