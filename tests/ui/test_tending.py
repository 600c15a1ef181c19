"""Changing items in the browser: rename, edit, tag, sort, move, select many, and undo a deletion."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.harness import PHONE, ApiHelper, profile, violations
from tests.wait_until import wait_without_loop

pytestmark = [pytest.mark.browser]


def wait_for_items(api: ApiHelper, base: str, is_reached: Callable[[list[dict[str, object]]], bool]) -> None:
    """Wait until the items of a base, roots and all below, are as expected."""

    def are_so() -> bool:
        params = {"parentId": "*", "limit": 500}
        return is_reached(api.http.get(f"/api/knowledge-bases/{base}/items", params=params).json()["items"])

    wait_without_loop(are_so)


def test_an_item_is_renamed_tagged_moved_and_edited_with_the_keyboard_alone(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """F2, t and m open the dialogs; a tag filters the list; a note's text is replaced; axe finds nothing in a dialog."""
    base, other = api.create_base("Tended"), api.create_base("Tended archive")
    api.add_notes(base, "Alpha stone", "Beta wheel")
    api.http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "folder", "title": "Shelf"}]}
    )
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile("Indexed"))).to_have_count(3)
    page.get_by_role("treegrid").focus()
    page.keyboard.press("Home")
    page.keyboard.press("F2")
    expect(page.get_by_role("dialog", name="Rename")).to_be_visible()
    page.get_by_label("Title").fill("Alpha renamed")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name=re.compile("Alpha renamed"))).to_be_visible()
    page.get_by_role("treegrid").focus()
    page.keyboard.press("t")
    page.get_by_label("Add tags").fill("draft, spring")
    page.keyboard.press("Enter")
    tag = page.get_by_role("row", name=re.compile("Alpha")).get_by_role("button", name="draft")
    tag.evaluate("button => (button.id = 'same')")
    items = api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
    (alpha,) = [item for item in items if item["title"] == "Alpha renamed"]
    api.http.patch(f"/api/knowledge-items/{alpha['id']}", json={"title": "Alpha renamed again"})
    expect(page.get_by_role("row", name=re.compile("Alpha renamed again"))).to_be_visible()
    expect(tag).to_have_id("same")  # a click on a button that is replaced would be lost
    tag.click()
    expect(page.locator(".tag-filter")).to_have_text("draft")
    expect(page.get_by_role("row", name=re.compile("Indexed"))).to_have_count(1)
    assert violations(page) == []
    page.get_by_role("button", name="Remove the filter draft").click()
    expect(page.get_by_role("row", name=re.compile("Indexed"))).to_have_count(3)
    page.get_by_role("treegrid").focus()
    page.keyboard.press("m")
    page.get_by_role("dialog", name="Move 1 item").get_by_label("Folder").select_option(label="Shelf")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(page.get_by_role("row", name=re.compile("Shelf.*1 item"))).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("Alpha"))).to_have_count(0)

    page.get_by_role("row", name=re.compile("Beta wheel")).click()
    page.locator(".item-pane .pane-head").get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Edit note").click()
    page.get_by_role("dialog", name="Edit note").get_by_label("Text").fill("Beta turns barley")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".item-pane")).to_contain_text("version 2")
    expect(page.locator(".chunk").first).to_contain_text("Beta turns barley")

    page.get_by_role("treegrid").focus()
    page.keyboard.press("m")
    page.get_by_role("dialog").get_by_label("Base").select_option(label="Tended archive")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(page.get_by_text("Moving 1 item to the other base")).to_be_visible()
    wait_for_items(api, other, lambda items: [item["title"] for item in items] == ["Beta wheel"])
    expect(page.get_by_role("row", name=re.compile("Beta wheel"))).to_have_count(0)


def test_a_deletion_is_undone_or_sent_when_the_page_is_left(page: Page, ui_url: str, api: ApiHelper) -> None:
    """The message counts down; after Undo the item is there as before, and a closed page has deleted."""
    base = api.create_base("Undone")
    api.add_notes(base, "Rye stays", "Oats go")
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile("Indexed"))).to_have_count(2)
    for title in ("Rye stays", "Oats go"):
        row = page.get_by_role("row", name=re.compile(title))
        row.hover()
        row.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
        if title == "Rye stays":
            expect(page.locator(".toast")).to_contain_text(re.compile(r"Deleted Rye stays · \d s"))
            page.get_by_role("button", name="Undo").click()
            expect(row).to_be_visible()
            expect(page.get_by_role("treegrid")).to_be_focused()
            page.keyboard.press("Home")
            page.keyboard.press("Delete")
            page.get_by_role("dialog").get_by_role("button", name="Delete").press("Enter")
            expect(row).to_have_count(0)
            page.keyboard.press("ControlOrMeta+z")  # the button is too many tabs away
            expect(row).to_be_visible()
            expect(page.locator(".toast")).to_have_count(0)
    page.goto("about:blank")
    wait_for_items(api, base, lambda items: [item["title"] for item in items] == ["Rye stays"])


