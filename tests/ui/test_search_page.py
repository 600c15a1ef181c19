"""Search over all bases: by the keyboard, with filters, explained, saved; on a phone in Chinese; and answers of a chat model."""

import re
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.embedding import endpoint
from tests.ui.harness import PHONE, ApiHelper, profile, server_with_model, violations

WORD = f"quern{uuid4().hex[:6]}"


@pytest.fixture
def two_bases(api: ApiHelper, page: Page, ui_url: str) -> dict[str, str]:
    """Two bases whose documents all have one word that no other test uses."""
    ids: dict[str, str] = {}
    for name, text in (("Stones", "is dressed in **spring**"), ("Grain", "is filled with rye")):
        existing = api.http.get("/api/knowledge-bases", params={"name": f"{name} {WORD}"}).json()["items"]
        if existing:
            ids[name] = existing[0]["id"]
            continue
        ids[name] = api.create_base(f"{name} {WORD}", acl=["org:*"])
        item = {
            "type": "note",
            "title": name,
            "content": f"# {name}\n\nThe {WORD} whom {text}.",
            "metadata": {"year": 2024 if name == "Grain" else 2026, "tags": [name.lower()]},
        }
        response = api.http.post(f"/api/knowledge-bases/{ids[name]}/items", json={"items": [item]})
        assert response.status_code == 202, response.text
    for base in ids.values():
        page.goto(f"{ui_url}/b/{base}")
        expect(page.get_by_role("row").first).to_contain_text("Indexed")
    return ids


