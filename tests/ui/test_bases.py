"""Bases, search and items: accessibility, item details, dialogs, settings, phones and languages."""

import re
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.ui.blocking_embedder import HELD_MARKER, hold_embedding
from tests.ui.harness import PHONE, ApiHelper, ServerSetup, profile, violations
from tests.wait_until import wait_without_loop

# Failed items whose messages have these numbers of characters. They satisfy every invariant without a job.
_FAILED_ITEMS = """
insert into item (base_id, type, title, status, source, source_key, expanded_version, error_code, error_message)
select %s, 'file', 'tall-' || n, 'failed', '{"name": "x"}', 'upload:' || n, 1, 'unreadable', left(repeat('damp grain ', 50), n)
  from unnest(%s::int[]) n
"""
# The space between a message and the end of its row is the same in all rows.
_ROWS_FIT = """() => {
  const gaps = [...document.querySelectorAll(".item-row .note")].filter((note) => note.closest("[role=row]")).map(
    (note) => Math.round(note.closest("[role=row]").getBoundingClientRect().bottom - note.getBoundingClientRect().bottom));
  return gaps.length === 24 && new Set(gaps).size === 1 && gaps[0] > 0 && gaps[0] < 10;
}"""
_TEXT = "# Dressing\n\nThe miller sharpens the stones every spring."


@pytest.fixture
def filled_base(api: ApiHelper) -> tuple[str, str]:
    """A base with a note and a file that failed; the note's id."""
    existing = api.http.get("/api/knowledge-bases", params={"name": "Filled"}).json()["items"]
    if existing:
        base = existing[0]["id"]
        items = api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
        return base, next(item["id"] for item in items if item["type"] == "note")
    base = api.create_base("Filled")
    (note,) = api.add_notes(base, _TEXT)
    api.add_unreadable_files(base, "broken.bin")

    def are_done() -> bool:
        counts = api.http.get(f"/api/knowledge-bases/{base}").json()["leafCounts"]
        return counts == {"completed": 1, "failed": 1}

    wait_without_loop(are_done)
    return base, note


def test_a_base_whose_only_site_failed_is_listed_as_failed(page: Page, ui_url: str, api: ApiHelper) -> None:
    """A site without pages is no document, and was not counted: its base looked well."""
    base = api.create_base("no start page")
    site = {"type": "site", "url": f"{ui_url}/api/no-such-page"}
    response = api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": [site]})
    assert response.status_code == 202, response.text
    page.goto(ui_url)
    row = page.get_by_role("main").get_by_role("listitem").filter(has_text="no start page")
    expect(row).to_contain_text("1 failed")


def test_an_item_shows_its_chunks_content_original_and_history(
    page: Page, ui_url: str, filled_base: tuple[str, str]
) -> None:
    base, note = filled_base
    page.goto(f"{ui_url}/b/{base}/i/{note}?chunk=0")
    expect(page.locator(".chunk.current")).to_contain_text("sharpens the stones")
    page.get_by_role("button", name="Content", exact=True).click()
    expect(page.locator("pre.content")).to_contain_text("# Dressing")
    page.get_by_role("button", name="Timeline").click()
    expect(page.locator(".jobs b").last).to_have_text("index")
    with page.expect_download() as download:
        page.get_by_role("link", name="Original").click()
    assert download.value.path().read_text() == _TEXT


def test_why_a_document_is_missing_from_the_hits_is_explained(
    page: Page, ui_url: str, filled_base: tuple[str, str]
) -> None:
    base, _ = filled_base
    page.goto(f"{ui_url}/b/{base}?q=stones")
    page.get_by_role("button", name="Why is a document missing?").click()
    dialog = page.get_by_role("dialog")
    name = dialog.get_by_role("combobox", name="Document name")
    name.fill("broken")
    dialog.get_by_role("option", name=re.compile("broken.bin")).click()
    expect(dialog).to_contain_text("never_extracted")
    name.fill("r")  # is in both names
    expect(dialog.get_by_role("option")).to_have_count(2)
    first, second = dialog.get_by_role("option").all_inner_texts()
    expect(dialog.get_by_role("option", selected=True)).to_contain_text(first)
    page.keyboard.press("ArrowDown")
    expect(dialog.get_by_role("option", selected=True)).to_contain_text(second)
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("heading", name=second)).to_be_visible()
    name.fill("Dress")
    page.keyboard.press("Enter")  # before the matches have arrived
    expect(dialog.get_by_role("heading", name="Dressing")).to_be_visible()


