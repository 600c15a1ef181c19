"""From a search to the reader and back: its hits, its filters and its marked words stay."""

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.readers import samples
from tests.ui.harness import ApiHelper, Tabs, violations
from tests.ui.test_reader import add_files

pytestmark = pytest.mark.browser

WORD = f"tapir{uuid4().hex[:6]}"


def query_of(page: Page) -> dict[str, list[str]]:
    """The parameters of the page's address."""
    return parse_qs(urlsplit(page.url).query)


def test_a_hit_of_the_search_over_all_bases_keeps_that_search(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """Its hits in two bases by j and k, and back to it with its bases, mode and filters."""
    bases = [api.create_base(f"Zoo {number} {WORD}") for number in range(2)]
    for number, base in enumerate(bases):
        add_files(api, base, {f"animals-{number}.md": f"# Animals\n\nA {WORD} sleeps.".encode()})
        api.add_notes(base, f"A note about a {WORD}.")
    chosen = f"q={WORD}&mode=text&bases={','.join(bases)}&types=file"
    page.goto(f"{ui_url}/search?{chosen}")
    expect(page.locator(".hit")).to_have_count(2)
    page.locator(".hit a").first.click()
    expect(page.get_by_text("hit 1 of 2")).to_be_visible()
    first = urlsplit(page.url).path
    page.keyboard.press("j")
    expect(page.get_by_text("hit 2 of 2")).to_be_visible()
    assert urlsplit(page.url).path.split("/")[2] != first.split("/")[2]  # it is in the other base
    expect(page.locator(".text-block mark").first).to_have_text(WORD)
    page.get_by_role("button", name="Details").click()
    page.get_by_role("link", name="Open reader").click()
    expect(page.get_by_role("button", name="Back to search")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/search\?"))
    assert query_of(page) == parse_qs(chosen)
    expect(page.locator(".hit")).to_have_count(2)


def test_a_hit_of_a_base_keeps_its_mode_filter_and_lowest_score(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base("Zoo")
    add_files(api, base, {"animals.md": b"# Animals\n\nA tapir sleeps."})
    api.add_notes(base, "A tapir and its calf.")
    api.wait_until_indexed(base)
    for chosen, n in (("q=tapir&mode=text&types=file", 1), ("q=tapir&mode=text&min=0.01", 2)):
        page.goto(f"{ui_url}/b/{base}?{chosen}")
        expect(page.locator(".hit")).to_have_count(n)
        page.locator(".hit a").first.click()
        expect(page.get_by_text(f"hit 1 of {n}")).to_be_visible()
        with page.expect_request("**/search") as request:
            page.reload()
        sent = json.loads(request.value.post_data or "{}")
        assert sent.get("minScore") == (0.01 if "min=" in chosen else None)
        page.get_by_role("button", name="Back to search").click()
        expect(page).to_have_url(f"{ui_url}/b/{base}?{chosen}")


def test_words_after_emoji_are_marked_where_they_are(page: Page, ui_url: str, api: ApiHelper) -> None:
    """The server counts code points, of which an emoji is one; also where lines of code begin."""
    base = api.create_base("Emoji")
    lines = "".join(f'say("😀😀😀😀😀😀 {number}")\n' for number in range(30))
    code = f"{lines}def tapir():\n    return 1\n\n\n{lines}"
    add_files(api, base, {"zoo.py": code.encode()})
    api.add_notes(base, "😀😀😀😀 team plan. The tapir sleeps.")
    api.wait_until_indexed(base)
    page.goto(f"{ui_url}/b/{base}?q=tapir&mode=text")
    page.locator(".hit", has_text="team plan").get_by_role("link").click()
    expect(page.locator(".text-block mark")).to_have_text(["tapir"])
    page.keyboard.press("Escape")
    page.locator(".hit", has_text="zoo.py").get_by_role("link").click()
    line = page.locator(".code-line", has_text="def tapir")
    expect(line).to_have_class(re.compile("passage"))
    chunk = query_of(page)["chunk"][0]
    item = urlsplit(page.url).path.split("/")[4]
    chunks = api.http.get(f"/api/knowledge-items/{item}/chunks").json()["items"]
    start = next(found["start"] for found in chunks if found["id"] == chunk)
    at = code.index("def tapir") + (start - code.index(next(c for c in chunks if c["id"] == chunk)["text"]))
    expect(line).to_have_attribute("data-start", str(at))


def test_a_hit_is_shown_and_opened_where_most_of_its_words_stand(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """On the page with the rare word, at the words of a paragraph that is higher than the window, and at no part of another word."""
    base = api.create_base("Birds")
    grain = "Of rye and oats. " * 400
    words = "The oriole's art is long: art of a cart, a party and a start.\n\nقال الطائر: نعم."
    files = {
        "birds.pdf": samples.pdf(
            [f"Of the {bird}.\nThe {bird} rests on the pier." for bird in ("heron", "bittern", "kestrel")]
        ),
        "grain.txt": f"{grain}Here a quetzal eats. {grain}".encode(),
        "words.md": words.encode(),
        "verse.txt": b"The magpie sings 2*3*4\nbeside the List<String>\n",
    }
    add_files(api, base, files)

    def open_hit(query: str, name: str) -> None:
        page.goto(f"{ui_url}/b/{base}?q={query}&mode=text")
        page.locator(".hit", has_text=name).first.get_by_role("link").click()

    page.goto(f"{ui_url}/b/{base}?q=kestrel+rests+pier&mode=text")
    expect(page.locator(".hit-where").first).to_contain_text("page 3")
    open_hit("kestrel+rests+pier", "birds.pdf")
    expect(page.locator('.page-image[data-page="3"] .page-mark-box.match').first).to_be_in_viewport()
    expect(page.get_by_text("page 3 of 3")).to_be_visible()
    open_hit("quetzal", "grain.txt")
    expect(page.locator(".text-block mark", has_text="quetzal")).to_be_in_viewport()
    open_hit("oriole+art", "words.md")
    expect(page.locator(".text-block mark")).to_have_text(["oriole", "art", "art"])
    arabic = page.locator(".text-block", has_text="قال")
    assert arabic.evaluate("block => getComputedStyle(block).direction") == "rtl"
    open_hit("magpie", "verse.txt")
    expect(page.locator(".text-block p br")).to_have_count(1)
    expect(page.locator(".text-block p")).to_contain_text("2*3*4")
    expect(page.locator(".text-block p")).to_contain_text("List<String>")


def test_a_link_to_a_passage_that_has_changed_opens_what_its_search_finds_now(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base("Changing")
    (note,) = api.add_notes(base, "# Swifts\n\nA swift nests below the roof.")
    api.wait_until_indexed(base)
    page.goto(f"{ui_url}/b/{base}?q=swift&mode=text")
    page.locator(".hit").get_by_role("link").click()
    expect(page.locator(".text-block mark")).to_have_text(["Swifts", "swift"])
    link = page.url
    text = "The roof is new. " * 40
    changed = api.http.patch(f"/api/knowledge-items/{note}", json={"content": f"{text}\n\nNo swift is here."})
    assert changed.status_code in (200, 202), changed.text
    api.wait_until_indexed(base)
    page.goto(f"{ui_url}/b/{base}?q=swift&mode=text")
    expect(page.locator(".hit")).to_contain_text("No swift is here")
    page.goto(link)
    expect(page.locator(".text-block mark")).to_have_text(["swift"])
    assert query_of(page)["chunk"] != parse_qs(urlsplit(link).query)["chunk"]
    page.goto(re.sub(r"q=[^&]*&", "", link))
    expect(page.locator(".banner")).to_contain_text("its passage is no longer there")
    expect(page.locator(".text-block").first).to_contain_text("The roof is new.")


def test_an_explanation_says_all_where_all_words_of_the_query_are_there(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """A query of one word too, in English and in Chinese; scores still weigh how little one word says."""
    base = api.create_base("Words")
    api.add_notes(base, "# Ice\n\nThe walrus sleeps on the ice.", "# 组件\n\n一个组件处理文件的事件。")
    api.wait_until_indexed(base)
    for query, words in (
        ("walrus", "It has “walrus”: all that you asked for."),
        ("组件", "It has “组件”: all that you asked for."),
        ("walrus bakery", "It has “walrus”: about half of what you asked for."),
    ):
        page.goto(f"{ui_url}/b/{base}?q={query}&mode=text&explain=1")
        expect(page.locator(".hit")).to_have_count(1)
        expect(page.locator(".hit")).to_contain_text(words)
    titled = [{"type": "note", "title": title, "content": "Rye."} for title in ("季度报告", "GPU policies")]
    api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": titled})
    api.wait_until_indexed(base)
    for query in ("季度报告", "gpu", "policy"):
        page.goto(f"{ui_url}/b/{base}?q={query}&explain=1")
        expect(page.locator(".hit").first).to_contain_text("Its title has words of your query")
        expect(page.locator(".hit").first).not_to_contain_text("by meaning only")
        expect(page.get_by_text("No document contains these words")).to_have_count(0)


# The page waits 280 ms for further letters.
LONGER_THAN_TYPING = 400


def test_letters_that_are_being_typed_search_for_nothing_and_stay_on_their_page(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """Those of which an input method makes a word, and those of someone who opens a hit at once."""
    base = api.create_base("Typing")
    api.add_notes(base, "# 组件\n\n一个组件处理文件的事件。")
    api.wait_until_indexed(base)
    queries = list[str]()
    page.on("request", lambda request: queries.extend(find_query(request.post_data)))
    page.clock.install()
    page.goto(f"{ui_url}/b/{base}")
    field = page.get_by_role("searchbox", name="Search this base")
    field.focus()
    method: Any = page.context.new_cdp_session(page)
    method.send("Input.imeSetComposition", {"text": "zu jian", "selectionStart": 7, "selectionEnd": 7})
    field.dispatch_event("keydown", {"key": "ArrowDown", "isComposing": True, "bubbles": True})
    page.clock.run_for(LONGER_THAN_TYPING)
    method.send("Input.insertText", {"text": "组件"})
    hit = page.locator(".hit a")
    expect(hit).to_be_visible()
    assert queries == ["组件"]
    page.evaluate(
        """() => {
          const field = document.querySelector("[data-search] input");
          field.value = "mill";
          field.dispatchEvent(new InputEvent("input", { bubbles: true }));
          document.querySelector(".hit > a").click();
        }"""
    )
    expect(page.locator(".text-block.passage").first).to_be_visible()
    page.clock.run_for(LONGER_THAN_TYPING)
    assert query_of(page)["q"] == ["组件"]


def find_query(body: str | None) -> list[str]:
    """The query of a request."""
    return [json.loads(body)["query"]] if body and '"query"' in body else []


def test_side_by_side_the_text_follows_the_pages(page: Page, ui_url: str, api: ApiHelper) -> None:
    """From the address, by the arrows and by scrolling; a passage stays in view on its page."""
    base = api.create_base("Pages")
    filler = "".join(f"\nSack {number} of the ledger." for number in range(30))
    texts = [f"Page {number} of the ledger.{filler}" for number in range(1, 13)]
    texts[8] += "\nA bittern booms."
    item = add_files(api, base, {"ledger.pdf": samples.pdf(texts)})["ledger.pdf"]
    region = page.get_by_role("region", name="Text")

    def expect_both_at(number: int) -> None:
        expect(page.get_by_text(f"page {number} of 12")).to_be_visible()
        expect(region.locator(f'[data-page="{number}"] > .part-name')).to_be_in_viewport()
        expect(region.locator(f'[data-page="{number - 1}"] > .part-name')).not_to_be_in_viewport()

    page.goto(f"{ui_url}/b/{base}/i/{item}/read?view=both&page=4")
    expect_both_at(4)
    page.keyboard.press("ArrowRight")
    expect_both_at(5)
    page.get_by_role("region", name="Pages").evaluate("region => region.scrollTop = 0")
    expect_both_at(1)
    page.goto(f"{ui_url}/b/{base}?q=bittern&mode=text")
    page.locator(".hit a").click()
    expect(page.locator(".page-mark-box.match")).to_be_in_viewport()
    page.get_by_role("button", name="Side by side").click()
    expect(region.locator("mark")).to_be_in_viewport()
    page.keyboard.press("ArrowRight")
    expect_both_at(10)
    page.keyboard.press("ArrowLeft")
    expect(region.locator("mark")).to_be_in_viewport()


# A footnote is far from its note, which is one word: markdown takes `[^1]: Dry` for the address of a link.
WEIGHTS = f"""# Weights

A sack[^1] weighs more after rain, says the tapir.

{"".join(f"Field {number} was sown with rye and oats, and cut in autumn.{chr(10) * 2}" for number in range(1500))}
[^1]: Dry
"""


def test_a_link_to_the_place_is_copied_and_an_unknown_document_is_explained(
    tabs: Tabs, ui_url: str, api: ApiHelper
) -> None:
    """To the passage or page that is in view, or else to the text there; a footnote leads to its note, and back."""
    base = api.create_base("Links")
    files = {
        "two.pdf": samples.pdf(["A heron.", "A bittern."]),
        "weights.md": WEIGHTS.encode(),
        "blank.txt": b"",
    }
    items = add_files(api, base, files)
    item, blank = items["two.pdf"], items["blank.txt"]
    tabs.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tabs.open(f"{ui_url}/b/{base}?q=tapir&mode=text")
    refusals = list[str]()
    page.on("response", lambda response: refusals.append(response.url) if response.status >= 400 else None)
    page.locator(".hit a").click()
    copy = page.get_by_role("button", name="Copy link to this place")
    expect(page.locator(".text-block mark")).to_be_in_viewport()
    copy.click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.get_by_role("link", name="1", exact=True).press("Enter")
    back = page.get_by_role("link", name="Back to the text")
    expect(back).to_be_focused()
    expect(back).to_be_in_viewport()
    expect(page.locator(".text-block", has_text="Dry")).to_have_text(re.compile("^1 Dry"))
    assert violations(page) == []
    copy.click()
    expect(page.get_by_text("Copied")).to_have_count(2)
    link = page.evaluate("navigator.clipboard.readText()")
    back.press("Enter")
    expect(page.get_by_role("link", name="1", exact=True)).to_be_focused()
    page.goto(link)
    expect(back).to_be_in_viewport()
    expect(page.get_by_text("says the tapir")).to_have_count(0)  # it is far above
    page.get_by_role("navigation", name="Outline").get_by_role("button", name="Weights").click()
    expect(page.get_by_text("says the tapir")).to_be_in_viewport()
    assert refusals == []  # pages of a text are not refused: browsers log that

    page.goto(f"{ui_url}/b/{base}?q=heron&mode=text")
    page.locator(".hit a").click()
    expect(page.locator(".page-mark-box.match")).to_be_visible()
    copy.click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("page 2 of 2")).to_be_visible()
    copy.click()
    expect(page.get_by_text("Copied")).to_have_count(2)
    link = page.evaluate("navigator.clipboard.readText()")
    assert "chunk=" not in link
    page.goto(link)
    expect(page.get_by_text("page 2 of 2")).to_be_visible()
    for path, text in ((f"{blank}/read", "This document has no text."), (blank, "No chunks to show")):
        page.goto(f"{ui_url}/b/{base}/i/{path}")
        expect(page.locator(".empty").get_by_text(text)).to_be_visible()
    page.goto(f"{ui_url}/b/{base}/i/{uuid4()}/read")
    expect(page.get_by_role("heading", name="No content to show")).to_be_visible()
    assert violations(page) == []
    assert item in link


def test_the_search_page_opens_with_the_focus_in_its_field(page: Page, ui_url: str, api: ApiHelper) -> None:
    api.create_base("Focus")
    page.goto(f"{ui_url}/search")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.get_by_role("link", name="Bases", exact=True).click()
    expect(page).to_have_url(f"{ui_url}/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Search").click()
    expect(page.get_by_role("searchbox")).to_be_focused()