def test_all_bases_are_searched_filtered_and_explained_by_the_keyboard(
    page: Page, ui_url: str, two_bases: dict[str, str]
) -> None:
    """From ⌘K to the passage and back; every filter is in the address."""
    page.goto(ui_url)
    expect(page.get_by_role("link", name=re.compile(WORD)).first).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Go to a base or page, or search everything")).to_be_focused()
    page.keyboard.insert_text(f"whom {WORD}")
    expect(page.get_by_role("option", name="Search all bases for")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    hits = page.locator(".hit")
    expect(hits.first).to_be_visible()
    expect(page.locator("#main")).to_be_focused()  # the new page has taken the focus
    page.get_by_role("button", name="Keyword").press("Enter")  # other tests have texts that are close to any
    expect(page).to_have_url(re.compile("mode=text"))
    expect(hits).to_have_count(2)
    assert {mark.lower() for mark in page.locator(".hit mark").all_inner_texts()} == {WORD}
    assert "**" not in page.locator(".results").inner_text()
    address = page.url

    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search all bases")).to_be_focused()
    for _ in range(3):  # from the field to the first, to the second, and no further
        page.keyboard.press("ArrowDown")
    expect(hits.nth(1).get_by_role("link")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(hits.nth(0).get_by_role("link")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/b/[^/]+/i/[^?]+\?q=whom\+{WORD}&.*from=search&chunk="))
    page.go_back()
    expect(page).to_have_url(address)

    page.get_by_role("button", name="Explain").press("Enter")
    expect(hits.first).to_contain_text(f"It has “{WORD}”")
    expect(hits.first).to_contain_text("Altogether it")
    panel = page.get_by_role("complementary", name="Filters")
    panel.get_by_role("checkbox", name=f"Grain {WORD}").press(" ")
    expect(hits).to_have_count(1)
    expect(page).to_have_url(re.compile(f"bases={two_bases['Grain']}"))
    page.reload()
    expect(hits).to_have_count(1)
    panel.get_by_role("button", name="Clear filters").press("Enter")
    expect(hits).to_have_count(2)


def test_the_focus_stays_at_its_hit_when_new_results_replace_the_old(
    page: Page, ui_url: str, two_bases: dict[str, str]
) -> None:
    """Someone who goes on by the keyboard while a search runs doesn't start over; if the hit is gone, at the first one."""
    page.goto(f"{ui_url}/search?q=whom+{WORD}&bases={','.join(two_bases.values())}")
    hits = page.locator(".hit")
    expect(hits).to_have_count(2)
    grain = hits.filter(has_text="Grain").get_by_role("link")
    held: list[Route] = []
    page.route("**/api/search", lambda route: held.append(route))
    with page.expect_request("**/api/search"):
        page.get_by_role("button", name="Keyword").press("Enter")
    grain.focus()
    with page.expect_response("**/api/search"):
        held.pop().continue_()
    expect(hits.first.get_by_role("img", name="semantic rank –")).to_be_visible()  # the new results
    expect(grain).to_be_focused()

    explain = page.get_by_role("button", name="Explain")
    explain.press("Enter")
    expect(explain).to_have_attribute("aria-pressed", "true")
    expect(explain).to_be_focused()

    with page.expect_request("**/api/search"):
        page.get_by_role("checkbox", name=f"Stones {WORD}").press(" ")
    hits.filter(has_text="Stones").get_by_role("link").focus()
    held.pop().continue_()
    expect(hits).to_have_count(1)
    expect(grain).to_be_focused()


def test_conditions_tags_and_the_lowest_score_narrow_the_hits(
    page: Page, ui_url: str, two_bases: dict[str, str]
) -> None:
    """A score that nothing reaches is a state of its own, with a way out."""
    page.goto(f"{ui_url}/search?q={WORD}&bases={','.join(two_bases.values())}")
    hits = page.locator(".hit")
    expect(hits).to_have_count(2)
    panel = page.get_by_role("complementary", name="Filters")
    panel.get_by_text("Metadata", exact=True).click()
    panel.get_by_role("button", name="Add condition").click()
    panel.get_by_label("Name of the entry").fill("year")
    panel.get_by_label("Comparison").select_option("≥")
    panel.get_by_label("Value").fill("2025")
    panel.get_by_label("Value").press("Tab")
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text("Stones")
    panel.get_by_role("button", name="Remove condition 1").click()
    panel.get_by_label("Tags").fill("grain")
    panel.get_by_label("Tags").press("Tab")
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text("Grain")
    panel.get_by_role("checkbox", name="Web pages").press(" ")
    expect(page.get_by_role("heading", name="No results")).to_be_visible()
    page.get_by_role("main").get_by_role("region").get_by_role("button", name="Clear filters").click()
    expect(hits.filter(has_text=f"The {WORD}")).to_have_count(2)
    expect(page).to_have_url(f"{ui_url}/search?q={WORD}")
    page.goto(f"{ui_url}/search?q=nothing+{WORD}x&mode=vector&min=1&bases={two_bases['Grain']}")
    expect(page.get_by_role("heading", name="Nothing fits")).to_be_visible()
    page.get_by_role("button", name="Show the closest anyway").click()
    expect(hits).to_have_count(1)
    page.goto(f"{ui_url}/search?q={WORD}&mode=text&bases={uuid4()}")
    expect(page.get_by_role("heading", name="Nothing to search")).to_be_visible()
    page.get_by_role("main").get_by_role("button", name="Search all bases").click()
    expect(hits).to_have_count(2)


def test_a_search_is_saved_renamed_and_deleted_and_brought_back(
    page: Page, ui_url: str, two_bases: dict[str, str]
) -> None:
    name = f"mine {uuid4().hex[:6]}"
    page.goto(f"{ui_url}/search?q={WORD}&bases={two_bases['Grain']}&types=note")
    expect(page.locator(".hit")).to_have_count(1)
    page.get_by_role("button", name="Save search").click()
    dialog = page.get_by_role("dialog", name="Save search")
    expect(dialog.get_by_label("Name")).to_have_value(WORD)
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    page.goto(f"{ui_url}/search")
    link = page.get_by_role("list", name="Saved searches").get_by_role("link", name=name)
    link.click()
    expect(page.locator(".hit")).to_have_count(1)
    expect(page).to_have_url(re.compile(f"bases={two_bases['Grain']}&types=note"))
    page.get_by_role("button", name="Save search").click()
    dialog.get_by_label("Name").fill(name.upper())
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("You have a saved search named")
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"Actions for {name}").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(link).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(link).to_be_visible()


def test_a_phone_in_chinese_shows_hits_or_filters(
    browser: Browser, ui_url: str, two_bases: dict[str, str]
) -> None:
    with profile(browser, PHONE, language="zh-CN") as tabs:
        page = tabs.open(f"{ui_url}/search?q={WORD}&bases={','.join(two_bases.values())}")
        hits = page.locator(".hit")
        expect(hits).to_have_count(2)
        panel = page.get_by_role("complementary", name="筛选")
        expect(panel).not_to_be_visible()
        page.get_by_role("button", name="筛选（1）").click()
        expect(panel.get_by_text("最低得分").first).to_be_visible()
        expect(hits.first).not_to_be_visible()
        assert violations(page) == []
        page.get_by_role("button", name="筛选（1）").click()
        page.get_by_role("navigation", name="页面").get_by_role("link", name="搜索").click()
        expect(page.get_by_role("heading", name="搜索所有知识库")).to_be_visible()
        assert tabs.errors == []


def test_a_base_whose_embedder_is_down_is_searched_by_words_and_the_page_says_so(
    browser: Browser, page: Page, ui_url: str, api: ApiHelper
) -> None:
    """In both languages, with the reason; a search by meaning alone says that it failed."""
    name = f"fails-{uuid4().hex[:6]}"
    with endpoint.serve() as provider:
        embedder = {
            "name": name,
            "kind": "openai",
            "url": provider.url,
            "model": "hashed",
            "dimensions": 64,
        }
        assert (stored := api.http.post("/api/embedders", json=embedder)).status_code == 201, stored.text
        base = api.create_base(f"Down {name}", embedder=name)
        api.add_notes(base, f"The hopper {name} is empty.")
        page.goto(f"{ui_url}/b/{base}")
        expect(page.get_by_role("row").first).to_contain_text("Indexed")
        provider.always_respond(429, {"error": "slow down"}, Retry_After="600")
        page.goto(f"{ui_url}/search?q=hopper+{name}&bases={base}")
        expect(page.locator(".hit")).to_have_count(1)
        expect(page.locator(".results")).to_contain_text(f"“Down {name}” was searched by words only: ")
        assert violations(page) == []
        with profile(browser, PHONE, language="zh-CN") as tabs:
            narrow = tabs.open(f"{ui_url}/b/{base}?q=hopper+{name}&pane=search")
            expect(narrow.locator(".results")).to_contain_text(
                re.compile(f"“Down {name}”仅按词语搜索：[^a-z]{{4}}")
            )
            assert tabs.errors == []
        page.goto(f"{ui_url}/search?q=hopper&mode=vector&bases={base}")
        expect(page.get_by_role("heading", name="The search failed")).to_be_visible()


def test_without_a_chat_model_a_question_says_so_and_the_hits_are_there(
    page: Page, ui_url: str, two_bases: dict[str, str]
) -> None:
    page.goto(f"{ui_url}/b/{two_bases['Grain']}?q={WORD}")
    expect(page.locator(".hit")).to_have_count(1)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("region", name="Answer")).to_contain_text("No answers here yet")
    expect(page.locator(".hit")).to_have_count(1)
    assert violations(page) == []


# ── with a chat model ────────────────────────────────────────────────────────────────────────────────────


def test_the_sample_base_answers_questions_with_citations_that_open_their_passage(
    page: Page, server_url: str, cache_dir: Path
) -> None:
    """From an empty installation: one click, a question, a stop, an answer, its passage, and a refusal."""
    with server_with_model(server_url, cache_dir) as (url, chat):
        chat.reply = lambda _: ["Dull stones rub ", "**hard** <img src=x onerror=alert(1)> [1]."]
        chat.may_go_on.clear()
        page.goto(url)
        page.get_by_role("button", name="Try the sample base").click()
        expect(page.get_by_role("row").filter(has_text="Indexed")).to_have_count(8)

        page.get_by_role("searchbox", name="Search this base").fill("dull stones rub the flour")
        page.get_by_role("button", name="Ask", exact=True).click()
        answer = page.get_by_role("region", name="Answer")
        expect(answer).to_contain_text("Dull stones rub")  # the first part; the model waits
        answer.get_by_role("button", name="Stop").click()
        expect(answer.get_by_role("status")).to_have_text("Stopped")
        assert chat.has_lost_client.wait(20)
        chat.may_go_on.set()
        answer.get_by_role("button", name="Ask again").click()
        expect(answer.locator(".answer-text")).to_have_text(
            "Dull stones rub hard <img src=x onerror=alert(1)> 1."
        )
        expect(answer.locator("img")).to_have_count(0)
        source = answer.get_by_role("list", name="Sources").get_by_role("listitem")
        expect(source).to_have_count(1)
        assert violations(page) == []
        asked = len(chat.requests)
        answer.get_by_role("link", name=re.compile("Passage 1")).click()
        expect(page).to_have_url(re.compile(r"/i/.*chunk="))
        page.go_back()
        expect(answer.locator(".answer-text")).to_contain_text("Dull stones rub hard")
        assert len(chat.requests) == asked  # the answer was kept

        chat.reply = lambda _: ["Nothing in the knowledge base answers this question."]
        held: list[Route] = []  # someone asks before the page knows that there is a model
        page.route("**/api/capabilities", lambda route: held.append(route))
        with page.expect_request("**/api/capabilities"):
            page.goto(f"{url}/search")
        expect(page.get_by_role("searchbox").first).to_be_visible()
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox").first).to_be_focused()
        page.keyboard.insert_text("dull stones and the price of tea")
        page.keyboard.press("Control+Enter")
        held[0].continue_()
        page.unroute("**/api/capabilities")
        expect(answer).to_contain_text(re.compile("None of the passages|Nothing that you can see"))
        chat.status = 500
        page.get_by_role("searchbox").fill("dull stones again")
        page.keyboard.press("Control+Enter")
        expect(answer.get_by_role("status")).to_have_text("No answer")
        chat.status = 200