def test_thousands_are_selected_sorted_and_deleted(page: Page, ui_url: str, api: ApiHelper) -> None:
    """A range over rows that were never visible, and all that a filter matches; the order of any column stays in the address."""
    base = api.create_base("Hundreds")
    notes: list[dict[str, object]] = [
        {"type": "note", "title": f"log {n:04}", "content": f"rye {n}"} for n in range(600)
    ]
    notes[300] |= {"metadata": {"tags": ["stale"]}}
    api.http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [*notes, {"type": "folder", "title": "a shelf"}]}
    )
    page.goto(f"{ui_url}/b/{base}?sort=title")
    expect(page.locator(".item-row .title > .cut").first).to_have_text("a shelf")
    page.get_by_role("button", name="Sorted by Name, ascending").click()
    expect(page.locator(".item-row .title > .cut").first).to_have_text("log 0599")
    assert "sort=-title" in page.url
    page.get_by_role("row", name=re.compile("log 0599")).click(modifiers=["ControlOrMeta"])
    page.get_by_role("treegrid").focus()
    page.keyboard.press("End")
    page.get_by_role("row", name=re.compile("log 0000")).hover()
    expect(page.get_by_role("row", name=re.compile("log 0000"))).to_be_visible()
    page.get_by_role("treegrid").press("Home")
    for _ in range(2):  # not selected any more, and again: here the range begins
        page.get_by_role("row", name=re.compile("log 0599")).click(modifiers=["ControlOrMeta"])
    page.evaluate("document.querySelector('.tree').scrollTop = 1e6")
    page.get_by_role("row", name=re.compile("log 0000")).click(modifiers=["Shift"])
    expect(page.get_by_text("600 selected")).to_be_visible()
    page.get_by_role("treegrid").focus()
    page.keyboard.press("Escape")
    for key in ("Home", "Space", "End", "Shift+Space"):  # the same by keys alone
        page.keyboard.press(key)
        active = "log 0599" if key in ("Home", "Space") else "a shelf"
        expect(page.get_by_role("row", name=re.compile(active))).to_have_class(re.compile("active"))
    expect(page.get_by_text("601 selected")).to_be_visible()
    page.goto(f"{ui_url}/b/{base}?find=log")
    expect(page.get_by_role("row", name=re.compile("log 0000"))).to_be_visible()
    page.get_by_role("treegrid").focus()
    page.keyboard.press("ControlOrMeta+a")
    expect(page.get_by_text("600 selected")).to_be_visible()
    page.keyboard.press("t")
    page.get_by_role("dialog", name="Tags").get_by_label("stale").check()  # of a row that was never visible
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Changed the tags of 1 item")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("treegrid").focus()
    page.keyboard.press("Delete")
    page.get_by_role("dialog", name="Delete 600 items?").get_by_role("button", name="Delete").click()
    page.goto("about:blank")
    wait_for_items(api, base, lambda items: [item["title"] for item in items] == ["a shelf"])


def test_everything_is_no_longer_selected_once_a_row_is_taken_out(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """Nor after Escape, nor with another filter: a deletion takes what is ticked and no more, also with rows never loaded."""
    base = api.create_base("Ticked out")
    notes = [{"type": "note", "title": f"log {n:04}", "content": f"rye {n}"} for n in range(250)]
    api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})
    page.goto(f"{ui_url}/b/{base}")
    tree, chosen = page.get_by_role("treegrid"), page.locator(".chosen b")
    expect(page.get_by_role("row", name=re.compile("log 0001"))).to_be_visible()
    tree.press("ControlOrMeta+a")
    expect(chosen).to_have_text("250 selected")
    tree.press("Escape")
    expect(chosen).to_have_count(0)
    for title in ("log 0001", "log 0002"):
        page.get_by_role("row", name=re.compile(title)).click(modifiers=["ControlOrMeta"])
    expect(chosen).to_have_text("2 selected")
    tree.press("ControlOrMeta+a")
    page.get_by_label("Filter by name").fill("log 000")
    expect(page.get_by_role("row")).to_have_count(10)
    expect(chosen).to_have_count(0)
    page.get_by_label("Filter by name").fill("")
    expect(page.get_by_role("row", name=re.compile("log 0012"))).to_be_visible()
    tree.press("ControlOrMeta+a")
    tree.press("End")
    last = page.get_by_role("checkbox", name="Select log 0249")
    expect(last).to_be_checked()  # it was loaded after everything was selected
    page.get_by_role("row", name=re.compile("log 0249")).click(modifiers=["ControlOrMeta"])
    expect(chosen).to_have_text("249 selected")
    expect(last).not_to_be_checked()
    tree.press("Delete")
    page.get_by_role("dialog", name="Delete 249 items?").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("row", name=re.compile("log 0249"))).to_be_visible()
    page.goto("about:blank")
    wait_for_items(api, base, lambda items: [item["title"] for item in items] == ["log 0249"])


