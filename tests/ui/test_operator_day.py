"""A day of an operator: connectors, queue, events, webhooks, keys, models, limits, settings of a base; by the keyboard alone and on a
phone, each in one language, and with THOROUGH=1 in both."""

import re
from collections.abc import Generator
from dataclasses import dataclass
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.thorough import IS_THOROUGH
from tests.ui.harness import PHONE, WIDE, ApiHelper, profile, violations
from tests.ui.test_every_page import chinese
from tests.ui.test_keyboard_and_phone import press, tab_to, type_into

pytestmark = pytest.mark.browser

_ALL = [("keyboard", "en-US"), ("phone", "zh-CN"), ("keyboard", "zh-CN"), ("phone", "en-US")]


@dataclass(frozen=True)
class Operator:
    """A person who uses the pages with the keyboard alone, or with a finger on a phone, in a language."""

    page: Page
    url: str
    is_by_keyboard: bool
    language: str

    def word(self, text: str, **values: str) -> str:
        """A label in the language of the pages."""
        label = text if self.language == "en-US" else chinese(text)
        for name, value in values.items():
            label = label.replace(f"{{{name}}}", value)
        return label

    def open(self, path: str) -> None:
        """Go to a page by its address."""
        self.page.goto(self.url + path)

    def button(self, label: str, within: Page | Locator | None = None, **values: str) -> Locator:
        """A button by its label."""
        place = within or self.page
        return place.get_by_role("button", name=self.word(label, **values), exact=True).first

    def field(self, label: str) -> Locator:
        """A field of the dialog or of the page."""
        dialog = self.page.locator("dialog[open]")
        place = dialog if dialog.count() else self.page.locator("main")
        return place.get_by_label(
            re.compile(rf"^\s*{re.escape(self.word(label))}")
        ).first  # hints follow some labels

    def press(self, target: Locator) -> None:
        """Press a button or a link."""
        if self.is_by_keyboard:
            press(self.page, target)
        else:
            target.click()

    def open_dialog(self, label: str) -> None:
        """Press a button that opens a dialog."""
        self.press(self.button(label))
        expect(self.page.get_by_role("dialog")).to_be_visible()

    def type(self, label: str, text: str) -> None:
        """Fill in an empty field."""
        if self.is_by_keyboard:
            type_into(self.page, self.field(label), text)
        else:
            self.field(label).fill(text)

    def tick(self, box: Locator) -> None:
        """Tick a box."""
        if self.is_by_keyboard:
            tab_to(self.page, box)
            self.page.keyboard.press("Space")
        else:
            box.check()
        expect(box).to_be_checked()

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a list by its text."""
        field = self.field(label)
        expect(field.locator("option").filter(has_text=option).first).to_be_attached()  # some come later
        if not self.is_by_keyboard:
            field.select_option(label=option)
        else:
            tab_to(self.page, field)
            self.page.keyboard.press("Home")
            for _ in range(field.locator("option").count()):
                if field.evaluate("list => list.selectedOptions[0].text.trim()") == option:
                    break
                self.page.keyboard.press("ArrowDown")
        assert field.evaluate("list => list.selectedOptions[0].text.trim()") == option

    def choose_from_menu(self, opener: Locator, label: str) -> None:
        """Open a menu and choose an entry."""
        self.press(opener)
        entry = self.page.get_by_role("menuitem", name=self.word(label), exact=True)
        expect(entry).to_be_visible()
        if self.is_by_keyboard:
            while not entry.evaluate("entry => entry === document.activeElement"):
                self.page.keyboard.press("ArrowDown")
            self.page.keyboard.press("Enter")
        else:
            entry.click()

    def confirm(self, label: str) -> None:
        """Press the button of the open dialog, once axe finds nothing in it."""
        self.check()
        self.press(self.button(label, self.page.get_by_role("dialog")))

    def check(self) -> None:
        """axe finds nothing in what is shown, and it is no wider than the window."""
        assert violations(self.page) == []
        size = self.page.viewport_size
        assert size is not None
        assert self.page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.fixture
def name(api: ApiHelper) -> Generator[str]:
    """A name for what the story makes. It is removed afterwards: other tests use the server too."""
    name = f"day{uuid4().hex[:6]}"
    yield name
    for path, label in (
        ("connectors", "name"),
        ("knowledge-bases", "name"),
        ("api-keys", "name"),
        ("webhooks", "url"),
    ):
        for entry in api.http.get(f"/api/{path}", params={"limit": 200}).json()["items"]:
            if name in entry[label]:
                api.http.delete(f"/api/{path}/{entry['id']}")


@pytest.mark.parametrize(("way", "language"), _ALL if IS_THOROUGH else _ALL[:2])
def test_a_day_of_an_operator(
    browser: Browser, ui_url: str, api: ApiHelper, name: str, way: str, language: str
) -> None:
    """Everything that an operator does can be done, and axe finds nothing in what opens."""
    base = api.create_base(name)
    api.add_notes(base, "Rye " + " ".join(f"stone {number} turns." for number in range(60)))
    # Bytes of its own: an equal file of another test may be deleted in the same moment.
    unreadable = (f"{name}.bin", bytes([0, 1, 2, 255, 9]) * 50 + name.encode())
    response = api.http.post(f"/api/knowledge-bases/{base}/files", files=[("files", unreadable)])
    assert response.status_code == 202, response.text
    with profile(browser, WIDE if way == "keyboard" else PHONE, language=language) as tabs:
        operator = Operator(tabs.context.new_page(), ui_url, way == "keyboard", language)
        retry_and_dismiss_a_dead_job(operator, name)
        look_at_the_problems(operator, base, name)
        connect_a_tool(operator, name)
        create_and_delete_a_webhook(operator, name)
        create_and_revoke_a_key(operator, name)
        try_a_model(operator)
        set_a_limit(operator, name)
        change_the_settings_of_the_base(operator, base, api)
        assert tabs.errors == []


def retry_and_dismiss_a_dead_job(operator: Operator, name: str) -> None:
    """The queue: a lane is paused and resumed; a dead job is retried, dies again, and is dismissed."""
    operator.open("/queue")
    lane = operator.page.get_by_role("list", name=operator.word("Lanes")).get_by_role("listitem")
    lane = lane.filter(has_text=name)
    operator.press(operator.button("Pause", lane))
    expect(operator.button("Resume", lane)).to_be_visible()
    operator.press(operator.button("Resume", lane))
    expect(operator.button("Pause", lane)).to_be_visible()
    jobs = operator.page.get_by_role("list", name=operator.word("Dead jobs"))
    job = jobs.get_by_role("listitem").filter(has_text=f"{name}.bin")
    expect(job).to_be_visible()
    operator.check()
    with operator.page.expect_response(re.compile("/retry")):
        operator.press(job.get_by_role("button", name=operator.word("Retry")).first)
    expect(job).to_be_visible()  # it died again
    operator.press(operator.button("Dismiss {name}", job, name=f"{name}.bin"))
    expect(job).to_have_count(0)


def look_at_the_problems(operator: Operator, base: str, name: str) -> None:
    """Events: what failed is shown among the rest, and alone."""
    operator.open(f"/events?base={base}")
    problem = operator.page.locator(".event.problem").filter(has_text=f"{name}.bin")
    expect(problem.first).to_be_visible()
    operator.check()
    operator.press(operator.page.locator("main button").filter(has_text=re.compile("problem|个问题")).first)
    expect(operator.page).to_have_url(re.compile("kind=problems"))
    expect(problem.first).to_be_visible()


def connect_a_tool(operator: Operator, name: str) -> None:
    """A connector whose tool can't be reached: the form says so, it is created anyway, and its run has a log."""
    operator.open("/connectors")
    operator.open_dialog("New connector")
    operator.type("Name", f"tool {name}")
    operator.type("Token", "secret")
    operator.type("Base URL", "http://127.0.0.1:9")
    dialog = operator.page.get_by_role("dialog")
    operator.tick(dialog.get_by_label(name, exact=True))
    operator.choose("Who can see it", operator.word("Certain people and groups"))
    operator.type("People and groups", "ann@example.org")
    operator.confirm("Create")
    operator.press(operator.button("Create anyway", dialog))
    pane = operator.page.get_by_role("complementary", name=f"tool {name}")
    expect(pane.locator("dl")).to_contain_text("ann@example.org")
    operator.check()
    operator.press(operator.button("Sync now", pane))
    expect(operator.page).to_have_url(re.compile("/runs/"))
    summary = "0 read, 0 new or changed" if operator.language == "en-US" else "读取 0 个，新增或更改 0 个"
    expect(pane.get_by_role("log")).to_contain_text(summary)
    operator.check()
    operator.choose_from_menu(operator.button("More for this connector", pane), "Delete")
    operator.confirm("Delete documents too")
    expect(operator.page.get_by_role("link", name=f"tool {name}")).to_have_count(0)


