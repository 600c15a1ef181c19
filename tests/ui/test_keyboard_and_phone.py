"""One day with Gristmill, from a new base to the pages of its operator: by the keyboard alone in Chinese, and on a phone in English."""

import re
from collections.abc import Generator
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.harness import PHONE, ApiHelper, profile, violations

# More than any page here has controls, with the dead jobs that other tests have left in the queue.
MAX_TABS = 400


@pytest.fixture
def name(api: ApiHelper) -> Generator[str]:
    """A name for the base, the key and the person of a story. They are removed afterwards: other tests use the server too."""
    name = f"day{uuid4().hex[:6]}"
    yield name
    for path, label in (("knowledge-bases", "name"), ("users", "email"), ("api-keys", "name")):
        for found in api.http.get(f"/api/{path}", params={"limit": 200}).json()["items"]:
            if name in found[label]:
                assert api.http.delete(f"/api/{path}/{found['id']}").status_code < 300


def tab_to(page: Page, target: Locator) -> None:
    """Press the Tab key until a control has the focus."""
    expect(target).to_be_visible()
    for _ in range(MAX_TABS):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the Tab key doesn't reach {target}")


def press(page: Page, target: Locator) -> None:
    """Go to a control by the Tab key, and press Enter."""
    tab_to(page, target)
    page.keyboard.press("Enter")


def type_into(page: Page, field: Locator, text: str) -> None:
    """Go to a field by the Tab key, and type."""
    tab_to(page, field)
    page.keyboard.insert_text(text)


def go_to_page(page: Page, label: str) -> None:
    """Go to a page by the palette."""
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="前往知识库或页面，或搜索全部")).to_be_focused()
    page.keyboard.insert_text(label)
    expect(page.get_by_role("option", name=label).first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_day_by_the_keyboard_alone_in_chinese(browser: Browser, ui_url: str, name: str) -> None:
    """A base is created, filled, searched, read, asked, connected; a person is added; every page of the operator is visited."""
    with profile(browser, language="zh-CN") as tabs:
        page = tabs.open(ui_url)
        press(page, page.get_by_role("button", name="新建知识库").first)
        dialog = page.get_by_role("dialog", name="新建知识库")
        type_into(page, dialog.get_by_label("名称"), name)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("/b/"))
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        base = page.url

        page.keyboard.press("a")
        dialog = page.get_by_role("dialog", name="添加内容")
        press(page, dialog.get_by_role("button", name="笔记"))
        type_into(page, dialog.get_by_label("正文"), f"# 苍鹭\n\n苍鹭 {name} 站在水车旁。")
        press(page, dialog.get_by_role("button", name="添加", exact=True))
        expect(page.get_by_role("row").filter(has_text="苍鹭")).to_contain_text("已索引")

        page.keyboard.press("/")
        expect(page.get_by_role("searchbox", name="搜索此知识库")).to_be_focused()
        page.keyboard.insert_text(name)
        expect(page.locator(".hit")).to_have_count(1)
        page.keyboard.press("ArrowDown")
        expect(page.locator(".hit").get_by_role("link")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator(".passage").filter(has_text="站在水车旁")).to_be_visible()
        expect(page.locator("#main")).to_be_focused()  # the new page has taken the focus
        press(page, page.get_by_role("button", name="返回搜索"))
        press(page, page.get_by_role("button", name="提问", exact=True))
        expect(page.get_by_role("region", name="回答")).to_contain_text("这里还不能回答问题")

        press(page, page.get_by_role("button", name="接入"))
        expect(page).to_have_url(re.compile("/connect"))
        press(page, page.get_by_role("button", name="创建密钥"))
        expect(page.locator(".new-key .secret")).to_contain_text("gm_")
        press(page, page.get_by_role("button", name="测试"))
        expect(page.get_by_text("可以使用").first).to_be_visible()

        go_to_page(page, "设置")
        sections = page.get_by_role("navigation", name="设置")
        press(page, sections.get_by_role("link", name="人员"))
        press(page, page.get_by_role("button", name="新建用户"))
        dialog = page.get_by_role("dialog", name="新建用户")
        type_into(page, dialog.get_by_label("邮箱地址"), f"{name}@example.org")
        page.keyboard.press("Enter")
        expect(page.get_by_role("list", name="用户")).to_contain_text(name)
        for section in sections.get_by_role("link").all_inner_texts():
            press(page, sections.get_by_role("link", name=section, exact=True))
            expect(sections.get_by_role("link", name=section, exact=True)).to_have_attribute(
                "aria-current", "page"
            )
        for label, heading in (("队列", "队列"), ("事件", "事件"), ("连接器", "连接器"), ("搜索", "搜索")):
            go_to_page(page, label)
            expect(page.get_by_role("heading", name=heading, exact=True).first).to_be_visible()

        go_to_page(page, name)
        expect(page).to_have_url(base)
        row = page.get_by_role("row").filter(has_text="苍鹭")
        expect(row).to_be_visible()
        tab_to(page, page.get_by_role("treegrid"))
        page.keyboard.press("Home")
        page.keyboard.press("Delete")
        press(page, page.get_by_role("dialog").get_by_role("button", name="删除"))
        expect(row).to_have_count(0)
        assert tabs.errors == []


