"""The first day of a newcomer with the sample base, and a day of someone who may only read; by the keyboard alone and on a phone, each
in one language, and with THOROUGH=1 in both."""

import re
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, expect

from tests.thorough import IS_THOROUGH
from tests.ui.harness import PHONE, WIDE, ApiHelper, profile, server_with_model
from tests.ui.test_operator_day import Operator
from tests.ui.test_roles import sign_in

pytestmark = pytest.mark.browser

_ALL = [("keyboard", "zh-CN"), ("phone", "en-US"), ("keyboard", "en-US"), ("phone", "zh-CN")]
_WAYS = pytest.mark.parametrize(("way", "language"), _ALL if IS_THOROUGH else _ALL[:2])


def ask(person: Operator, place: str, question: str) -> None:
    """Ask a question in a search field."""
    field = person.page.get_by_role("searchbox", name=person.word(place))
    expect(field).to_be_visible()
    if person.is_by_keyboard:
        person.page.keyboard.press("/")
        expect(field).to_be_focused()
        person.page.keyboard.insert_text(question)
        person.page.keyboard.press("Control+Enter")
    else:
        field.fill(question)
        person.button("Ask").click()


@_WAYS
def test_the_first_day_of_a_newcomer(
    browser: Browser, server_url: str, cache_dir: Path, way: str, language: str
) -> None:
    """An empty installation: the sample base, a question, its answer, the passage that it cites, and the way back."""
    with server_with_model(server_url, cache_dir) as (url, chat):
        chat.reply = lambda _: ["Dull stones rub hard [1]."]
        with profile(browser, WIDE if way == "keyboard" else PHONE, language=language) as tabs:
            person = Operator(tabs.context.new_page(), url, way == "keyboard", language)
            page = person.page
            person.open("/")
            expect(person.button("Try the sample base")).to_be_visible()
            person.check()
            person.press(person.button("Try the sample base"))
            indexed = page.get_by_role("row").filter(has_text=person.word("Indexed"))
            expect(indexed).to_have_count(8)
            person.check()

            if way == "phone":
                page.get_by_role("button", name=person.word("Search"), exact=True).first.click()
            ask(person, "Search this base", "why do dull stones rub the flour?")
            answer = page.get_by_role("region", name=person.word("Answer"), exact=True)
            expect(answer.locator(".answer-text")).to_contain_text("Dull stones rub hard")
            person.check()
            person.press(answer.get_by_role("list", name=person.word("Sources")).get_by_role("link").first)
            expect(page).to_have_url(re.compile(r"/i/[^/]+/read\?"))
            expect(page.locator("main mark").first).to_be_visible()
            person.check()
            page.go_back()
            expect(answer.locator(".answer-text")).to_contain_text("Dull stones rub hard")
            assert tabs.errors == []


@_WAYS
def test_a_day_of_a_reader(browser: Browser, ui_url: str, api: ApiHelper, way: str, language: str) -> None:
    """Someone who may only read finds, reads, goes to the next hit, and keeps the search."""
    word = f"tern{uuid4().hex[:6]}"
    base = api.create_base(f"Birds {word}", acl=["org:*"])
    api.add_notes(base, f"# One\n\nThe {word} nests on shingle.", f"# Two\n\nA {word} dives for sand eels.")
    api.wait_until_indexed(base)
    size = WIDE if way == "keyboard" else PHONE
    with sign_in(browser, ui_url, api, "reader", size, language) as (tabs, rejected_requests):
        person = Operator(tabs.context.new_page(), ui_url, way == "keyboard", language)
        page = person.page
        person.open("/")
        expect(page.get_by_role("link", name=re.compile(word)).first).to_be_visible()
        person.check()
        person.open(f"/b/{base}")
        expect(page.get_by_role("row").filter(has_text=person.word("Indexed"))).to_have_count(2)
        person.check()

        person.open(f"/search?q={word}&mode=text")
        hits = page.locator(".hit")
        expect(hits).to_have_count(2)
        person.check()
        person.press(hits.first.get_by_role("link"))
        expect(page.locator("main mark").first).to_have_text(word)
        first = page.url
        person.press(person.button("Next hit"))
        expect(page).not_to_have_url(first)
        expect(page.locator("main mark").first).to_have_text(word)
        person.check()

        person.open(f"/search?q={word}&mode=text")
        expect(hits).to_have_count(2)
        person.open_dialog("Save search")
        person.confirm("Save")
        expect(page.get_by_role("dialog")).to_have_count(0)
        person.open("/search")
        if way == "phone":
            person.press(person.button("Filters"))
        saved = page.get_by_role("list", name=person.word("Saved searches"))
        person.press(saved.get_by_role("link", name=word))
        expect(page).to_have_url(re.compile(f"q={word}"))
        expect(hits).to_have_count(2)
        for path in ("/connect", "/settings/general", "/settings/models", "/queue"):
            person.open(path)
            expect(page.get_by_role("heading").first).to_be_visible()
            person.check()
        assert rejected_requests == []