def create_and_delete_a_webhook(operator: Operator, name: str) -> None:
    """A webhook: its secret is shown once, a test fails in words, and it is deleted."""
    operator.open("/events/webhooks")
    operator.open_dialog("New webhook")
    operator.type("URL", f"http://127.0.0.1:9/{name}")
    operator.confirm("Create")
    expect(operator.page.locator("dialog .secret")).to_contain_text("whsec_")
    operator.confirm("Done")
    pane = operator.page.get_by_role("complementary")
    operator.press(operator.button("Test", pane))
    expect(operator.page.locator(".toast.bad").first).to_be_visible()
    operator.choose_from_menu(operator.button("More for this webhook", pane), "Delete")
    operator.confirm("Delete")
    expect(operator.page.get_by_role("link", name=f"127.0.0.1:9/{name}")).to_have_count(0)


def create_and_revoke_a_key(operator: Operator, name: str) -> None:
    """A key: shown once, listed, revoked."""
    operator.open("/settings/keys")
    operator.open_dialog("New key")
    operator.type("Name", f"key {name}")
    operator.choose("Role", operator.word("editor"))
    operator.confirm("Create")
    expect(operator.page.locator("dialog .secret")).to_contain_text("gm_")
    operator.confirm("Done")
    row = operator.page.get_by_role("listitem").filter(has_text=f"key {name}")
    operator.press(operator.button("Revoke {name}", row, name=f"key {name}"))
    operator.confirm("Revoke")
    expect(row).to_have_count(0)