def test_the_key_a_adds_content_wherever_the_focus_is(
    page: Page, ui_url: str, filled_base: tuple[str, str]
) -> None:
    """Not where people type, and not in a dialog."""
    base, _ = filled_base
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("button", name="Add content").first).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("a")
    dialog = page.get_by_role("dialog", name="Add content")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_role("searchbox", name="Search this base").press_sequentially("a")
    expect(page).to_have_url(re.compile("q=a"))
    expect(dialog).to_have_count(0)


def test_hits_are_readable_and_their_relevance_is_true(page: Page, ui_url: str, api: ApiHelper) -> None:
    """No markup, no highlighted stop word, and no score for words that no document has."""
    base = api.create_base("Readable")
    api.add_notes(
        base,
        '# Wheels **and** gears\n\nThe wheel is <a href="the.html">the gear</a> of the [mill](https://example.org).',
    )
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile("Wheels"))).to_contain_text("Indexed")
    search = page.get_by_role("searchbox", name="Search this base")
    search.fill("the wheel is the mill")
    hit = page.locator(".hit")
    expect(hit.locator(".hit-text")).to_have_text(
        re.compile(r"^\s*Wheels and gears\s+The wheel is the gear of the mill\.\s*$")
    )
    assert [word.lower() for word in hit.locator("mark").all_inner_texts()] == ["wheels", "wheel", "mill"]
    expect(page.get_by_text("No document contains these words")).to_have_count(0)
    search.fill("qwzx vbnm plokij")
    expect(page.get_by_text("No document contains these words")).to_be_visible()
    expect(hit).to_contain_text("by meaning only")
    expect(hit).not_to_contain_text(re.compile(r"\d\.\d\d"))
    search.fill('"gear of wheels"')
    expect(
        page.get_by_text("Nothing contains “gear of wheels”. These results have some of its words.")
    ).to_be_visible()
    search.fill("whell")
    expect(page.get_by_text("Nothing contains “whell”. These results are for “wheels”.")).to_be_visible()
    search.fill("wheel")
    expect(page.get_by_text("Nothing contains")).to_have_count(0)


def test_a_search_that_failed_in_an_outage_is_repeated(
    page: Page, ui_url: str, filled_base: tuple[str, str]
) -> None:
    base, _ = filled_base
    page.goto(f"{ui_url}/b/{base}")
    field = page.get_by_role("searchbox", name="Search this base")
    expect(field).to_be_visible()
    page.context.set_offline(True)
    field.fill("stones")
    expect(page.get_by_text("The search failed")).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator(".hit").first).to_contain_text("stones")
    expect(page.get_by_text("The search failed")).to_have_count(0)


def test_rows_are_as_tall_as_their_text_and_figures_agree_with_tabs(
    page: Page, ui_url: str, api: ApiHelper, ui_setup: ServerSetup
) -> None:
    """At every width, an error that wraps leaves the same space below it as one that doesn't."""
    base = api.create_base("Tall")
    with psycopg.connect(ui_setup.env["GRISTMILL_DATABASE_URL"], autocommit=True) as database:
        database.execute(_FAILED_ITEMS, (base, [15 * n for n in range(1, 25)]))
    page.goto(f"{ui_url}/b/{base}")
    for width in (1400, 1100, 800, 390):
        page.set_viewport_size({"width": width, "height": 4000})
        expect(page.get_by_role("row")).to_have_count(24)
        page.wait_for_function(_ROWS_FIT)
    for label, count in (("Processing", "0"), ("Queued", "0"), ("Failed", "24")):
        figure = page.locator(".figures div").filter(has_text=label).locator("dd")
        tab = page.get_by_role("group", name="Filter by status").get_by_role("button", name=label)
        expect(figure).to_have_text(count)
        expect(tab.locator(".count")).to_have_text(count)