def test_deletions_too_large_for_a_page_that_is_left_are_undone_too(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """The rows are gone and come back, by a range and by a filter; the browser asks before such a deletion would be lost."""
    base = api.create_base("Too many to keep")
    for start in (0, 600):
        notes = [
            {"type": "note", "title": f"log {n:04}", "content": f"rye {n}"} for n in range(start, start + 600)
        ]
        api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})
    page.goto(f"{ui_url}/b/{base}")
    tree = page.get_by_role("treegrid")
    expect(page.get_by_role("row", name=re.compile("log 0000"))).to_be_visible()
    tree.focus()
    for key, active in (("Home", "0000"), ("Space", "0000"), ("End", "1199"), ("Shift+Space", "1199")):
        page.keyboard.press(key)
        expect(page.get_by_role("row", name=f"log {active}")).to_have_class(re.compile("active"))
    for choice in ("range", "everything"):
        if choice == "everything":
            tree.press("ControlOrMeta+a")
        expect(page.get_by_text("1,200 selected")).to_be_visible()
        tree.press("Delete")
        dialog = page.get_by_role("dialog", name="Delete 1,200 items?")
        expect(dialog).to_contain_text("You can undo this")
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("row", name=re.compile("log"))).to_have_count(0)
        if choice == "range":
            with page.expect_event("dialog") as question:
                page.close(run_before_unload=True)
            assert question.value.type == "beforeunload"
            question.value.dismiss()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("row", name=re.compile("log")).first).to_be_visible()
    total = api.http.get(f"/api/knowledge-bases/{base}/tree", params={"limit": 1}).json()["total"]
    assert total == 1200


def test_items_are_tended_on_a_phone_in_chinese(browser: Browser, ui_url: str, api: ApiHelper) -> None:
    """By the menu of a row; the order is in the bar; axe finds nothing."""
    base = api.create_base("手机")
    api.add_notes(base, "磨坊的石头")
    with profile(browser, size=PHONE, language="zh-CN") as tabs:
        page = tabs.open(f"{ui_url}/b/{base}")
        row = page.get_by_role("row", name=re.compile("磨坊"))
        row.get_by_role("button", name="更多").click()
        expect(page.get_by_role("menuitem", name="重命名")).to_be_visible()
        assert violations(page) == []
        page.keyboard.press("Tab")
        expect(page.get_by_role("menu")).to_have_count(0)
        row.get_by_role("button", name="更多").click()
        page.get_by_role("menuitem", name="重命名").click()
        page.get_by_label("标题").fill("水车")
        assert violations(page) == []
        page.get_by_role("dialog").get_by_role("button", name="重命名").click()
        expect(page.get_by_role("row", name=re.compile("水车"))).to_be_visible()
        page.get_by_role("button", name="排序").click()
        page.get_by_role("menuitem", name="大小").click()
        expect(page).to_have_url(re.compile("sort=-size"))
        page.set_viewport_size({"width": 320, "height": 640})
        page.keyboard.press("?")  # longer than the page: it can be scrolled by keys
        expect(page.get_by_role("dialog", name="键盘快捷键")).to_be_visible()
        assert violations(page) == []
        assert tabs.errors == []