def test_a_day_on_a_phone(browser: Browser, ui_url: str, name: str) -> None:
    """The same day: everything can be reached, no page is wider than the phone, and axe finds nothing in what opens."""

    def check(page: Page) -> None:
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]

    with profile(browser, PHONE) as tabs:
        page = tabs.open(ui_url)
        page.get_by_role("button", name="New base").first.click()
        dialog = page.get_by_role("dialog", name="New base")
        assert violations(page) == []
        dialog.get_by_label("Name").fill(name)
        dialog.get_by_role("button", name="Create").click()
        expect(page).to_have_url(re.compile("/b/"))
        page.get_by_role("button", name="Add content").first.click()
        dialog = page.get_by_role("dialog", name="Add content")
        dialog.get_by_role("button", name="Note").click()
        dialog.get_by_label("Text").fill(f"# Heron\n\nA heron {name} stands by the wheel.")
        check(page)
        assert violations(page) == []
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_role("row").filter(has_text="Heron")).to_contain_text("Indexed")
        check(page)

        page.get_by_role("button", name="Search", exact=True).click()
        page.get_by_role("searchbox", name="Search this base").fill(name)
        expect(page.locator(".hit")).to_have_count(1)
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.get_by_role("region", name="Answer")).to_contain_text("No answers here yet")
        check(page)
        page.locator(".hit").get_by_role("link").click()
        expect(page.locator(".passage").filter(has_text="stands by the wheel")).to_be_visible()
        check(page)
        page.get_by_role("button", name="Back to search").click()
        page.get_by_role("button", name="Connect", exact=True).click()
        page.get_by_role("button", name="Create key").click()
        expect(page.locator(".new-key .secret")).to_contain_text("gm_")
        check(page)

        pages = page.get_by_role("navigation", name="Pages")
        for label in ("Queue", "Events", "Connectors", "Settings"):
            pages.get_by_role("link", name=label, exact=True).click()
            expect(page.get_by_role("heading", name=label, exact=True).first).to_be_visible()
            check(page)
        sections = page.get_by_role("navigation", name="Settings")
        for section in sections.get_by_role("link").all_inner_texts():
            sections.get_by_role("link", name=section, exact=True).click()
            expect(sections.get_by_role("link", name=section, exact=True)).to_have_attribute(
                "aria-current", "page"
            )
            check(page)
        sections.get_by_role("link", name="People").click()
        page.get_by_role("button", name="New user").click()
        dialog = page.get_by_role("dialog", name="New user")
        dialog.get_by_label("Email address").fill(f"{name}@example.org")
        check(page)
        assert violations(page) == []
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("list", name="Users")).to_contain_text(name)
        check(page)
        assert tabs.errors == []


def test_a_phone_has_what_a_desk_has(browser: Browser, ui_url: str, api: ApiHelper, name: str) -> None:
    """The boxes of rows without a pointer that hovers, the filter by name, the way out of a base's settings, the chosen tab."""
    base = api.create_base(name)
    api.add_notes(base, "Rye", "Oats")
    with profile(browser, PHONE, touch=True) as tabs:
        page = tabs.open(f"{ui_url}/b/{base}")
        box = page.get_by_role("checkbox", name="Select Rye")
        expect(box).to_have_css("opacity", "1")
        title = page.get_by_role("row").filter(has_text="Rye").locator(".icon.type").bounding_box()
        place = box.bounding_box()
        assert title is not None
        assert place is not None
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= title["x"]
        box.click()
        expect(page.get_by_text("1 selected")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        page.get_by_role("button", name="Clear selection").click()
        page.get_by_role("searchbox", name="Filter by name").fill("oat")
        expect(page.get_by_role("row").filter(has_text="Rye")).to_have_count(0)
        expect(page.get_by_role("row").filter(has_text="Oats")).to_be_visible()
        assert violations(page) == []

        page.goto(f"{ui_url}/b/{base}/settings")
        headings = page.locator("legend").all_inner_texts
        expect(page.get_by_text("Legal hold").first).to_be_visible()
        expect(page.get_by_text("Danger zone")).to_be_visible()
        assert headings()[-1] == "Danger zone"
        page.get_by_role("heading", level=1).get_by_role("link", name=name).click()
        expect(page).to_have_url(f"{ui_url}/b/{base}")

        page.goto(f"{ui_url}/settings/audit")
        link = page.get_by_role("navigation", name="Settings").get_by_role("link", name="Audit log")
        expect(link).to_be_in_viewport(ratio=1)
        assert tabs.errors == []