def test_content_is_added_by_the_dialog_which_shows_errors(page: Page, ui_url: str, api: ApiHelper) -> None:
    base = api.create_base("Dialog")
    page.goto(f"{ui_url}/b/{base}?add=dir")
    dialog = page.get_by_role("dialog", name="Add content")
    dialog.get_by_label("Path on the server").fill("/nowhere/at/all")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("/nowhere/at/all")
    dialog.get_by_role("button", name="Web site").click()
    dialog.get_by_role("textbox", name="Start page").fill("http://127.0.0.1:9/docs/")
    dialog.get_by_label("At most this many pages").fill("7")
    dialog.get_by_label("Only addresses like these").fill("docs")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("must begin with / or *, such as /docs/*")
    dialog.get_by_label("Only addresses like these").fill("/docs/*\n/guide/*")
    dialog.get_by_label("Pages made by scripts").select_option("Render all pages")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="127.0.0.1:9/docs/")).to_be_visible()
    (site,) = api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
    assert (site["type"], site["source"]["maxPages"], site["source"]["maxDepth"]) == ("site", 7, 5)
    assert (site["source"]["include"], site["source"]["render"]) == (["/docs/*", "/guide/*"], "always")
    page.goto(f"{ui_url}/b/{base}?add=url")
    dialog.get_by_label("URLs").fill("http://127.0.0.1:9/emmer\nhtp://oops")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("htp://oops")
    expect(dialog.get_by_label("URLs")).to_have_value("htp://oops")  # or the other would be added again
    page.goto(f"{ui_url}/b/{base}?add=note")
    dialog.get_by_label("Title").fill("Emmer")
    text = dialog.get_by_label("Text")
    text.fill("Emmer is an old wheat.")
    text.hover(position={"x": 60, "y": 20})
    page.mouse.down()
    page.mouse.move(2, 2)  # selects the words before; a click beside the dialog would close it
    page.mouse.up()
    expect(text).to_have_value("Emmer is an old wheat.")
    sent: list[Route] = []
    page.route("**/items", lambda route: sent.append(route))
    with page.expect_request("**/items"):
        dialog.get_by_role("button", name="Add", exact=True).click()
    dialog.get_by_role("button", name="Add", exact=True).click()  # the server takes its time
    expect(dialog).to_be_visible()
    sent[0].continue_()
    expect(dialog).to_have_count(0)
    assert len(sent) == 1
    expect(page.get_by_role("row", name=re.compile("Emmer"))).to_contain_text("Indexed")


