"""The reader: from a hit to its marked place, as pages and as text, by keyboard, on a phone."""

import contextlib
import io
import re
import zipfile
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.readers import samples
from tests.ui.harness import PHONE, ApiHelper, profile, violations

pytestmark = pytest.mark.browser

PAGES = 60
ROWS = 1_500
CODE = "".join(f"def stone_{number}():\n    return {number}\n" for number in range(120))


def add_files(api: ApiHelper, base: str, files: dict[str, bytes]) -> dict[str, str]:
    """Upload files, wait until they are completed, and return their ids by title."""
    form = [("files", (name, data)) for name, data in files.items()]
    assert api.http.post(f"/api/knowledge-bases/{base}/files", files=form).status_code == 202
    items = api.wait_until_indexed(base)
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
    with page.expect_response(re.compile(rf"/{item}/pages\b")) as prepared:  # while one looks at the hits
        page.goto(f"{ui_url}/b/{base}?q=heron+millrace&mode=text")
    assert prepared.value.json()["count"] == PAGES
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
    page.route(re.compile(r"/rendered\?at=0(&|$)"), lambda route: beginnings.append(route))
    with page.expect_request(re.compile(r"/rendered\?at=0(&|$)")):
        page.reload()
    searches[0].continue_()
    expect(page.locator(".code-line.passage", has_text="def stone_77")).to_be_in_viewport()
    with page.expect_response(re.compile(r"/rendered\?at=0(&|$)")) as response:
        beginnings[0].continue_()
    response.value.finished()
    expect(page.locator(".code-line.passage", has_text="def stone_77")).to_be_in_viewport()
    page.unroute_all()