def test_chunks_are_marked_previewed_and_shared_with_a_group(page: Page, ui_url: str, api: ApiHelper) -> None:
    """A disabled chunk leaves the hits, a preview shows smaller chunks, and the access list of the base is edited; axe finds nothing."""
    base = api.create_base("Marked")
    (item,) = api.add_notes(base, "Rye " + " ".join(f"stone {n} turns." for n in range(60)))
    page.goto(f"{ui_url}/b/{base}/i/{item}")
    chunk = page.locator(".chunk").first
    chunk.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Disable: never answers").click()
    expect(chunk).to_contain_text("Disabled")
    expect(chunk.get_by_role("button", name="More")).to_be_focused()
    assert violations(page) == []
    hits = api.http.post(f"/api/knowledge-bases/{base}/search", json={"query": "rye"}).json()["hits"]
    assert all("Rye" not in hit["text"] for hit in hits)
    page.goto(f"{ui_url}/b/{base}/settings")
    page.get_by_label("Maximum chunk size, in tokens").fill("32")
    page.get_by_role("button", name="Preview").click()
    dialog = page.get_by_role("dialog", name="Preview of chunking")
    expect(dialog.get_by_role("status")).to_contain_text("chunks of at most 32 tokens")
    expect(dialog.locator(".chunk").nth(2)).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    for principal in ("ann@x.org", "group:millers"):
        page.get_by_label("Person or group").fill(principal)
        page.get_by_role("button", name="Share", exact=True).click()
        name = principal.removeprefix("group:")
        expect(page.get_by_role("button", name=f"Stop sharing with {name}")).to_be_visible()
    page.get_by_label("Maximum chunk size, in tokens").fill("32")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    assert api.http.get(f"/api/knowledge-bases/{base}").json()["acl"] == [
        "user_email:ann@x.org",
        "group:millers",
    ]


def test_what_is_typed_after_a_key_that_opens_a_dialog_is_the_first_field(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """Also if it is typed before the dialog is there. Nothing of it is a key of the tree, or presses a button."""
    base = api.create_base("Typed")
    api.add_notes(base, "Old millrace")
    page.goto(f"{ui_url}/b/{base}")
    row = page.get_by_role("row", name=re.compile("Old millrace"))
    expect(row).to_contain_text("Indexed")
    for key, field, text in (("F2", "Title", "New r t"), ("t", "Add tags", "wet mill")):
        page.get_by_role("treegrid").focus()
        page.keyboard.press("Home")
        page.keyboard.press(key)
        page.keyboard.press("r")  # the dialog is not open yet
        expect(page.get_by_role("dialog").get_by_label(field)).to_be_focused()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("row", name=re.compile("New r t"))).to_contain_text("wet mill")
    expect(page.get_by_text("Reindexing")).to_have_count(0)
    page.keyboard.press("m")
    expect(page.get_by_role("dialog").get_by_label("Base")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("F2")
    expect(page.get_by_label("Title")).to_be_focused()
    page.keyboard.type("Newer")
    expect(page.get_by_label("Title")).to_have_value("Newer")  # what was there is replaced
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.get_by_role("dialog").locator("input[type=file]").first).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="New folder").click()
    expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()


def test_keys_act_on_rows_that_were_selected_with_the_mouse(page: Page, ui_url: str, api: ApiHelper) -> None:
    base = api.create_base("Ticked")
    api.add_notes(base, "Rye", "Oats")
    page.goto(f"{ui_url}/b/{base}")
    for title in ("Rye", "Oats"):
        page.get_by_role("row", name=re.compile(title)).hover()
        page.get_by_role("checkbox", name=f"Select {title}").click()
        expect(page.get_by_role("checkbox", name=f"Select {title}")).to_be_checked()
    page.keyboard.press("t")
    expect(page.get_by_label("Add tags")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Delete")
    expect(page.get_by_role("dialog", name="Delete 2 items?")).to_be_visible()
    height = page.get_by_text("2 selected").evaluate("element => element.offsetHeight")
    assert height == 20, "it takes more than one line"


def test_long_names_push_no_button_out_of_sight(browser: Browser, ui_url: str, api: ApiHelper) -> None:
    """On a phone: of a dialog, of the message that undoes a deletion, and of a share."""
    base, name = api.create_base("Long names"), "x" * 180
    api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "folder", "title": name}]})
    group = api.http.post("/api/groups", json={"name": name}).json()["id"]
    share = {"principal": f"group:{name}", "role": "reader"}
    assert api.http.put(f"/api/knowledge-bases/{base}/shares", json=share).is_success
    with profile(browser, size=PHONE) as tabs:
        page = tabs.open(f"{ui_url}/b/{base}/settings")
        expect(page.get_by_role("button", name="Stop sharing")).to_be_in_viewport(ratio=1)
        expect(page.get_by_label("What xxx")).to_be_in_viewport(ratio=1)
        page.goto(f"{ui_url}/b/{base}")
        page.get_by_role("row").get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Delete").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Close")).to_be_in_viewport(ratio=1)
        dialog.get_by_role("button", name="Delete").click()
        undo = page.get_by_role("button", name="Undo")
        expect(undo).to_be_in_viewport(ratio=1)
        undo.click()
        expect(page.get_by_role("row")).to_have_count(1)
    api.http.delete(f"/api/groups/{group}")