def test_a_base_keeps_its_chunk_size_unless_it_is_changed_and_can_accept_documents_without_text(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """A model that takes less than the default chunk size refuses no form in which nobody touched it."""
    base = api.create_base("Scans")
    lowest = {"settings": {"minScore": 0.42}}  # a program has set it; the form takes it as it is
    assert api.http.patch(f"/api/knowledge-bases/{base}", json=lowest).is_success

    def save() -> dict[str, Any]:
        with (
            page.expect_response(lambda response: response.request.method == "PATCH") as saved,
            page.expect_response(
                lambda response: response.request.method == "GET" and response.url.endswith(base)
            ) as shown,  # from then on the form shows what was saved
        ):
            page.get_by_role("button", name="Save").click()
        assert saved.value.ok, saved.value.text()
        return shown.value.json()

    page.goto(f"{ui_url}/b/{base}/settings")
    page.get_by_label("Documents without text").select_option("Complete with a warning")
    saved = save()
    assert (saved["chunking"], saved["settings"]["emptyDocuments"]) == ({}, "warn")
    assert saved["settings"]["minScore"] == 0.42
    assert saved["settings"]["render"] == "never"
    page.get_by_label("Pages made by scripts").select_option("Render those with hardly any text")
    assert save()["settings"]["render"] == "auto"
    page.get_by_label("Synonyms").fill("mill, grinder\n\nalone\n电脑、计算机")
    assert save()["settings"]["synonyms"] == [["mill", "grinder"], ["电脑", "计算机"]]
    size = page.get_by_label("Maximum chunk size, in tokens")
    for text, chunking in (("128", {"maxTokens": 128}), ("", {})):
        size.fill(text)
        assert save()["chunking"] == chunking
        expect(page.get_by_role("button", name="Save")).to_be_focused()
    expect(page.get_by_label("Documents without text")).to_have_value("warn")


def test_what_people_search_for_is_kept_shown_and_deleted_if_the_owner_wants_it(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base("Asked")
    api.add_notes(base, "The miller dresses the stones.")
    page.goto(f"{ui_url}/b/{base}/settings")
    asked = page.get_by_role("region", name="What people searched for")
    expect(page.get_by_label("Keep what people search for")).not_to_be_checked()
    expect(asked).to_have_count(0)
    page.get_by_label("Keep what people search for").check()
    page.get_by_role("button", name="Save").click()
    expect(asked).to_contain_text("No one has searched this base yet.")
    for query in ("who dresses stones?", "Who dresses stones?", *(f"stone {n}" for n in range(22))):
        api.http.post(f"/api/knowledge-bases/{base}/search", json={"query": query, "mode": "text"})
    page.reload()
    expect(asked.get_by_role("row")).to_have_count(21)
    asked.get_by_role("button", name="More").click()
    last = asked.get_by_role("row").last
    expect(last).to_contain_text("who dresses stones?")
    expect(last.get_by_role("cell").nth(1)).to_have_text("2")
    assert violations(page) == []
    last.get_by_role("link").click()
    expect(page.locator(".hit").first).to_contain_text("The miller dresses the stones.")
    page.goto(f"{ui_url}/b/{base}/settings")
    asked.get_by_role("button", name="Delete all").click()
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.get_by_role("dialog").get_by_role("button", name="Delete all").click()
    expect(asked).to_contain_text("No one has searched this base yet.")
    questions = api.http.get(f"/api/knowledge-bases/{base}/questions").json()["items"]
    assert questions == []


def test_a_long_name_hides_no_figure_of_the_sidebar(page: Page, ui_url: str, api: ApiHelper) -> None:
    """Nor the last word of the settings' heading."""
    base = api.create_base(f"Long {'x' * 180}")
    page.goto(f"{ui_url}/b/{base}/settings")
    link = page.locator(".side .bases a").filter(has_text="Long x")
    side, count = page.locator(".side"), link.locator(".count")
    expect(count).to_have_text("0")
    right = "element => element.getBoundingClientRect().right"
    assert count.evaluate(right) < side.evaluate(right)
    expect(page.locator(".crumbs > :last-child")).to_have_css("flex-shrink", "0")
    api.http.delete(f"/api/knowledge-bases/{base}")


def test_a_base_is_renamed_and_deleted_after_its_name_was_typed(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base("Short-lived")
    page.goto(f"{ui_url}/b/{base}/settings")
    page.get_by_label("Name", exact=True).fill("Soon gone")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Soon gone").first).to_be_visible()
    page.get_by_role("button", name="Delete base").click()
    dialog = page.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name="Delete base")
    expect(confirm).to_be_disabled()
    dialog.get_by_role("textbox").fill("soon gone")
    page.keyboard.press("Enter")
    expect(confirm).to_be_disabled()  # for another word nothing is deleted, and the dialog stays
    dialog.get_by_role("textbox").fill("Soon gone")
    confirm.click()
    expect(page).to_have_url(f"{ui_url}/")
    expect(page.get_by_role("link", name="Soon gone")).to_have_count(0)


def test_the_palette_goes_to_a_base_by_its_name(
    page: Page, ui_url: str, filled_base: tuple[str, str]
) -> None:
    base, _ = filled_base
    page.goto(ui_url)
    expect(page.get_by_role("link", name=re.compile("Filled")).first).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("Fill")
    composing = {"key": "Enter", "isComposing": True}  # chooses a Chinese word
    page.get_by_role("combobox").dispatch_event("keydown", composing)
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/b/{base}"))
    page.get_by_role("button", name="Go to …").click()  # the sidebar hints at both keys
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")


def test_what_is_typed_while_the_palette_loads_is_not_lost(
    page: Page, ui_url: str, filled_base: tuple[str, str]
) -> None:
    base, _ = filled_base
    requests: list[Route] = []
    page.route(re.compile(r"/palette\.js"), lambda route: requests.append(route))
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row").first).to_be_visible()
    with page.expect_request(re.compile(r"/palette\.js")):
        page.keyboard.press("Control+k")
    page.keyboard.type("Filla")  # `a` alone would add content
    page.keyboard.press("Backspace")
    requests[0].continue_()
    expect(page.get_by_role("combobox")).to_have_value("Fill")
    expect(page.get_by_role("option", name=re.compile("Filled")).first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_phone_shows_either_items_or_search(
    browser: Browser, ui_url: str, filled_base: tuple[str, str]
) -> None:
    base, _ = filled_base
    with profile(browser, PHONE) as tabs:
        page = tabs.open(f"{ui_url}/b/{base}")
        row = page.get_by_role("row", name=re.compile("Dressing"))
        expect(row).to_be_visible()
        page.get_by_role("group", name="View").get_by_role("button", name="Search").click()
        expect(row).not_to_be_visible()
        page.get_by_role("searchbox", name="Search this base").fill("stones")
        expect(page.locator(".hit").first).to_be_visible()
        page.get_by_role("group", name="View").get_by_role("button", name="Items").click()
        expect(row).to_be_visible()
        assert violations(page) == []
        assert tabs.errors == []


def test_a_chinese_browser_gets_chinese_pages(
    browser: Browser, ui_url: str, filled_base: tuple[str, str]
) -> None:
    base, _ = filled_base
    with profile(browser, language="zh-CN") as tabs:
        page = tabs.open(f"{ui_url}/b/{base}")
        expect(page.get_by_role("button", name="添加内容").first).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("Dressing"))).to_contain_text("已索引")


def test_what_the_server_says_of_fields_and_items_is_chinese_too(
    browser: Browser, ui_url: str, ui_setup: ServerSetup, api: ApiHelper
) -> None:
    """Of a field of a form, of one of several addresses, and of items that are being processed."""
    base = api.create_base("磨坊")
    with profile(browser, language="zh-CN") as tabs:
        page = tabs.open(f"{ui_url}/settings/people")
        dialog, error = page.get_by_role("dialog"), page.get_by_role("alert")
        page.get_by_role("button", name="新建用户").click()
        dialog.get_by_label("邮箱地址").fill("ann@example.org")
        dialog.get_by_label("密码").fill("short")
        dialog.get_by_role("button", name="创建").click()
        expect(error).to_have_text("须为 10 到 1000 个字符。")
        page.goto(f"{ui_url}/b/{base}?add=url")
        dialog.get_by_label("网址").fill("http://127.0.0.1:9/\nhtp://oops")
        dialog.get_by_role("button", name="添加", exact=True).click()
        expect(error).to_have_text("htp://oops: 不是有效的 http 或 https 地址。")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(page.get_by_role("row", name=re.compile("127.0.0.1:9"))).to_be_visible()
        page.get_by_role("treegrid").press("Home")
        page.get_by_role("treegrid").press("F2")
        dialog.get_by_label("标题").fill("x" * 501)
        dialog.get_by_role("button", name="重命名").click()
        expect(error).to_have_text("请求有误，请更正：title 最多 500 个字符。")
        page.keyboard.press("Escape")
        with hold_embedding(ui_setup.embedder):
            api.add_notes(base, f"Millet waits {HELD_MARKER}")
            row = page.get_by_role("row", name=re.compile("Millet waits"))
            expect(row).to_contain_text("向量化")
            row.hover()
            row.get_by_role("button", name="重建索引").click()
            expect(dialog.get_by_role("listitem")).to_have_text(re.compile(r"Millet waits[\s\S]*向量化\s*$"))
        assert tabs.errors == []