def test_code_has_line_numbers_and_the_reader_works_in_chinese_on_a_phone(
    browser: Browser, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base("Code")
    files = {
        "stones.py": CODE.encode(),
        "deck.pptx": samples.pptx([("Oats", "and spelt"), ("Rye", "and emmer")]),
        "list.pdf": samples.pdf(["A heron at the weir.", "A bittern at the weir."]),
        "sacks.jsonl": "".join(
            f'{{"sack": {number}, "note": "{"rye " * 1_200}"}}\n' for number in range(40)
        ).encode(),
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
        page.goto(
            f"{ui_url}/b/{base}/i/{items['sacks.jsonl']}/read"
        )  # few lines fill a window of the text, not the screen
        expect(page.locator(".code-line", has_text='"sack": 39')).to_be_attached()
        page.goto(f"{ui_url}/b/{base}?q=bittern&mode=text&pane=search")
        page.get_by_role("link", name=re.compile("list.pdf")).first.click()
        expect(page.get_by_text("页，共 2 页")).to_be_visible()
        with profile(browser, PHONE) as english:  # whose labels are longer
            wide = english.open(page.url)
            expect(wide.get_by_text("of 2", exact=False).first).to_be_visible()
            for name in (
                "Previous page",
                "Next hit",
                "Side by side",
                "Copy link to this place",
                "Details",
            ):  # the bar has room for all
                expect(wide.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
            expect(wide.get_by_role("link", name="Original")).to_be_in_viewport(ratio=1)
            expect(wide.get_by_role("button", name="Outline")).to_have_count(0)  # it would be empty
            bar = wide.locator(".reader header").bounding_box()
            assert bar is not None
            assert bar["height"] < 80  # two rows
        page.goto(f"{ui_url}/b/{base}/i/{items['deck.pptx']}/read")
        expect(page.get_by_text("第 1 张幻灯片，共 2 张")).to_be_visible()
        expect(page.get_by_role("region", name="第 2 张幻灯片")).to_be_visible()
        page.get_by_role("button", name="大纲").click()
        page.get_by_role("navigation", name="大纲").get_by_role("button", name="Rye").click()
        expect(page.get_by_text("第 2 张幻灯片，共 2 张")).to_be_visible()
        expect(page.get_by_role("navigation", name="大纲")).to_have_count(0)  # it covered the slide
        page.get_by_role("button", name="上一页").click()
        expect(page.get_by_text("第 1 张幻灯片，共 2 张")).to_be_visible()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        assert tabs.errors == []


def deck(image: bytes, name: str = "wheel.png") -> bytes:
    """A presentation of 30 slides, with a picture on the second and the passage on the last but one."""
    slides = [(f"Mill {number}", f"The wheel of mill {number}.") for number in range(1, 31)]
    slides[28] = ("Herons", "A bittern nests at the weir.")
    picture = f'''<p:pic><p:nvPicPr><p:cNvPr id="9" name="p" descr="A mill wheel"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr>
      <p:blipFill><a:blip xmlns:r="{samples.R}" r:embed="r9"/></p:blipFill></p:pic></p:spTree>'''
    relations = f'''<Relationships xmlns="{samples.RELS}">
      <Relationship Id="r9" Target="../media/{name}" Type="{samples.R}/image"/></Relationships>'''
    members = {f"ppt/media/{name}": image, "ppt/slides/_rels/slide1.xml.rels": relations}
    with zipfile.ZipFile(io.BytesIO(samples.pptx(slides, members))) as archive:
        files: dict[str, bytes | str] = {name: archive.read(name) for name in archive.namelist()}
    files["ppt/slides/slide1.xml"] = archive_text(files, "ppt/slides/slide1.xml").replace(
        "</p:spTree>", picture
    )
    return samples.zipped(files)


def archive_text(files: dict[str, bytes | str], name: str) -> str:
    """A member of an archive as text."""
    data = files[name]
    return data if isinstance(data, str) else data.decode()


def workbook() -> bytes:
    """A workbook whose first sheet takes several windows."""
    rows = [
        [f"Sack {number}", f"weighs {number} pounds", "sold at the market of the town"]
        for number in range(ROWS)
    ]
    return samples.xlsx(
        {"Grain": [["Name", "Weight", "Note"], *rows], "Flour": [["Name"], ["A kestrel on the roof"]]}
    )


def test_slides_and_sheets_are_pages_with_their_images(page: Page, ui_url: str, api: ApiHelper) -> None:
    """By the keyboard: from a hit to its row in the middle of a sheet, to the next sheet, through all rows; slides with images."""
    base = api.create_base("Office")
    items = add_files(api, base, {"mills.pptx": deck(samples.png(90, 120)), "sacks.xlsx": workbook()})
    page.goto(f"{ui_url}/b/{base}?q=%22weighs+1077+pounds%22&mode=text")
    page.get_by_role("link", name=re.compile("sacks.xlsx")).first.focus()
    page.keyboard.press("Enter")
    row = page.locator("tr.passage", has_text="weighs 1077 pounds")
    expect(row).to_be_in_viewport()
    expect(row.locator("mark").first).to_be_visible()
    name, weight = (row.locator("td").nth(column).bounding_box() for column in (0, 1))
    assert name is not None and weight is not None and name["y"] == weight["y"]  # noqa: PT018  -- a row is a row
    assert page.locator("tr.passage").count() < 200  # the rows of the passage, not the table
    expect(page.get_by_role("columnheader", name="Weight").first).to_be_attached()
    expect(page.get_by_text("sheet 1 of 2")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("sheet 2 of 2")).to_be_visible()
    expect(page.get_by_role("cell", name="A kestrel on the roof")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Next page")).to_be_disabled()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("cell", name="Sack 0", exact=True)).to_be_in_viewport()
    assert violations(page) == []
    text = page.get_by_role("region", name="Text")
    text.focus()
    for key, number in (("End", ROWS - 1), ("Home", 0)):  # what is not loaded comes while one scrolls
        scroll_to(page, key, page.get_by_role("cell", name=f"Sack {number}", exact=True))
    cells = page.locator("tbody td:first-child").all_inner_texts()
    assert [cell for cell in cells if cell.startswith("Sack")] == [f"Sack {number}" for number in range(ROWS)]

    page.goto(f"{ui_url}/b/{base}/i/{items['mills.pptx']}/read?q=bittern&mode=text")
    expect(page.get_by_text("slide 1 of 30")).to_be_visible()
    image = page.get_by_role("region", name="Slide 2").get_by_role("img", name="A mill wheel")
    image.scroll_into_view_if_needed()
    expect(page.locator(".text-image.loading")).to_have_count(0)
    assert image.evaluate("image => image.naturalWidth") == 120
    page.get_by_role("navigation", name="Outline").get_by_role("button", name="29 Herons").press("Enter")
    expect(page.get_by_role("region", name="Slide 29")).to_contain_text("A bittern nests")
    expect(page.get_by_text("slide 29 of 30")).to_be_visible()
    previous = page.get_by_role("button", name="Previous page")
    previous.focus()
    for number in (28, 27):  # the button keeps the focus
        page.keyboard.press("Enter")
        expect(page.get_by_text(f"slide {number} of 30")).to_be_visible()
    assert violations(page) == []


def scroll_to(page: Page, key: str, target: Locator) -> None:
    """Press a key until an element is in the window: each time more of the text is loaded."""
    for _ in range(50):
        with (
            contextlib.suppress(PlaywrightTimeout),
            page.expect_response(re.compile("/rendered"), timeout=500),
        ):
            page.keyboard.press(key)
        if target.count() and target.first.is_visible():
            target.first.scroll_into_view_if_needed()
            return
    raise AssertionError(f"{target} is not reached")


def count_maps(page: Page) -> int:
    """How many `Map` objects the page holds: every effect and every computed value has one."""
    session: Any = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    prototype = session.send("Runtime.evaluate", {"expression": "Map.prototype"})["result"]["objectId"]
    maps = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"]["objectId"]
    length = {
        "functionDeclaration": "function () { return this.length }",
        "objectId": maps,
        "returnByValue": True,
    }
    count = session.send("Runtime.callFunctionOn", length)["result"]["value"]
    session.send("Runtime.releaseObject", {"objectId": maps})
    session.detach()
    return int(count)


def test_the_page_keeps_nothing_of_documents_that_were_left(page: Page, ui_url: str, api: ApiHelper) -> None:
    base = api.create_base("Shelf")
    notes = api.add_notes(base, "# Rye\n\nIt is ground.", "# Oats\n\nThey are rolled.")
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile("Oats"))).to_contain_text("Indexed")
    counts: list[int] = []
    for number in range(24):
        path = f"/b/{base}/i/{notes[number % 2]}/read"
        page.evaluate(
            "path => { history.pushState(null, '', path); dispatchEvent(new Event('popstate')) }", path
        )
        title = "Rye" if number % 2 == 0 else "Oats"
        expect(page.locator(".reader-document").get_by_role("heading", name=title)).to_be_visible()
        if number in (3, 23):
            counts.append(count_maps(page))
    assert counts[1] - counts[0] < 20, counts  # less than one for each document