def try_a_model(operator: Operator) -> None:
    """An embedder makes a vector; the form of a new one opens and closes."""
    operator.open("/settings/models")
    row = operator.page.get_by_role("listitem").filter(has_text="quick")
    operator.press(operator.button("Test", row))
    expect(row.get_by_role("status")).to_contain_text(re.compile("Works|可用|正常"))
    operator.open_dialog("New embedder")
    operator.check()
    operator.press(operator.button("Cancel", operator.page.get_by_role("dialog")))
    expect(operator.page.get_by_role("dialog")).to_have_count(0)


def set_a_limit(operator: Operator, name: str) -> None:
    """A budget of the base is set and removed."""
    operator.open("/settings/usage")
    operator.open_dialog("Set a limit")
    operator.type("At most", "100000")
    operator.choose("Base", name)
    operator.confirm("Set")
    limits = operator.page.get_by_role("list", name=operator.word("Budgets and quotas"))
    row = limits.get_by_role("listitem").filter(has_text=name)
    operator.press(row.get_by_role("button").last)
    operator.confirm("Remove")
    expect(row).to_have_count(0)


def change_the_settings_of_the_base(operator: Operator, base: str, api: ApiHelper) -> None:
    """The settings: a smaller chunk size is previewed and saved, and the base is shared."""
    operator.open(f"/b/{base}/settings")
    operator.type("Maximum chunk size, in tokens", "32")
    operator.open_dialog("Preview")
    preview = operator.page.get_by_role("dialog", name=operator.word("Preview of chunking"))
    expect(preview.locator(".chunk").nth(2)).to_be_visible()
    operator.confirm("Close")
    operator.press(operator.button("Save"))
    expect(operator.page.get_by_text(operator.word("Saved")).first).to_be_visible()
    operator.type("Person or group", "ann@x.org")
    operator.press(operator.button("Share"))
    stop = operator.button("Stop sharing with {name}", name="ann@x.org")
    expect(stop).to_be_visible()
    operator.check()
    operator.press(stop)
    expect(stop).to_have_count(0)
    shown = api.http.get(f"/api/knowledge-bases/{base}").json()
    assert (shown["chunking"]["maxTokens"], shown["acl"]) == (32, [])
